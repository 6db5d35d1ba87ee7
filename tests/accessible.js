// Looks at a page as it stands. `doc` is the document, or that of a frame in it.
({
  // How many texts are seen, and rows of [ratio, wanted ratio, text, colour, ground, class] for those that are too pale. Ratios are those
  // of WCAG 2.1 (1.4.3): 4.5 to 1, and 3 to 1 from 24 pixels on, or 18.66 if bold. What is switched off need not be read.
  pale(doc) {
    const pen = doc.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const rgba = (text) => {
      if (!known.has(text)) {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = text;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
        known.set(text, [r, g, b, a / 255]);
      }
      return known.get(text);
    };
    const over = (top, below) => [0, 1, 2].map((k) => top[3] * top[k] + (1 - top[3]) * below[k]).concat(1);
    const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    const light = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
    const ratio = (a, b) => {
      const [dark, bright] = [light(a), light(b)].sort((x, y) => x - y);
      return (bright + 0.05) / (dark + 0.05);
    };
    const ground = (element) => {
      const layers = [];
      for (let e = element; e; e = e.parentElement) {
        layers.push(rgba(getComputedStyle(e).backgroundColor));
        if (layers.at(-1)[3] === 1) break;
      }
      const dark = getComputedStyle(doc.documentElement).colorScheme === "dark";
      let below = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
      for (const layer of layers.reverse()) below = over(layer, below);
      return below;
    };
    const opacity = (element) => {
      let all = 1;
      for (let e = element; e; e = e.parentElement) all *= Number(getComputedStyle(e).opacity);
      return all;
    };
    const bad = [];
    let count = 0;
    const judge = (element, text, colour) => {
      const style = getComputedStyle(element), box = element.getBoundingClientRect(), seen = opacity(element);
      const off = element.closest("[disabled]:not(textarea), [aria-hidden=true]");
      if (!box.width || !box.height || style.visibility === "hidden" || off || seen < 0.05) return;
      const back = ground(element), ink = rgba(colour), front = over([...ink.slice(0, 3), ink[3] * seen], back);
      const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
      const wanted = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5, found = ratio(front, back);
      count += 1;
      const who = `${element.className?.baseVal ?? element.className}`.slice(0, 60);
      if (found < wanted) bad.push([Number(found.toFixed(2)), wanted, text.trim().slice(0, 40), colour, back.slice(0, 3).join(" "), who]);
    };
    const walk = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || !element || element.closest("script, style, noscript, option")) continue;
      const style = getComputedStyle(element);
      judge(element, node.data, element.namespaceURI.endsWith("svg") ? style.fill : style.color);
    }
    const typed = "input:not([type=hidden], [type=radio], [type=checkbox], [type=range]), textarea, select";
    for (const field of doc.querySelectorAll(typed)) if (field.value) judge(field, field.value, getComputedStyle(field).webkitTextFillColor);
    return [count, bad];
  },
  named(element) {
    const by = element.ownerDocument.getElementById(element.getAttribute("aria-labelledby") ?? "");
    const words = [element.getAttribute("aria-label"), by?.textContent, element.labels?.[0]?.textContent, element.textContent, element.title];
    return (words.find((word) => word?.trim()) ?? "").trim().slice(0, 40);
  },
  // Everything that a hand can use: what it is, what it is called, and where it stands in the order of the Tab key.
  controls(doc) {
    const kinds = "button, a[href], input:not([type=hidden]), select, textarea, [role=slider], [role=button], [role=combobox]";
    const folded = (e) => e && (e.inert || (e.clientHeight === 0 && getComputedStyle(e).overflow !== "visible") || folded(e.parentElement));
    const seen = (e) => e.getBoundingClientRect().width > 0 && e.checkVisibility({ visibilityProperty: true, opacityProperty: true })
      && !e.disabled && !folded(e.parentElement);
    return [...doc.querySelectorAll(kinds)].filter(seen).map((e) => [`${e.tagName} ${e.getAttribute("role") ?? ""}`, this.named(e), e.tabIndex]);
  },
  // What has the focus, and whether one sees that it has.
  active(doc) {
    const e = doc.activeElement, style = getComputedStyle(e);
    return [this.named(e), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0];
  },
  moving(doc) {
    return doc.getAnimations().filter((a) => a.playState === "running").map((a) => `${a.effect?.target?.className}`);
  },
})

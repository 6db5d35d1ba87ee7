// Where a processor draws instead of a graphics card, a moving picture matters more than a sharp one: no smoothing of edges, and half
// the resolution as soon as viser finds that pictures come slowly (it multiplies what it is told here).
const soft = (() => {
  const probe = document.createElement("canvas").getContext("webgl2");
  const known = probe?.getExtension("WEBGL_debug_renderer_info");
  const name = known ? probe.getParameter(known.UNMASKED_RENDERER_WEBGL) : "";
  probe?.getExtension("WEBGL_lose_context")?.loseContext();
  if (!/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name)) return false;
  const sharp = window.devicePixelRatio; // a map of a sweep stands still: it stays as sharp as it can be
  Object.defineProperty(window, "devicePixelRatio", { get: () => (document.querySelector("[data-carom-frame]") ? 0.5 : 1) * sharp });
  const open = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return open.call(this, kind, kind.startsWith("webgl") ? { ...options, antialias: false } : options);
  };
  return true;
})();
// What carom adds to viser's page: names for controls that have none, the reader's colours, and a title.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let asked = false;
  function name(control, text) {
    if (control && text && !control.getAttribute("aria-label")) control.setAttribute("aria-label", text);
  }
  function fold(head, what) {
    head.setAttribute("role", "button");
    head.tabIndex = 0;
    name(head, `fold or unfold ${what}`);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); head.click(); } });
  }
  let below = null;
  const sizes = new ResizeObserver(() => document.documentElement.style.setProperty("--carom-panel", `${below?.offsetHeight ?? 0}px`));
  function look() {
    for (const label of document.querySelectorAll("label[for]")) {
      const text = label.textContent.trim(), target = document.getElementById(label.htmlFor);
      name(target?.matches("[role=slider], input, textarea, select") ? target : null, text);
      const row = label.parentElement?.parentElement?.parentElement;
      if (row) for (const control of row.querySelectorAll("[role=slider], input:not([type=hidden]), textarea")) name(control, text);
      if (text === "dark" && dark && !asked) { // each reader's own box: ticked once, as a hand would
        const box = row?.querySelector("input[type=checkbox]");
        if (box && !box.checked) { asked = true; box.click(); }
      }
    }
    for (const button of document.querySelectorAll("button:not([aria-label])")) { // those that show only a drawing
      if (button.textContent.trim()) continue;
      const drawing = button.querySelector("svg")?.getAttribute("class") ?? "";
      const known = { adjustments: "settings of the view", "list-search": "commands and their keys", minus: "fold the panel", plus: "unfold the panel" };
      const found = Object.keys(known).find((word) => drawing.includes(word));
      name(button, /close/i.test(button.className) ? "close" : found ? known[found] : drawing.match(/tabler-icon-([a-z-]+)/)?.[1] ?? "more");
    }
    for (const head of document.querySelectorAll('.mantine-Paper-root[style*="cursor: pointer"]:not([role])')) fold(head, head.textContent.trim()); // of folders: for a mouse alone
    const panel = document.querySelector('.mantine-Paper-root[style*="bottom: 0"]'); // where the page is narrow, it lies below the scene
    const title = [...(panel?.querySelectorAll('[style*="cursor: pointer"][style*="height: 3.5em"] > div') ?? [])].find((part) => part.textContent.trim());
    if (title && !title.getAttribute("role")) fold(title, "the controls");
    if (panel !== below) { // the scene ends where the panel begins: all of it is seen, whether the panel is folded or not
      sizes.disconnect();
      below = panel;
      if (panel) sizes.observe(panel); else document.documentElement.style.removeProperty("--carom-panel");
    }
    document.getElementById("root")?.setAttribute("role", "main");
    for (const canvas of document.querySelectorAll("canvas:not([role])")) {
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", "the scene; the controls beside it say what happens");
    }
    if (document.title !== "carom") document.title = "carom";
  }
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; look(); }, 150);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
// A key that moves or presses the control that has the focus does that alone: Home on the slider of gravity is no wish to see the start,
// Space on "Restart" none to pause, an arrow on a slider none to turn the view. The page's own keys are heard above the body, where such
// a key does not arrive.
(() => {
  const own = "button, a, input, select, textarea, [role=slider], [role=option], [role=tab], [role=checkbox], [role=button]";
  const moved = "input, select, textarea, [role=slider], [role=option], [role=tab]"; // by the arrow keys
  const keep = (event) => {
    const mine = event.key.startsWith("Arrow") ? moved : [" ", "Home", "End"].includes(event.key) ? own : "";
    if (mine && event.target.closest?.(mine)) event.stopPropagation();
  };
  const listen = () => document.body.addEventListener("keydown", keep);
  if (document.body) listen(); else addEventListener("DOMContentLoaded", listen);
})();
// A field that only says something is as high as what it says, up to a third of the page: viser shows six lines of the reason why a
// run failed, and what to try is in the seventh. That something failed or was refused is said to those who listen, too.
(() => {
  const aloud = Object.assign(document.createElement("div"), { id: "carom-aloud", role: "status" });
  setInterval(() => {
    let news = "";
    for (const field of document.querySelectorAll("textarea:disabled")) {
      if (field.value.length < 150) field.style.minHeight = "";
      else if (field.scrollHeight > field.clientHeight + 2) field.style.minHeight = `${Math.min(field.scrollHeight + 4, innerHeight / 3)}px`;
      news += field.ariaLabel === "refused" ? `refused: ${field.value}` : field.value.match(/^(failed|this page failed): .*/m)?.[0] ?? "";
    }
    if (!aloud.isConnected) document.body?.append(aloud);
    else if (aloud.textContent !== news) aloud.textContent = news;
  }, 250);
})();
// What this page has seen so far, how long a picture takes it and how large it is, said four times a second: the server sends no more
// than the slowest page can draw.
(() => {
  const who = Math.floor(Math.random() * 1e9).toString();
  let last = "", gap = 0;
  const measure = () => requestAnimationFrame((a) => requestAnimationFrame((b) => { gap = gap ? 0.6 * gap + 0.4 * (b - a) : b - a; }));
  setInterval(() => {
    const frame = document.querySelector("[data-carom-frame]")?.dataset.caromFrame ?? "";
    if (!frame || frame === last || document.hidden) return;
    last = frame;
    measure();
    const scene = document.querySelector("canvas[data-engine]");
    const said = { who, frame, gap: Math.round(gap), soft: soft ? 1 : 0, wide: scene?.clientWidth ?? 0, high: scene?.clientHeight ?? 0 };
    fetch(`/seen?${new URLSearchParams(said)}`, { cache: "no-store" }).catch(() => {});
  }, 250);
})();

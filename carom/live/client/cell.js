// A model to play with in a notebook's cell: knobs above the report's player, which is in a frame of its own. The kernel computes.

async function unpack(view) { // gzip to text
  const stream = new Blob([view]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
function make(tag, attributes = {}, ...inside) { // an element; what is inside is text or other elements, never markup
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...inside);
  return element;
}
const short = (x) => Number(Number(x).toPrecision(6)).toString();

// Asks the kernel one thing at a time. Of what is asked for meanwhile only the latest of each kind is kept: a slider that is dragged
// does not leave a queue behind it.
function asking(model, busy) {
  const who = Math.random().toString(36).slice(2), waiting = new Map();
  let count = 0, open = null, late = 0;
  function next() {
    clearTimeout(late);
    const [first] = waiting;
    open = first ? `${who}-${++count}` : null;
    busy(first ? "computing …" : "");
    if (!first) return;
    waiting.delete(first[0]);
    late = setTimeout(() => busy("still computing: the kernel is busy, or it is not running"), 10000);
    model.send({ ask: open, ...first[1] });
  }
  const answer = (said) => { if (said && said.answered && said.answered === open) next(); };
  model.on("msg:custom", answer);
  return {
    ask: (key, what) => { waiting.set(key, what); if (open === null) next(); },
    idle: () => open === null && !waiting.size,
    end: () => { clearTimeout(late); model.off("msg:custom", answer); },
  };
}

function knob({ name, low, high, step, whole }, turn) { // a slider, and a field for exact numbers
  const slider = make("input", { type: "range", min: low, max: high, step, ariaLabel: name });
  const field = make("input", { type: "number", step: whole ? 1 : "any", ariaLabel: `${name}, as a number` });
  slider.oninput = () => { field.value = short(slider.value); turn(Number(slider.value)); };
  field.onchange = () => { if (field.value !== "" && Number.isFinite(Number(field.value))) turn(Number(field.value)); };
  return {
    element: make("div", { className: "carom-knob" }, make("span", {}, name), slider, field),
    set: (value) => { slider.value = value; field.value = short(value); },
  };
}
function choice(name, options, choose) {
  const select = make("select", { ariaLabel: name }, ...options.map((option) => new Option(option, option)));
  select.onchange = () => choose(select.value);
  return { element: make("label", { className: "carom-choice" }, name + " ", select), set: (value) => { select.value = value; } };
}

function controls(model, ask, say) {
  const options = model.get("options"), choose = (key) => (value) => ask(key, { do: "choose", with: { [key]: value } });
  const knobs = model.get("knobs").map((one) => [one.name, knob(one, (value) => ask(`knob ${one.name}`, { do: "turn", with: { knob: one.name, value } }))]);
  const choices = Object.entries({ method: "method", dt: "dt", beside: "energy beside" }).filter(([key]) => options[key].length)
    .map(([key, words]) => [key, choice(words, options[key], choose(key))]);
  const button = (words, act) => make("button", { type: "button", onclick: act }, words);
  const length = make("span", { className: "carom-length" });
  const row = make("div", { className: "carom-row" }, ...choices.map(([, one]) => one.element),
    button("Restart", () => say({ carom: "restart" })),
    button("Longer", () => ask("last", { do: "last", with: { num_steps: 2 * model.get("chosen").num_steps } })),
    button("Shorter", () => ask("last", { do: "last", with: { num_steps: Math.max(1, Math.ceil(model.get("chosen").num_steps / 2)) } })),
    button("Reset", () => ask("reset", { do: "reset" })), length);
  if (options.shape.length) { // a world takes bodies
    const shape = make("select", { ariaLabel: "shape to add" }, ...options.shape.map((option) => new Option(option, option)));
    const size = make("input", { type: "number", step: "any", min: 0, value: short(options.size), ariaLabel: "half its size", className: "carom-size" });
    const add = () => ask("add", { do: "add", with: { shape: shape.value, size: Number(size.value) } });
    row.append(make("span", { className: "carom-choice" }, shape, " ", size, " ", button("Add a body", add)));
  }
  const sliders = make("div", { className: "carom-knobs", role: "group", ariaLabel: "numbers of the model" }, ...knobs.map(([, one]) => one.element));
  function set() { // as the kernel has it
    const values = model.get("values"), chosen = model.get("chosen");
    for (const [name, one] of knobs) one.set(values[name]);
    for (const [key, one] of choices) one.set(chosen[key]);
    length.textContent = `${chosen.num_steps} steps, to t = ${short(chosen.t)}`;
  }
  return { elements: knobs.length ? [sliders, row] : [row], set };
}

function dark() { // the colours of the notebook around it, where it says so
  const { jpThemeLight } = document.body.dataset, names = document.body.classList;
  if (jpThemeLight) return jpThemeLight === "false";
  return names.contains("vscode-dark") || names.contains("vscode-high-contrast") ? true : names.contains("vscode-light") ? false : null;
}

function render({ model, el }) {
  const frame = make("iframe", { title: `a run of ${model.get("name")}`, className: "carom-frame" });
  frame.setAttribute("sandbox", "allow-scripts allow-downloads"); // what is in it cannot reach the notebook
  const message = make("p", { className: "carom-message", role: "alert" }), state = make("p", { className: "carom-state", role: "status" });
  const say = (what) => frame.contentWindow && frame.contentWindow.postMessage(what, "*");
  const questions = asking(model, (words) => { state.textContent = words; });
  const panel = controls(model, questions.ask, say);
  let here = false;
  async function show() { // the run as it is now; the frame came with the first one
    const packed = model.get("shown");
    if (!here || !packed.byteLength) return;
    const run = JSON.parse(await unpack(packed));
    if (packed === model.get("shown")) say({ carom: "show", run }); // unless another has come meanwhile
  }
  const colours = () => { const on = dark(); if (here && on !== null) say({ carom: "theme", dark: on }); };
  function heard(event) {
    if (event.source !== frame.contentWindow) return;
    if (event.data?.carom === "hand") questions.ask("hand", { do: "pull", with: event.data.with }); // of the places of a hand the latest word
    if (event.data?.carom !== "here") return;
    here = true;
    colours();
    show();
  }
  const tell = () => { message.textContent = model.get("message"); message.hidden = !message.textContent; };
  const set = () => { if (questions.idle()) panel.set(); }; // not under the hand that moves a slider
  const changes = { "change:shown": show, "change:message": tell, "change:values": set, "change:chosen": set };
  window.addEventListener("message", heard);
  for (const [name, act] of Object.entries(changes)) model.on(name, act);
  model.on("msg:custom", set); // after the last answer all is as the kernel has it: also what was refused
  const watch = new MutationObserver(colours);
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
  el.classList.add("carom-play");
  el.dataset.lmSuppressShortcuts = "true"; // keys belong to what is in focus here
  el.append(...panel.elements, message, state, frame);
  panel.set();
  tell();
  unpack(model.get("page")).then((page) => { frame.srcdoc = page; });
  return () => {
    window.removeEventListener("message", heard);
    for (const [name, act] of Object.entries(changes)) model.off(name, act);
    model.off("msg:custom", set);
    watch.disconnect();
    questions.end();
  };
}

export default { render };

"use strict";
const $ = (id) => document.getElementById(id);
const FLASHES = 3; // in a second: what flashes more often harms (WCAG 2.3.1), and tells nothing
const FEW = 12; // bodies: the forces on more of them would hide them

// Shows a run on the page. `was` says where the run that was shown before it stood: this one goes on from there.
function player(data, was) {
  const plain = (s) => String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function unpack(text, type) { // base64 to numbers
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new { f4: Float32Array, f8: Float64Array, i4: Int32Array }[type](bytes.buffer);
  }
  function unroll({ steps, origin, unit, count, dim }) { // 16 bits for each number: how it differs from the frame before
    const bytes = Uint8Array.from(atob(steps), (c) => c.charCodeAt(0)), n = bytes.length / 2, size = count * dim;
    const out = new Float32Array(n), last = new Uint16Array(size);
    for (let i = 0; i < n; i++) {
      const k = i % size;
      last[k] += bytes[i] | (bytes[n + i] << 8); // modulo 2¹⁶, as it is meant
      out[i] = origin[k % dim] + last[k] * unit[k % dim];
    }
    return out;
  }
  const [t0, t1] = data.span;
  const duration = t1 - t0 || 1;
  const hits = { t: unpack(data.impacts.t, "f8"), step: unpack(data.impacts.step, "i4"),
    contact: unpack(data.impacts.contact, "i4"), impulse: unpack(data.impacts.impulse, "f4"), names: data.impacts.names };
  const met = data.impacts.met === undefined ? hits.t : unpack(data.impacts.met, "f8"); // bodies that slide strike each other in every step, and meet once
  const panels = data.panels.map((panel) => ({ ...panel,
    series: panel.series.map((s, k) => ({ name: s.name, colour: s.contact ?? k, contact: s.contact, t: unpack(s.t, "f8"), y: unpack(s.y, "f4") })) }));
  const film = data.film && { ...data.film, t: unpack(data.film.t, "f8"), points: data.film.points ? unpack(data.film.points, "f4") : unroll(data.film) };

  // How many entries of a sorted array lie at or before x.
  function upto(array, x) {
    let low = 0, high = array.length;
    while (low < high) { const mid = (low + high) >> 1; if (array[mid] <= x) low = mid + 1; else high = mid; }
    return low;
  }

  // -- colours ---------------------------------------------------------------------------------------------------------
  function theme() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    const dark = get("color-scheme") === "dark" || style.colorScheme === "dark";
    return { paper: get("--paper"), ink: get("--ink"), faint: get("--faint"), rule: get("--rule"), accent: get("--accent"), dark,
      colours: dark ? ["#5aa9dd", "#f0805c", "#7cc46b", "#b58ad6", "#d9b04a", "#5fc4c4", "#c79a8c", "#a8adb3"]
                    : ["#1f5f8b", "#c4502d", "#4a8f3c", "#7a4f9a", "#b8860b", "#3a9a9a", "#8c564b", "#555555"] };
  }
  let look = theme();
  const axis = (more) => ({ gridcolor: look.rule, zerolinecolor: look.rule, linecolor: look.faint, tickcolor: look.faint, ...more });
  const base = () => ({ paper_bgcolor: look.paper, plot_bgcolor: "rgba(0,0,0,0)", font: { color: look.ink, family: "system-ui, sans-serif", size: 12 },
    hoverlabel: { bgcolor: look.paper, font: { color: look.ink } } });
  const narrow = () => window.innerWidth < 640;
  const config = () => ({ responsive: true, displaylogo: false, showSendToCloud: false, displayModeBar: narrow() ? false : "hover", scrollZoom: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] });

  // -- against time ----------------------------------------------------------------------------------------------------
  const POINTS = 900; // intervals per curve on the screen
  function thin(t, y, from, to) { // the smallest and the largest value of each interval: no spike disappears
    const a = Math.max(0, upto(t, from) - 1), b = Math.min(t.length, upto(t, to) + 1);
    if (b - a <= 2 * POINTS) return [Array.from(t.subarray(a, b)), Array.from(y.subarray(a, b))];
    const outT = [], outY = [];
    for (let k = 0; k < POINTS; k++) {
      const i = a + Math.floor(((b - a) * k) / POINTS), j = a + Math.floor(((b - a) * (k + 1)) / POINTS);
      let low = i, high = i;
      for (let m = i; m < j; m++) { if (y[m] < y[low]) low = m; if (y[m] > y[high]) high = m; }
      for (const m of low < high ? [low, high] : low > high ? [high, low] : [low]) { outT.push(t[m]); outY.push(y[m]); }
    }
    return [outT, outY];
  }
  function stems(contact, from, to) { // one for each impact, or the strongest of each interval where they are denser than the screen
    const x = [], y = [], a = upto(hits.t, from) - (hits.t[upto(hits.t, from) - 1] === from ? 1 : 0), b = upto(hits.t, to);
    const dense = b - a > 4 * POINTS, best = new Map();
    for (let i = a; i < b; i++) {
      if (contact >= 0 && hits.contact[i] !== contact) continue;
      const bin = dense ? Math.floor((2 * POINTS * (hits.t[i] - from)) / (to - from)) : i;
      if (!best.has(bin) || hits.impulse[i] > hits.impulse[best.get(bin)]) best.set(bin, i);
    }
    for (const i of best.values()) { x.push(hits.t[i], hits.t[i], null); y.push(0, hits.impulse[i], null); }
    return [x, y];
  }
  function marks(from, to) { // a line through all panels for each impact of two that meet, while they can be told apart
    const x = [], y = [], a = upto(met, from), b = upto(met, to);
    if (b - a <= 250) for (let i = a; i < b; i++) { x.push(met[i], met[i], null); y.push(0, 1, null); }
    return [x, y];
  }
  const several = hits.names.length > 1 && hits.names.length <= 8;
  const layers = []; // one per trace: how to compute it for a range of time
  function buildSeries() {
    const traces = [], count = panels.length + (hits.t.length ? 1 : 0);
    const lists = [...panels.map((panel) => panel.series.map((s) => s.name)), several ? hits.names : []].filter((names) => names.length > 1);
    const lines = narrow() ? Math.max(0, ...lists.map((names) => Math.ceil( // of a legend above its panel
      (names.length * (46 + 6.5 * Math.max(...names.map((name) => String(name).length)))) / (window.innerWidth - 110)))) : 0;
    const longest = Math.max(0, ...lists.map((names) => names.length)); // names of a legend beside its panel, which has room for them
    const height = (narrow() ? 130 : Math.max(150, 19 * longest + 24)) * count + 50 + 19 * lines * (count - 1), gap = narrow() ? (19 * lines + 16) / (height - 64) : 0.035;
    const each = (1 - gap * (count - 1)) / count, yaxes = {};
    const place = (i) => [Math.max(0, 1 - (i + 1) * each - i * gap), 1 - i * (each + gap)];
    const legend = (p) => "legend" + (p ? p + 1 : ""); // plotly knows no legend1
    const add = (compute, trace) => { layers.push(compute); traces.push({ type: "scatter", mode: "lines", x: [], y: [], ...trace }); };
    add(marks, { yaxis: "y", line: { color: look.rule, width: 1 }, hoverinfo: "skip", showlegend: false, name: "impacts" });
    yaxes.yaxis = { domain: [0, 1], range: [0, 1], visible: false, fixedrange: true }; // behind all panels: plotly draws it first
    panels.forEach((panel, p) => {
      const id = p + 2;
      yaxes["yaxis" + id] = axis({ domain: place(p), title: { text: plain(panel.title), standoff: 4 }, exponentformat: "power", automargin: true });
      panel.series.forEach((s) => add((from, to) => thin(s.t, s.y, from, to), { yaxis: "y" + id, name: plain(s.name),
        line: { width: 1.3, color: look.colours[s.colour % 8] }, showlegend: panel.series.length > 1, legend: legend(p),
        hovertemplate: "%{y:.6g}<extra>" + plain(s.name) + "</extra>" }));
    });
    if (hits.t.length) {
      const p = panels.length, id = p + 2;
      yaxes["yaxis" + id] = axis({ domain: place(p), title: { text: "impulse", standoff: 4 }, rangemode: "tozero", automargin: true });
      const told = panels.some((panel) => panel.series.filter((s) => s.contact !== undefined).length >= hits.names.length); // beside the gaps
      const groups = several ? hits.names.map((name, c) => [c, name]) : [[-1, "impact"]];
      groups.forEach(([c, name]) => add((from, to) => stems(c, from, to), { yaxis: "y" + id, name: plain(name), showlegend: several && !told,
        legend: legend(p), line: { width: 1.3, color: look.colours[Math.max(c, 0) % 8] }, // that of its gap
        hovertemplate: "impulse %{y:.5g}<extra>" + plain(name) + "</extra>" }));
    }
    const named = Math.min(18, Math.max(0, ...traces.filter((trace) => trace.showlegend).map((trace) => trace.name.length + 5)));
    const layout = { ...base(), ...yaxes, height, margin: { l: 72, r: named && !narrow() ? 24 + 7 * named : 12, t: narrow() ? 24 : 8, b: 40 }, hovermode: "x",
      hoverdistance: 30, dragmode: narrow() ? false : "zoom", uirevision: "keep",
      xaxis: axis({ range: [t0, t1], title: { text: plain(data.time) }, anchor: "y" + (count + 1), domain: [0, 1] }) };
    for (let p = 0; p < count; p++) layout[legend(p)] = narrow() // beside the panels or above them, never on the curves
      ? { x: 0, xanchor: "left", y: place(p)[1], yanchor: "bottom", orientation: "h", bgcolor: "rgba(0,0,0,0)", font: { size: 10 } }
      : { x: 1.005, xanchor: "left", y: place(p)[1] - (p ? 0 : 30 / (height - 48)), yanchor: "top", // the first below the buttons
         orientation: "v", bgcolor: "rgba(0,0,0,0)", font: { size: 10 }, itemwidth: 30, tracegroupgap: 0 };
    return [traces, layout];
  }
  function visible() { const r = $("series").layout.xaxis.range; return [Math.min(r[0], r[1]), Math.max(r[0], r[1])]; }
  function fill(traces, from, to) { layers.forEach((compute, i) => { [traces[i].x, traces[i].y] = compute(from, to); }); }
  function refine() {
    const [from, to] = visible(), x = [], y = [];
    layers.forEach((compute, i) => { [x[i], y[i]] = compute(from, to); });
    Plotly.restyle("series", { x, y });
  }
  let area = null; // where on the page the panels are: the line at the present moment is moved, never drawn anew
  function measure() {
    const outer = $("series-box").getBoundingClientRect(), inner = $("series").querySelector(".nsewdrag[data-subplot='xy']");
    if (inner) { const box = inner.getBoundingClientRect(); area = { left: box.left - outer.left, width: box.width }; cursor(); }
  }
  function cursor() {
    if (!area) return;
    const [from, to] = visible(), share = (now - from) / (to - from);
    $("cursor").style.display = share >= 0 && share <= 1 ? "" : "none";
    $("cursor").style.transform = `translateX(${area.left + share * area.width}px)`;
  }

  // -- the motion ------------------------------------------------------------------------------------------------------
  const AXES = ["x", "y", "z"];
  let frame = null; // the points at this moment
  function pose(t) { // between two frames the points go straight; impacts are frames
    const size = film.count * film.dim, last = film.t.length - 1, i = Math.min(Math.max(upto(film.t, t) - 1, 0), last);
    const j = Math.min(i + 1, last), span = film.t[j] - film.t[i], w = span > 0 ? Math.min(1, (t - film.t[i]) / span) : 0;
    frame = frame || new Float64Array(size);
    for (let k = 0; k < size; k++) frame[k] = film.points[i * size + k] * (1 - w) + film.points[j * size + k] * w;
    return frame;
  }
  function columns(points, parts) { // the parts one after the other, with a hole between them
    const out = Array.from({ length: film.dim }, () => []);
    for (const part of parts) {
      for (let i = part.start; i < part.stop; i++) for (let d = 0; d < film.dim; d++) out[d].push(points[i * film.dim + d]);
      for (let d = 0; d < film.dim; d++) out[d].push(null);
    }
    return out;
  }
  const groups = film ? ["fill", "line", "dots", "mesh"].flatMap((kind) => {
    const parts = film.parts.filter((p) => p.kind === kind);
    return parts.length ? [{ kind, parts }] : [];
  }) : [];
  const solid = groups.find((group) => group.kind === "mesh");
  const bodies = film ? [...new Set(film.parts.map((part) => part.name).filter(Boolean))] : [];
  const MOVING = "\u0000", looks = bodies.length || !film || film.dim < 3 ? bodies : [MOVING]; // what has no name can be looked at, too
  const arrows = film && film.arrows && { frame: unpack(film.arrows.frame, "i4"), start: unpack(film.arrows.start, "f4"), end: unpack(film.arrows.end, "f4") };
  function surface(points, parts) { // all meshes in one: corners one after the other, triangles that name them
    const out = AXES.map(() => []), faces = AXES.map(() => []), owner = [];
    for (const part of parts) {
      const shift = out[0].length - part.start;
      for (let i = part.start; i < part.stop; i++) for (let d = 0; d < 3; d++) out[d].push(points[i * 3 + d]);
      for (const face of part.triangles) { for (let d = 0; d < 3; d++) faces[d].push(face[d] + part.start + shift); owner.push(Math.max(bodies.indexOf(part.name), 0)); }
    }
    return { out, faces, owner };
  }
  const ROUND = 60; // a mesh of more triangles is a round body: painted in eighths, so that one sees it turn
  function shaded({ start, stop, triangles }) { // which of its triangles are the darker ones
    if (triangles.length <= ROUND) return triangles.map(() => false);
    const at = (i, d) => film.points[i * 3 + d], mean = AXES.map((_, d) => { let sum = 0; for (let i = start; i < stop; i++) sum += at(i, d); return sum / (stop - start); });
    const middles = triangles.map((face) => AXES.map((_, d) => (at(start + face[0], d) + at(start + face[1], d) + at(start + face[2], d)) / 3 - mean[d]));
    const half = triangles.length / 2, twin = (k) => middles[(k + half) % triangles.length]; // two triangles to a tile, in two halves: it has one colour
    return middles.map((m, k) => (Number.isInteger(half) ? m.map((x, d) => x + twin(k)[d]) : m).reduce((sign, x) => sign * Math.sign(x), 1) < 0);
  }
  const dim = (colour) => "#" + [1, 3, 5].map((i) => Math.round(0.72 * parseInt(colour.slice(i, i + 2), 16)).toString(16).padStart(2, "0")).join("");
  function shadow(points) { // straight down onto the floor, and a hair above it
    const { point, normal } = film.floor, lift = 1e-3 * film.reach, { out, faces } = surface(points, solid.parts);
    for (let i = 0; i < out[0].length; i++) {
      const height = AXES.reduce((sum, _, d) => sum + (out[d][i] - point[d]) * normal[d], 0) - lift;
      for (let d = 0; d < 3; d++) out[d][i] -= Math.max(height, 0) * normal[d];
    }
    return { out, faces };
  }
  function forces() { // the arrows of the frame that is shown: a shaft and two strokes for its head
    const out = Array.from({ length: film.dim }, () => []), n = film.dim;
    if (!$("forces").checked) return out;
    const i = Math.min(Math.max(upto(film.t, now) - 1, 0), film.t.length - 1);
    for (let k = upto(arrows.frame, i - 1); k < upto(arrows.frame, i); k++) {
      const a = arrows.start.subarray(k * n, k * n + n), b = arrows.end.subarray(k * n, k * n + n), along = AXES.map((_, d) => (d < n ? b[d] - a[d] : 0));
      const side = Math.abs(along[0]) + Math.abs(along[1]) > 1e-9 * Math.abs(along[2]) ? [-along[1], along[0], 0] : [along[2], 0, 0];
      const scale = Math.hypot(...along) / (Math.hypot(...side) || 1), tip = (sign) => Array.from(b, (x, d) => x - 0.2 * along[d] + sign * 0.09 * scale * side[d]);
      for (const place of [a, b, tip(1), b, tip(-1), null]) for (let d = 0; d < n; d++) out[d].push(place ? place[d] : null);
    }
    return out;
  }
  const scenery = film ? film.scenery.map((part) => ({ ...part, points: unpack(part.points, "f4") })) : [];
  function style(kind, fixed) {
    const colour = fixed ? look.faint : look.colours[0];
    if (kind === "mesh") return { type: "mesh3d", color: colour, flatshading: true, opacity: fixed ? 0.35 : 1, hoverinfo: "skip" };
    const common = { type: film.dim === 3 ? "scatter3d" : "scatter", hoverinfo: "skip", showlegend: false };
    if (kind === "dots") return { ...common, mode: "markers", marker: { size: film.dim === 3 ? 4 : 9, color: colour } };
    const fill = kind === "fill" && film.dim === 2 ? { fill: "toself", fillcolor: colour + "33" } : {};
    return { ...common, mode: "lines", line: { color: colour, width: film.dim === 3 ? 4 : 2 }, ...fill };
  }
  function endless(a) { // a wall, far beyond what anybody looks at
    const [x, y] = [a[2] - a[0], a[3] - a[1]], far = (1e3 * film.reach) / Math.hypot(x, y);
    return [[a[0] - far * x, a[0] + far * x], [a[1] - far * y, a[1] + far * y]];
  }
  function traceOf(part) {
    const trace = style(part.kind, true);
    if (part.kind === "wall") [trace.x, trace.y] = endless(part.points);
    else for (let d = 0; d < film.dim; d++) trace[AXES[d]] = Array.from(part.points.filter((_, k) => k % film.dim === d));
    if (part.triangles) AXES.forEach((_, d) => { trace["ijk"[d]] = part.triangles.map((f) => f[d]); });
    return trace;
  }
  const EYE = { x: 1.25, y: -1.45, z: 0.75 }, LOOK = { x: 0, y: 0, z: -0.07 }, HALF = Math.tan(Math.PI / 8); // half of what plotly's camera sees
  function nearest(size) { // the scale at which the whole box is just seen from where one stands, with room for its numbers
    const wide = $("motion").clientWidth / motionHeight(), away = [EYE.x - LOOK.x, EYE.y - LOOK.y, EYE.z - LOOK.z];
    const long = Math.hypot(...away), n = away.map((x) => x / long), flat = Math.hypot(n[0], n[1]);
    const right = [-n[1] / flat, n[0] / flat, 0], up = [-n[2] * n[0] / flat, -n[2] * n[1] / flat, flat];
    const along = (p, axis) => p[0] * axis[0] + p[1] * axis[1] + p[2] * axis[2];
    const fits = (unit) => [0, 1, 2, 3, 4, 5, 6, 7].every((corner) => {
      const p = size.map((x, d) => unit * x * ((corner >> d) & 1 ? 0.5 : -0.5) - [LOOK.x, LOOK.y, LOOK.z][d]), depth = long - along(p, n);
      return depth > 0.4 && Math.abs(along(p, right)) < 0.85 * HALF * wide * depth && Math.abs(along(p, up)) < 0.8 * HALF * depth;
    });
    let low = 0, high = 8 / Math.max(...size);
    for (let k = 0; k < 40; k++) { const mid = (low + high) / 2; if (fits(mid)) low = mid; else high = mid; }
    return low || 1.5 / Math.hypot(...size);
  }
  function buildMotion() {
    const traces = scenery.map(traceOf), points = pose(now);
    const put = (trace, xyz) => { xyz.forEach((column, d) => { trace[AXES[d]] = column; }); traces.push(trace); };
    for (const group of groups) {
      const trace = style(group.kind, false);
      if (group.kind === "mesh") {
        const { out, faces, owner } = surface(points, group.parts);
        faces.forEach((column, d) => { trace["ijk"[d]] = column; });
        const dark = group.parts.flatMap(shaded);
        if (bodies.length > 1 || dark.includes(true)) { trace.facecolor = owner.map((i, k) => (dark[k] ? dim : String)(look.colours[i % 8])); delete trace.color; }
        if (arrows && $("forces").checked) trace.opacity = 0.75; // forces act on bodies, and so mostly inside of them
        Object.assign(trace, { lighting: { ambient: 0.55, diffuse: 0.8, specular: 0.1, roughness: 0.8, facenormalsepsilon: 0, vertexnormalsepsilon: 0 }, lightposition: { x: 1e4, y: -2e4, z: 4e4 } });
        put(trace, out);
      } else put(trace, columns(points, group.parts));
    }
    if (solid && film.floor) {
      const { out, faces } = shadow(points), trace = { ...style("mesh", true), color: "#000000", opacity: look.dark ? 0.5 : 0.25, flatshading: false, lighting: { ambient: 1, diffuse: 0 } };
      faces.forEach((column, d) => { trace["ijk"[d]] = column; });
      put(trace, out);
    }
    if (arrows) put({ ...style("line", false), line: { color: look.accent, width: film.dim === 3 ? 5 : 2 }, name: "contact forces" }, forces());
    const layout = { ...base(), height: motionHeight(), margin: { l: 48, r: 12, t: 8, b: 28 }, showlegend: false, uirevision: "keep", hovermode: false };
    if (film.dim === 3) {
      const size = AXES.map((_, d) => film.high[d] - film.low[d]), unit = nearest(size);
      const count = (d) => Math.max(2, Math.round(((narrow() ? 5 : 8) * size[d]) / Math.max(...size))); // numbers on a short side would lie on one another
      const box = (d) => axis({ range: [film.low[d], film.high[d]], nticks: count(d), backgroundcolor: look.paper, title: { text: AXES[d] } });
      layout.scene = { xaxis: box(0), yaxis: box(1), zaxis: box(2), aspectmode: "manual", uirevision: "keep",
        aspectratio: { x: size[0] * unit, y: size[1] * unit, z: size[2] * unit },
        camera: { eye: EYE, center: LOOK } };
      layout.margin = { l: 0, r: 0, t: 0, b: 0 };
    } else {
      layout.dragmode = narrow() ? false : "pan";
      const view = window_();
      layout.xaxis = axis({ range: view[0], constrain: "range" });
      layout.yaxis = axis({ range: view[1], scaleanchor: "x", scaleratio: 1, constrain: "range",
        constraintoward: view[1][1] - view[1][0] < 0.2 * (view[0][1] - view[0][0]) ? "middle" : "bottom" }); // bars lie in the middle
    }
    return [traces, layout];
  }
  const motionHeight = () => Math.round(Math.min(window.innerHeight * 0.5, narrow() ? 280 : 420));
  function centre(points) {
    const sum = [0, 0];
    for (let i = 0; i < film.count; i++) { sum[0] += points[i * 2]; sum[1] += points[i * 2 + 1]; }
    return sum.map((s) => s / film.count);
  }
  function window_() { // what is seen: everything, or a window that goes with the bodies along the long direction
    const ranges = [0, 1].map((d) => [film.low[d], film.high[d]]);
    if ($("follow").checked) {
      const c = centre(frame || pose(now)), d = film.long, across = ranges[1 - d][1] - ranges[1 - d][0];
      const shape = $("motion").clientWidth / motionHeight(), half = (across * (d ? 1 : shape)) / 2; // one that goes up is as high as it is wide
      ranges[d] = [c[d] - half, c[d] + half];
    }
    return ranges;
  }
  function beside(points) { // the window around the body that is followed; null where all is seen
    const name = $("body").value, parts = film.parts.filter((part) => part.name === name || name === MOVING);
    if (!name || !parts.length) return null;
    const low = Array(film.dim).fill(Infinity), high = Array(film.dim).fill(-Infinity);
    for (const part of parts) for (let i = part.start; i < part.stop; i++) for (let d = 0; d < film.dim; d++) {
      low[d] = Math.min(low[d], points[i * film.dim + d]); high[d] = Math.max(high[d], points[i * film.dim + d]);
    }
    const whole = film.high.map((x, d) => x - film.low[d]);
    followed = followed || Math.min(1, (4 * Math.max(...high.map((x, d) => x - low[d]))) / Math.max(...whole));
    return whole.map((x, d) => { const c = (low[d] + high[d]) / 2; return [c - (followed * x) / 2, c + (followed * x) / 2]; });
  }
  let followed = 0; // the share of the whole that is seen around a body
  let drawing = false, again = false; // one picture at a time; of those asked for meanwhile, the latest
  function draw(glow) {
    if (!film) return;
    $("motion").classList.toggle("struck", glow);
    again = drawing;
    if (drawing || over.signal.aborted) return;
    drawing = true;
    paint().catch(() => {}).finally(() => { drawing = false; if (again) draw(performance.now() < glowUntil); });
  }
  function paint() {
    const points = pose(now), xyz = groups.map((group) => (group.kind === "mesh" ? surface(points, group.parts).out : columns(points, group.parts)));
    if (solid && film.floor) xyz.push(shadow(points).out);
    if (arrows) xyz.push(forces());
    const traces = xyz.map((_, k) => scenery.length + k), near = beside(points);
    if (film.dim === 3) {
      const moved = Object.fromEntries(AXES.map((a, d) => [a, xyz.map((column) => column[d])]));
      const layout = near ? Object.fromEntries(AXES.map((a, d) => [`scene.${a}axis.range`, near[d]])) : {};
      return near ? Plotly.update("motion", moved, layout, traces) : Plotly.restyle("motion", moved, traces);
    }
    const step = { data: xyz.map(([x, y]) => ({ x, y })), traces };
    if (near) step.layout = { xaxis: { range: near[0] }, yaxis: { range: near[1] } };
    else if ($("follow").checked) {
      const d = film.long, key = d ? "yaxis" : "xaxis", range = $("motion").layout[key].range;
      const c = centre(points)[d], half = (range[1] - range[0]) / 2;
      step.layout = { [key]: { range: [c - half, c + half] } };
    }
    return Plotly.animate("motion", step, { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: false } });
  }

  // -- time ------------------------------------------------------------------------------------------------------------
  const over = new AbortController(); // when another run takes the place of this one
  let now = Math.min(t1, Math.max(t0, was ? was.now : t0)), playing = false, stamp = 0, glowUntil = 0;
  let speed = was && data.speeds.includes(was.speed) ? was.speed : data.speed;
  const format = (t) => Number(t.toPrecision(6)).toString();
  function go(t, passed) { // everything on the page shows the same moment
    const before = now;
    now = Math.min(t1, Math.max(t0, t));
    const clock = performance.now();
    const count = upto(hits.t, now), seen = upto(met, now), struck = passed ? seen - upto(met, before) : 0;
    const often = seen - upto(met, now - speed) > FLASHES;
    if (struck > 0 && !often) glowUntil = clock + 140; // an impact is seen however many frames a second there are
    draw(clock < glowUntil || (seen > 0 && met[seen - 1] === now));
    $("scrub").value = Math.round((1e6 * (now - t0)) / duration);
    $("clock").textContent = "t = " + format(now);
    const text = $("happening");
    text.classList.toggle("now", clock < glowUntil);
    if (hits.t.length) text.textContent = count ? `impact ${count} of ${hits.t.length}: ${hits.names[hits.contact[count - 1]]} at t = ${format(hits.t[count - 1])}`
                                                : `${hits.t.length} impact${hits.t.length === 1 ? "" : "s"} ahead`;
    cursor();
    if (!passed) showRow(count - 1);
  }
  function tick(clock) {
    if (!playing || over.signal.aborted) return;
    go(now + (speed * (clock - stamp)) / 1000, true);
    stamp = clock;
    if (now >= t1) return play(false);
    requestAnimationFrame(tick);
  }
  function play(on) {
    playing = on;
    $("play").textContent = on ? "❚❚" : "▶";
    $("play").setAttribute("aria-label", on ? "pause" : "play");
    if (on) { if (now >= t1) go(t0); stamp = performance.now(); requestAnimationFrame(tick); }
    else { glowUntil = 0; showRow(upto(hits.t, now) - 1); }
  }
  $("play").onclick = () => play(!playing);
  $("scrub").oninput = (event) => { const t = t0 + (duration * event.target.value) / 1e6; play(false); go(t); };
  $("before").onclick = () => { let i = upto(met, now) - 1; while (i >= 0 && met[i] === now) i--; play(false); go(i >= 0 ? met[i] : t0); };
  $("after").onclick = () => { const i = upto(met, now); play(false); go(i < met.length ? met[i] : t1); };
  $("speed").replaceChildren(...data.speeds.map((s) => new Option(`${s}×`, s, s === speed, s === speed)));
  $("speed").onchange = (event) => { speed = Number(event.target.value); };
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, button, textarea")) return;
    const act = { " ": () => play(!playing), ArrowLeft: () => go(now - duration / 200), ArrowRight: () => go(now + duration / 200),
      ",": $("before").onclick, ".": $("after").onclick }[event.key];
    if (act) { event.preventDefault(); act(); }
  }, { signal: over.signal });

  // -- the table of impacts, page by page ------------------------------------------------------------------------------
  const ROWS = 25;
  let chosen = Array.from(hits.t.keys()), page = 0, row = -1;
  $("contact").replaceChildren(new Option("all", "-1"), ...hits.names.map((name, c) => new Option(name, c)));
  function showPage(p) {
    const pages = Math.max(1, Math.ceil(chosen.length / ROWS));
    page = Math.min(Math.max(p, 0), pages - 1);
    const body = $("impacts").tBodies[0];
    body.replaceChildren();
    for (const i of chosen.slice(page * ROWS, (page + 1) * ROWS)) {
      const tr = body.insertRow();
      for (const cell of [i + 1, hits.t[i].toPrecision(9), hits.step[i], hits.names[hits.contact[i]], hits.impulse[i].toPrecision(5)]) tr.insertCell().textContent = cell;
      tr.classList.toggle("now", i === row);
      tr.onclick = () => { play(false); go(hits.t[i]); };
    }
    $("page").textContent = `${page + 1} of ${pages}`;
    $("first").disabled = $("previous").disabled = page === 0;
    $("last").disabled = $("next").disabled = page === pages - 1;
  }
  function showRow(i) { row = i; const at = upto(chosen, i) - 1; showPage(Math.max(0, Math.floor(at / ROWS))); }
  $("first").onclick = () => showPage(0);
  $("previous").onclick = () => showPage(page - 1);
  $("next").onclick = () => showPage(page + 1);
  $("last").onclick = () => showPage(Infinity);
  $("contact").onchange = (event) => {
    const c = Number(event.target.value);
    chosen = Array.from(hits.t.keys()).filter((i) => c < 0 || hits.contact[i] === c);
    showPage(0);
  };

  // -- the page --------------------------------------------------------------------------------------------------------
  let built = false;
  async function build() {
    if (over.signal.aborted) return;
    look = theme();
    layers.length = 0;
    const [traces, layout] = buildSeries();
    const range = built ? visible() : (was && was.zoom) || [t0, t1];
    built = true;
    layout.xaxis.range = range;
    fill(traces, ...range);
    if (film) {
      const [t, l] = buildMotion();
      await Plotly.react("motion", t, l, config());
      $("motion").querySelectorAll(".scatterlayer > .trace").forEach((trace, k) => trace.classList.toggle("alive", k >= scenery.length));
    }
    await Plotly.react("series", traces, layout, config());
  }
  $("follow").checked = Boolean(film && film.follow && (!was || was.follow !== false));
  $("follow-label").hidden = !(film && film.follow);
  $("forces-label").hidden = !arrows;
  if (!was) $("forces").checked = Boolean(arrows && film.dim === 2 && bodies.length <= FEW); // in space they would be seen through the bodies only
  $("forces").onchange = build;
  $("body-label").hidden = !looks.length;
  $("body").replaceChildren(new Option("all", ""), ...looks.map((name) => new Option(name === MOVING ? "what moves" : name, name)));
  if (was && looks.includes(was.body)) $("body").value = was.body;
  $("body").onchange = () => {
    followed = 0;
    if (!$("body").value) Plotly.relayout("motion", Object.fromEntries(AXES.slice(0, film.dim).map((a, d) => [(film.dim === 3 ? `scene.${a}axis` : `${a}axis`) + ".range", [film.low[d], film.high[d]]])));
    draw(false);
  };
  $("follow").onchange = () => { const v = window_(); Plotly.relayout("motion", { "xaxis.range": v[0], "yaxis.range": v[1] }); };
  $("theme").onclick = () => {
    const next = look.dark ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("carom-theme", next); } catch { /* a file may have no storage */ }
    build();
  };
  try { const kept = localStorage.getItem("carom-theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* as above */ }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build, { signal: over.signal });
  let small = narrow();
  window.addEventListener("resize", () => { if (small !== narrow()) { small = narrow(); build(); } }, { signal: over.signal });
  build().then(() => {
    if (over.signal.aborted) return;
    $("series").on("plotly_relayout", (change) => { if (Object.keys(change).some((key) => key.startsWith("xaxis"))) refine(); });
    $("series").on("plotly_afterplot", measure);
    measure();
    $("series").on("plotly_click", (event) => { play(false); go(event.points[0].x); });
    go(now);
    if (was && was.plays) play(true);
    document.body.dataset.ready = "yes";
  });
  return {
    build,
    restart: () => { go(t0); play(true); },
    hand: film && { dim: film.dim, reach: film.reach, parts: film.parts, points: () => pose(now), at: () => now, speed: () => speed, play }, // what can be taken hold of
    moment: () => { // where it stands now
      const seen = built && $("series").layout ? visible() : [t0, t1], zoom = seen[0] === t0 && seen[1] === t1 ? null : seen;
      return { now, speed, plays: playing, zoom, body: $("body").value, follow: $("follow-label").hidden ? undefined : $("follow").checked };
    },
    end: () => { over.abort(); $("series").removeAllListeners?.(); },
  };
}

// -- what is around it ------------------------------------------------------------------------------------------------
function tell(words, tables) { // the words of another run: all of them as text
  for (const name of ["title", "summary", "message", "note"]) $(name).textContent = words[name];
  $("message").hidden = !words.message;
  for (const [name, rows] of Object.entries(tables)) {
    const table = document.createElement("table");
    for (const [key, value] of rows) {
      const row = table.insertRow(), head = document.createElement("th");
      head.textContent = key;
      row.append(head);
      row.insertCell().textContent = value;
    }
    $(name).replaceChildren(rows.length ? table : "none");
  }
}
(() => {
  let shown = player(JSON.parse($("data").textContent), null);
  window.carom = { shown: () => shown };
  if (window.parent === window) return;
  // In a frame: the page around it may send another run, as data.
  const acts = {
    show: ({ run }) => {
      const was = shown.moment();
      shown.end();
      delete document.body.dataset.ready;
      tell(run.words, run.tables);
      $("motion-section").hidden = !run.data.film;
      $("impacts-section").hidden = !run.data.impacts.t;
      shown = player(run.data, was);
    },
    restart: () => shown.restart(),
    theme: ({ dark }) => { document.documentElement.dataset.theme = dark ? "dark" : "light"; shown.build(); },
  };
  window.addEventListener("message", (event) => {
    if (event.source === window.parent && Object.hasOwn(acts, event.data?.carom)) acts[event.data.carom](event.data);
  });
  window.parent.postMessage({ carom: "here" }, "*");
})();

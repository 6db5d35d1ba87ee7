"use strict";
// A hand on the bodies of the player in a notebook's cell: it takes hold of one and pulls; the page around it tells the kernel where the
// hand was, thirty times a second of watching, and the kernel computes the run with it.
(() => {
  const OFTEN = 30, TELL = 100, NEAR = 14, CLICK = 4; // places a second; milliseconds between two words; pixels
  const box = document.getElementById("motion"), run = () => window.carom.shown().hand;
  const thread = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = thread.appendChild(document.createElementNS(thread.namespaceURI, "line"));
  thread.setAttribute("style", "position: fixed; inset: 0; width: 100%; height: 100%; pointer-events: none; z-index: 9; display: none");
  line.setAttribute("style", "stroke: var(--accent); stroke-width: 3; stroke-linecap: round");
  document.body.append(thread);
  let held = null;
  window.carom.screen = screen;

  // -- where a point of the motion is seen, and back -------------------------------------------------------------------
  const times = (m, v) => [0, 1, 2, 3].map((i) => m[i] * v[0] + m[4 + i] * v[1] + m[8 + i] * v[2] + m[12 + i] * v[3]);
  function screen(point) {
    const layout = box._fullLayout;
    if (point.length === 2) {
      const { left, top } = box.getBoundingClientRect();
      return [left + layout.xaxis._offset + layout.xaxis.d2p(point[0]), top + layout.yaxis._offset + layout.yaxis.d2p(point[1])];
    }
    const { glplot, dataScale, container } = layout.scene._scene, { projection, view, model } = glplot.cameraParams;
    const { left, top, width, height } = container.getBoundingClientRect();
    const clip = times(projection, times(view, times(model, [...point.map((x, d) => x * dataScale[d]), 1])));
    return [left + width * (0.5 + (0.5 * clip[0]) / clip[3]), top + height * (0.5 - (0.5 * clip[1]) / clip[3])];
  }
  function moved(point, dx, dy) { // by so many pixels, in the plane of the screen: the shortest way there
    const here = screen(point), size = 1e-3 * run().reach;
    const J = point.map((_, d) => screen(point.map((x, k) => (k === d ? x + size : x))).map((x, k) => (x - here[k]) / size));
    const dot = (a, b) => J.reduce((sum, row) => sum + row[a] * row[b], 0), [xx, xy, yy] = [dot(0, 0), dot(0, 1), dot(1, 1)], det = xx * yy - xy * xy;
    if (!(Math.abs(det) > 1e-12 * xx * yy)) return point;
    const [a, b] = [(yy * dx - xy * dy) / det, (xx * dy - xy * dx) / det];
    return point.map((x, d) => x + J[d][0] * a + J[d][1] * b);
  }
  const place = (points, i, dim) => Array.from(points.subarray(i * dim, i * dim + dim));
  function under(x, y) { // the part of the picture that is there, and its nearest point: the smallest of several
    const { dim, parts, points } = run(), all = points();
    let best = null;
    for (const part of parts) {
      let nearest = Infinity, which = -1, low = [Infinity, Infinity], high = [-Infinity, -Infinity];
      for (let i = part.start; i < part.stop; i++) {
        const seen = screen(place(all, i, dim)), away = Math.hypot(seen[0] - x, seen[1] - y);
        if (away < nearest) [nearest, which] = [away, i];
        low = low.map((v, k) => Math.min(v, seen[k])); high = high.map((v, k) => Math.max(v, seen[k]));
      }
      const inside = part.kind !== "line" && x >= low[0] && x <= high[0] && y >= low[1] && y <= high[1];
      const score = inside ? Math.hypot(high[0] - low[0], high[1] - low[1]) : nearest <= NEAR ? 1e4 + nearest : Infinity;
      if (score < (best ? best.score : Infinity)) best = { score, which, body: part.name || "", at: place(all, which, dim) };
    }
    return best;
  }

  // -- what the hand does ----------------------------------------------------------------------------------------------
  function draw() {
    if (!held) return;
    const [x, y] = screen(place(run().points(), held.which, run().dim));
    for (const [name, value] of Object.entries({ x1: x, y1: y, x2: held.x, y2: held.y })) line.setAttribute(name, value);
    if (held.on) requestAnimationFrame(draw);
  }
  function tell(still) { // all places up to now
    while (held.track.length < Math.max(1, Math.floor((OFTEN * (performance.now() - held.since)) / 1000))) held.track.push(held.target);
    const { t, body, at, track, speed } = held;
    window.parent.postMessage({ carom: "hand", with: { t, body, at, track, speed, held: still } }, "*");
  }
  function end(letGo) {
    if (!held) return;
    clearInterval(held.timer);
    thread.style.display = "none";
    if (letGo && held.on) tell(false);
    held = null;
  }
  box.addEventListener("pointerdown", (event) => {
    if (event.button || held || !box._fullLayout) return;
    const found = under(event.clientX, event.clientY);
    if (!found) return;
    held = { ...found, x: event.clientX, y: event.clientY, from: [event.clientX, event.clientY], on: false };
    box.setPointerCapture(event.pointerId);
    event.stopPropagation();
  }, true);
  for (const kind of ["mousedown", "touchstart"]) { // plotly would turn or move the picture
    box.addEventListener(kind, (event) => { if (held) { event.stopPropagation(); event.preventDefault(); } }, { capture: true, passive: false });
  }
  box.addEventListener("pointermove", (event) => {
    if (!held) return;
    event.stopPropagation();
    [held.x, held.y] = [event.clientX, event.clientY];
    const [dx, dy] = [held.x - held.from[0], held.y - held.from[1]];
    if (!held.on && Math.hypot(dx, dy) > CLICK) { // what is taken hold of plays
      Object.assign(held, { on: true, t: run().at(), speed: run().speed(), since: performance.now(), track: [], timer: setInterval(() => tell(true), TELL) });
      run().play(true);
      thread.style.display = "";
      draw();
    }
    held.target = moved(held.at, dx, dy);
  }, true);
  box.addEventListener("pointerup", (event) => { if (held) { event.stopPropagation(); end(true); } }, true);
  box.addEventListener("pointercancel", () => end(false));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") end(false); });
})();

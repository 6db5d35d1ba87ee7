"""Frames a second of a live page with many bodies, in a browser on this machine: `python -m benchmarks.live`, written to live.md.

Drawn: how often the page's own `requestAnimationFrame` came. Sent: how often the server gave all bodies new places, after its pace
has settled (pages say which frames they have seen). Without a graphics processor chromium draws in software, on the same cores.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
COUNT = """(async (seconds) => { let n = 0, on = true; const f = () => { n += 1; if (on) requestAnimationFrame(f); };
requestAnimationFrame(f); const t = performance.now(); await new Promise((done) => setTimeout(done, 1000 * seconds));
on = false; return 1000 * n / (performance.now() - t); })(%g)"""


def footage(bodies: int, frames: int = 600):
    """Boxes that fly about and turn: what is measured is drawing, not computing."""
    from carom.live.footage import Curves, Footage, Solid

    rng = np.random.default_rng(0)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1.0)]) * 0.2
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]]
    faces += [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
    t = np.linspace(0, 60, frames)
    solids = []
    for i in range(bodies):
        middle, phase = rng.uniform(-5, 5, 3) + np.array([0, 0, 6]), rng.uniform(0, 6, 3)
        places = middle + np.sin(2 * t[:, None] + phase)
        turns = np.stack([np.cos(t / 2), *(np.sin(t / 2) * axis for axis in (0.6, 0.0, 0.8))], axis=1)
        solids.append(Solid(f"box {i + 1}", i, corners, np.array(faces), places, turns))
    return Footage("boxes", False, t, tuple(solids), (), np.zeros(0), (), (Curves("energy", t, {"energy": np.sin(t)}),))


def measure(bodies: int, seconds: float = 6.0, settle: float = 10.0) -> tuple[float, float]:
    sys.path.insert(0, str(HERE.parent / "tests"))
    from browser import Browser

    from carom.live.live_page import LivePage
    from carom.live.player import Player

    with tempfile.TemporaryDirectory() as folder, LivePage(Player(footage(bodies)), plain=True) as page:
        browser = Browser(Path(folder))
        try:
            browser.size(1000, 700)
            browser.call("Page.navigate", url=page.address)
            browser.wait("!!document.querySelector('canvas') && !!document.querySelector('[data-carom-frame]')", 120)
            page.player.play(True)
            time.sleep(settle)
            before = page.frames
            drawn = browser.run(COUNT % seconds)
            return float(drawn), (page.frames - before) / seconds
        finally:
            browser.close()


def main() -> None:
    rows = [(bodies, *measure(bodies)) for bodies in (1, 100, 1000)]
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    lines = ["# A live page with many bodies", "", "| bodies | drawn, frames/s | sent, frames/s |", "|---|---|---|"]
    lines += [f"| {n:,} | {drawn:.0f} | {sent:.0f} |" for n, drawn, sent in rows]
    where = f"chromium in software, {os.cpu_count()} cores shared with the server; load average {load}."
    lines += ["", f"1000 × 700 pixels, without shadows, {where}", ""]
    (HERE / "live.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""Draw the pictures of live pages that docs/live.md shows: `PYTHONPATH=.:tests:tests/live python tools/live_pictures.py`. It needs
chromium, and the extras live and notebook. The pages are told nothing of the processor that draws them: without a graphics card
they would draw coarsely."""

import io
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from browser import Browser
from live_pages import until, visit
from PIL import Image
from test_cell import Wire

import carom
from carom.live.cell import PlayCell
from carom.live.rerun import ModelRerun
from carom.live.sweep_page import SweepPage

ROOT = Path(__file__).resolve().parent.parent
CLOSE = "[...document.querySelectorAll('.mantine-Notification-closeButton')].forEach((button) => button.click())"
BESIDE = "VariationalCollision, trapezoidal"


SILENT = """const known = WebGL2RenderingContext.prototype.getExtension;
WebGL2RenderingContext.prototype.getExtension = function (name) {
  return name === "WEBGL_debug_renderer_info" ? null : known.call(this, name);
};"""


def keep(browser: Browser, name: str, scratch: Path) -> None:
    time.sleep(4)
    browser.run(CLOSE)
    time.sleep(1)
    image = Image.open(io.BytesIO(browser.screenshot(scratch / "shot.png"))).convert("RGB")
    image.quantize(128).save(ROOT / "docs" / name, optimize=True)
    print(f"docs/{name}")


def of_a_run(browser: Browser, scratch: Path) -> None:
    run = carom.models.star().solve(num_steps=600)
    with run.view(show=False, server=True, plain=False) as page:
        visit(browser, page, width=870, height=968)
        page.player.scrub(0.9)
        keep(browser, "live.png", scratch)


def of_two_methods(browser: Browser, scratch: Path) -> None:
    with carom.play("star", show=False, server=True, plain=False) as page:
        ground = page.ground
        visit(browser, page.page, width=1100, height=900)
        page.beside.value = BESIDE
        until(lambda: len(ground.players) == 2)
        for player in ground.players:
            player.play(True)
        until(lambda: ground.player.now > 4.0)
        for player in ground.players:
            player.scrub(4.0)
        keep(browser, "live-both.png", scratch)


def of_a_world(browser: Browser, scratch: Path) -> None:
    with carom.play("dice", show=False, server=True, plain=False) as page:
        ground = page.ground
        visit(browser, page.page, width=1000, height=640)
        ground.player.play(True)
        until(lambda: ground.player.now > 0.06)
        ground.add_body("pill")
        until(lambda: ground.player.now > 0.2)
        ground.player.play(False)
        until(lambda: not page.page._stepping)  # all of them are seen
        keep(browser, "live-world.png", scratch)


def of_a_sweep(browser: Browser, scratch: Path) -> None:
    """Held at two thirds of its points for as long as the picture takes."""
    go = threading.Event()
    with SweepPage("sweep of pendulum") as page:

        def watch(store: Any) -> None:
            page.look(store)
            if page.map is not None and page.map.done.sum() >= 48:
                go.wait(60)

        grid = {"wall": list(np.linspace(0, 0.9, 8)), "restitution": list(np.linspace(0.3, 1, 9))}
        options: dict[str, Any] = {"num_steps": 1000, "block": 4, "progress": False, "watch": watch}
        work = threading.Thread(target=lambda: carom.sweep("pendulum", grid, **options), daemon=True)
        work.start()
        visit(browser, page, width=1000, height=560, ready="[data-carom-done]")
        until(lambda: page.map is not None and page.map.done.sum() >= 48)
        keep(browser, "live-sweep.png", scratch)
        go.set()
        work.join()


def of_a_cell(browser: Browser, scratch: Path) -> None:
    cell = PlayCell(ModelRerun("pendulum", carom.models.pendulum))
    Wire(browser, cell, scratch)
    browser.wait("ready()")
    look = json.dumps(str(cell._css))
    browser.run(f"document.head.append(document.createElement('style')); document.head.lastChild.append({look})")
    browser.size(900, 1000)
    browser.run("inside('scrub').oninput({ target: { value: 150000 } })")
    keep(browser, "live-cell.png", scratch)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        window = Browser(Path(folder) / "chromium")
        window.call("Page.addScriptToEvaluateOnNewDocument", source=SILENT)
        try:
            for draw in (of_a_run, of_two_methods, of_a_world, of_a_sweep, of_a_cell):
                draw(window, Path(folder))
        finally:
            window.close()

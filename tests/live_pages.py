"""What tests of live pages do: open one in a browser, press, slide, read, and find a point of the scene on the screen."""

import json
import time
from collections.abc import Callable

import numpy as np
from browser import Browser

from carom.live.ground import Ground
from carom.live.live_page import LivePage
from carom.live.served import ServedPage

PATIENCE = 90.0  # seconds, for what takes a moment on a quiet machine


def until(ask: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not ask():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def visit(
    browser: Browser, page: ServedPage, dark: bool = False, width: int = 640, height: int = 480, ready: str = "[data-carom-frame]"
) -> None:
    """Open a page, small: chromium draws in software here."""
    browser.call("Page.navigate", url="about:blank")
    browser.wait("location.href === 'about:blank'")  # the page of another test no longer asks for anything
    browser.complaints.clear()
    browser.requests.clear()
    browser.size(width, height)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    browser.call("Page.navigate", url=page.address)
    browser.wait(f"!!document.querySelector('canvas') && !!document.querySelector('{ready}')", PATIENCE)
    until(lambda: page.clients >= 1)


def _button(browser: Browser, name: str) -> str:
    """An expression for a button, once it is there: "Pause" comes a frame after "Play" was pressed."""
    found = f"[...document.querySelectorAll('button')].find(b => b.textContent.trim() === {json.dumps(name)})"
    browser.wait(f"!!{found}", PATIENCE)
    return found


def button(browser: Browser, name: str) -> None:
    browser.run(f"{_button(browser, name)}.click()")


def slide(browser: Browser, name: str, keys: list[str]) -> None:
    """Move a slider as the keyboard does."""
    handle = f"document.querySelector('[role=slider][aria-label={json.dumps(name)}]')"
    browser.wait(f"!!{handle}", PATIENCE)  # the panel comes after the scene
    browser.run(f"{handle}.focus()")
    for key in keys:
        press(browser, key, key, {"Home": 36, "End": 35}[key])


def focus(browser: Browser, name: str) -> None:
    """Put the keyboard on a button."""
    browser.run(f"{_button(browser, name)}.focus()")


def press(browser: Browser, key: str, code: str, number: int) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number)


def says(browser: Browser, text: str) -> None:
    browser.wait(f"!!document.querySelector('textarea')?.value.includes({json.dumps(text)})", PATIENCE)


def on_screen(page: LivePage, point: np.ndarray, stage: int = 0) -> tuple[float, float]:
    """Where on the screen a point of a stage is seen."""
    client = max(page.server.get_clients().items())[1]  # the newest: one that was left may not be gone yet
    camera = client.camera
    w, x, y, z = camera.wxyz
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    seen = turn.T @ (point + np.asarray(page.stages[stage].frame.position) - camera.position)  # x right, y down, z ahead
    scale = 0.5 * camera.image_height / np.tan(camera.fov / 2)
    return camera.image_width / 2 + scale * seen[0] / seen[2], camera.image_height / 2 + scale * seen[1] / seen[2]


def grab(
    browser: Browser,
    page: LivePage,
    ground: Ground,
    rise: float = 90.0,
    tries: int = 6,
    at: Callable[[], np.ndarray] | None = None,
) -> tuple[float, float]:
    """Press the mouse on the first body (its centre, or where `at` says) and pull it up; where the mouse is then. A press that
    missed is let go and tried again: the server is told where a camera is a moment after it has moved there, and how long that
    moment is depends on the machine."""
    mouse = lambda kind, x, y, **more: browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)  # noqa: E731
    for _ in range(tries):
        time.sleep(1.0)
        x, y = on_screen(page, ground.player.footage.centre(0, ground.player.now) if at is None else at())
        mouse("mouseMoved", x, y)
        time.sleep(1.0)  # a hand is not quicker than the eye
        mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for k in range(1, 11):
            mouse("mouseMoved", x, y - rise * k / 10, button="left", buttons=1)
            time.sleep(0.1)
        deadline = time.monotonic() + 10.0
        while ground.hand is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if ground.hand is not None:
            return x, y - rise
        mouse("mouseReleased", x, y - rise, button="left", buttons=0, clickCount=1)
    raise AssertionError(f"the body was not taken by the mouse in {tries} tries")

"""What a person needs to use a page, measured in a browser: contrast of every text, names of controls, the keyboard, no motion."""

import time
from pathlib import Path
from typing import Any

from browser import Browser

LOOK = (Path(__file__).parent / "accessible.js").read_text("utf-8")


def _ask(browser: Browser, what: str, inside: str | None = None) -> Any:
    doc = "document" if inside is None else f"document.querySelector({inside!r}).contentDocument"
    source = "\n".join(line for line in LOOK.splitlines() if not line.startswith("//"))
    return browser.run(f"{source}.{what}({doc})")


def pale(browser: Browser, inside: str | None = None, patience: float = 20.0) -> tuple[int, list[Any]]:
    """How many texts there are on the page (or in a frame of it), and those that stay too pale.

    A panel that opens fades in, for as long as the machine takes to draw it: what is pale only until then is no fault.
    """
    deadline = time.monotonic() + patience
    while True:
        count, bad = _ask(browser, "pale", inside)
        if not bad or time.monotonic() > deadline:
            return count, bad
        time.sleep(0.1)


def controls(browser: Browser, inside: str | None = None) -> list[tuple[str, str, int]]:
    """What can be used, its name, and its place in the order of the Tab key."""
    return [tuple(row) for row in _ask(browser, "controls", inside)]


def moving(browser: Browser, seconds: float = 0.5) -> list[str]:
    """Animations of the page that run by themselves."""
    time.sleep(seconds)
    return _ask(browser, "moving")


def prefer(browser: Browser, dark: bool = False, still: bool = False) -> None:
    """What the reader's system says."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    motion = {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme, motion])


def tab_through(browser: Browser, most: int) -> list[tuple[str, bool]]:
    """Press Tab so often: the names of what was reached, and whether one sees that it was."""
    reached = []
    for _ in range(most):
        for kind in ("rawKeyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        name, ring = _ask(browser, "active")
        reached.append((name, ring))
    return reached

"""A real browser for tests: Debian's chromium without a window, driven through its DevTools protocol."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import websocket

PROGRAM = next((p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None)
# WebGL by software: machines that run tests have no graphics card.
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--hide-scrollbars", "--no-first-run"]
FLAGS += ["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--mute-audio"]
FLAGS += ["--disable-quic", "--disable-sync"]

needs_browser = pytest.mark.skipif(
    PROGRAM is None and not os.environ.get("CAROM_BROWSER"), reason="no chromium here: apt-get install chromium"
)


class Browser:
    """One page. `complaints` collects console errors and uncaught exceptions, `requests` every address that was asked for."""

    def __init__(self, folder: Path, bars: bool = False):
        """`bars`: with bars to scroll by, which take room."""
        assert PROGRAM is not None
        flags = [*(flag for flag in FLAGS if not (bars and flag == "--hide-scrollbars"))]
        flags += ["--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen([PROGRAM, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = self._wait(lambda: (folder / "DevToolsActivePort").read_text().split("\n")[0], 60)
        pages = self._wait(lambda: json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10)), 60)
        address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self.numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    @staticmethod
    def _wait(attempt: Any, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if value := attempt():
                    return value
            except (OSError, ValueError):
                pass
            assert time.monotonic() < deadline, "the browser did not start"
            time.sleep(0.05)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._notice(message.get("method"), message.get("params", {}))

    def _notice(self, event: str | None, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 90) -> Any:
        """Until an expression is true."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < deadline, f"still not true: {script}"
            time.sleep(0.05)
        return value

    def open(self, path: Path, width: int = 1200, height: int = 1500, dark: bool = False) -> None:
        self.complaints.clear()
        self.requests.clear()
        self.size(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.body && document.body.dataset.ready === 'yes'")

    def size(self, width: int, height: int) -> None:
        mobile = width < 640
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def mouse(self, x: float, y: float, click: bool = False) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, selector: str) -> None:
        box = self.run(
            f"(e => {{e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); "
            f"return [b.x + b.width / 2, b.y + b.height / 2]}})(document.querySelector({selector!r}))"
        )
        self.mouse(*box, click=True)

    def screenshot(self, path: Path) -> bytes:
        image = base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"])
        path.write_bytes(image)
        return image

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait(20)

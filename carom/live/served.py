"""What every live page has: a server behind the gate, an address with a token, and an end."""

import contextlib
import io
import sys
import threading
import webbrowser
from typing import Any, Self

from carom.errors import InputError
from carom.live.gate import Gate, open_server

LOOK: dict[str, Any] = {"show_logo": False, "show_share_button": False, "brand_color": (31, 95, 139)}


class ServedPage:
    """A page of viser's. `address` is what to open; `close` ends it, and so does leaving a `with`."""

    def __init__(self, title: str, host: str, port: int):
        if not isinstance(port, int) or not 0 <= port < 65536:
            raise InputError(f"a port is a whole number from 0 to 65535; got {port!r}")
        if not isinstance(host, str):
            raise InputError(f"host must be a text, such as '127.0.0.1'; got {host!r}")
        self.gate, self.host = Gate(), host
        self.server = open_server(self.gate, host, port)
        self.server.gui.configure_theme(**LOOK)
        self.server.gui.set_panel_label(title)
        self._stop = threading.Event()
        self.server.on_client_connect(_welcome)

    @property
    def address(self) -> str:
        """What to open in a browser, with the token that lets one in."""
        host = self.host if self.host not in ("0.0.0.0", "::", "") else "localhost"
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.server.get_port()}/?token={self.gate.token}"

    @property
    def clients(self) -> int:
        return len(self.server.get_clients())

    def show(self) -> Self:
        """Open the address in the browser of this machine; where there is none, say it."""
        if not webbrowser.open(self.address):
            print(f"no browser was found on this machine: open {self.address}", file=sys.stderr)
        return self

    def wait(self) -> None:
        """Until Ctrl-C."""
        try:
            while not self._stop.wait(0.5):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        self._ending()
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def _ending(self) -> None:
        """What else ends with the page."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _welcome(client: Any) -> None:
    """Each client has its own colours: the page's script ticks this box for those who like the dark."""
    dark = client.gui.add_checkbox("dark", False, order=1e9)
    dark.on_update(lambda event: client.gui.configure_theme(dark_mode=event.target.value, **LOOK))

"""Who may look: viser's server behind a token, on this machine alone unless a person asks for more.

viser answers whoever reaches its port. The server is therefore started with a gate in front of every request, pages and sockets
alike: the address that is opened first carries a token, the answer turns it into a cookie that only this page's own requests send,
and everything else gets 403. The gate is put where viser hands its answers to the `websockets` library; `open_server` checks that
it was, and refuses to serve otherwise.
"""

import contextlib
import errno
import hmac
import http
import io
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

from carom.errors import InputError

# Whatever the page is told to load comes from this server: no request leaves for anywhere else, whatever viser's client would like.
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' ws: wss: data: blob:; "
    "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*; form-action 'none'; base-uri 'self'"
)
REFUSED = b"This page belongs to somebody: open the whole address that carom printed, with its token.\n"
_starting = threading.Lock()


class Gate:
    """Lets through who knows the token."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self.cookie = f"carom-{secrets.token_hex(4)}"  # cookies do not know ports: two pages on one machine must not share one
        self.installed = False
        self.seen: Callable[[dict[str, str]], None] = lambda said: None  # what a page says of the frames it has drawn

    def knows(self, path: str, cookies: str) -> bool:
        """Whether a request brings the token, in its address or in its cookie."""
        offered = parse_qs(urlsplit(path).query).get("token", [])
        offered += [value for name, _, value in (part.strip().partition("=") for part in cookies.split(";")) if name == self.cookie]
        return any(hmac.compare_digest(one.encode(), self.token.encode()) for one in offered)

    def around(self, answer: Callable[..., Any] | None) -> Callable[..., Any]:
        """`answer`, viser's own, for those who are let in."""
        self.installed = True

        def guarded(connection: Any, request: Any) -> Any:
            cookies = "; ".join(request.headers.get_all("Cookie"))
            origin = request.headers.get("Origin")
            strange = origin is not None and urlsplit(origin).netloc != request.headers.get("Host")
            if strange or not self.knows(request.path, cookies):
                refusal = connection.respond(http.HTTPStatus.FORBIDDEN, REFUSED.decode())
                refusal.headers["Connection"] = "close"
                return refusal
            if urlsplit(request.path).path == "/seen":
                said = parse_qs(urlsplit(request.path).query)
                self.seen({name: values[0][:16] for name, values in said.items()})
                return connection.respond(http.HTTPStatus.NO_CONTENT, "")
            if "Accept-Encoding" in request.headers:
                del request.headers["Accept-Encoding"]  # the page is added to before it is sent
            response = None if answer is None else answer(connection, request)
            if response is not None:
                _add(response)
                response.headers["Set-Cookie"] = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                response.headers["Content-Security-Policy"] = POLICY
                response.headers["Referrer-Policy"] = "no-referrer"  # the token stays in the address bar
                response.headers["X-Content-Type-Options"] = "nosniff"
                response.headers["Cache-Control"] = "no-store"
            return response

        return guarded


def _add(response: Any) -> None:
    """Our own script and style, at the end of the head of viser's page: labels, contrast, the reader's colours."""
    if not response.headers.get("Content-Type", "").startswith("text/html"):
        return
    client = resources.files("carom.live") / "client"
    style, script = ((client / name).read_text("utf-8") for name in ("live.css", "live.js"))
    extra = f"<style>{style}</style><script>{script}</script></head>"
    body = response.body.decode("utf-8").replace("</head>", extra, 1).replace("<html", '<html lang="en"', 1).encode("utf-8")
    del response.headers["Content-Length"]
    response.headers["Content-Length"] = str(len(body))
    response.body = body


def open_server(gate: Gate, host: str, port: int) -> Any:
    """A viser server behind the gate. Nothing is printed: carom says the address, with the token."""
    viser = need_viser()
    _check_place(host, port)
    with _starting, _gated(gate), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host=host, port=port, verbose=False)
    if not gate.installed:
        server.stop()
        raise InputError(
            "this version of viser starts its server in another way, so that its page could not be guarded: install viser 1.1"
        )
    server.request_share_url = lambda *_, **__: None  # a client may ask for a tunnel through somebody's server: there is none
    return server


def _check_place(host: str, port: int) -> None:
    """Whether one can listen there: viser tries a thousand ports after the one that was asked for, and then waits for ever."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a page that was just closed is in no way
            probe.bind(place)
            probe.listen()
    except socket.gaierror as error:
        raise InputError(f"there is no machine {host!r}: host is an address of this one, such as 127.0.0.1 or 0.0.0.0") from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"{host!r} is no address of this machine: 127.0.0.1 is for itself alone, 0.0.0.0 for all") from error
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is taken by another program: choose another one, or 0 for any that is free") from error
        raise InputError(f"a page cannot be served at {host}, port {port}: {error.strerror}") from error


@contextlib.contextmanager
def _gated(gate: Gate) -> Iterator[None]:
    """While a server starts, `websockets` is asked to guard what it serves."""
    import websockets.asyncio.server as library

    serve = library.serve

    def guarded(*args: Any, **options: Any) -> Any:
        return serve(*args, **{**options, "process_request": gate.around(options.get("process_request"))})

    library.serve = guarded  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        library.serve = serve  # type: ignore[misc]


def need_viser() -> Any:
    try:
        import viser
    except ImportError as error:
        raise InputError(
            "a live page needs viser: pip install 'carom[live]' (a report needs nothing: solution.report('run.html'))"
        ) from error
    return viser

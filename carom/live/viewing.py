"""What `solution.view()`, `world.view(run)`, `carom view` and `carom play` open."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from carom.errors import InputError
from carom.live.footage import of_solution, of_world
from carom.live.live_page import LivePage
from carom.live.play_page import PlayPage
from carom.live.player import Player
from carom.live.playground import Playground
from carom.live.widget import Widget


def in_notebook() -> bool:
    """Whether somebody looks at this through a notebook, whose kernel may be on another machine than the browser."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def view_solution(
    solution: Any, *, server: bool | None = None, show: bool = True, host: str = "127.0.0.1", port: int = 0, plain: bool = False
) -> LivePage | Widget:
    """Watch a run: a page in the browser of this machine; in a notebook a player in the cell, which needs no server.

    - `server`: True for a page, False for a player in a cell, wherever this is called.
    - `show`: open the page; otherwise look at `.address`. `host`: who may come, by default this machine alone.
    - `plain`: no shadows and no reflections, for machines without a graphics processor.
    """
    if server is False or (server is None and in_notebook()):
        return Widget.of(solution)
    page = LivePage(Player(of_solution(solution)), host=host, port=port, films=solution.animate, plain=plain)
    return page.show() if show else page


def view_world(world: Any, run: Any, *, show: bool = True, host: str = "127.0.0.1", port: int = 0, plain: bool = False) -> LivePage:
    """Watch a run of a world."""
    page = LivePage(Player(of_world(world, run)), host=host, port=port, plain=plain)
    return page.show() if show else page


def play(
    name: str, factory: Callable[..., Any], *, show: bool = True, host: str = "127.0.0.1", port: int = 0, plain: bool = False
) -> PlayPage:
    """Play with a model."""
    page = PlayPage(Playground(name, factory), host=host, port=port, plain=plain)
    return page.show() if show else page


def view_file(path: str | Path, *, show: bool = True, host: str = "127.0.0.1", port: int = 0, plain: bool = False) -> LivePage:
    """Watch a saved run, *.zarr or *.nc."""
    from carom.results.store import load

    page = view_solution(load(path), server=True, show=show, host=host, port=port, plain=plain)
    if not isinstance(page, LivePage):
        raise InputError(f"{str(path)!r} cannot be viewed")
    return page

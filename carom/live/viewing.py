"""What `solution.view()`, `run.view()`, `world.view()`, `world.play()`, `carom view` and `carom play` open."""

import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from carom.bodies.march import march
from carom.bodies.run import Settings, WorldRun
from carom.bodies.world import World
from carom.errors import InputError
from carom.live.footage import of_solution
from carom.live.ground import Ground
from carom.live.live_page import LivePage
from carom.live.play_page import PlayPage
from carom.live.player import Player
from carom.live.playground import Playground
from carom.live.widget import Widget
from carom.live.world_footage import of_world
from carom.live.world_ground import WorldGround
from carom.models import ALL, SCENES
from carom.report.worlds import report as report_world
from carom.results.places import file_path
from carom.results.store import load


def in_notebook() -> bool:
    """Whether somebody looks at this through a notebook, whose kernel may be on another machine than the browser."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def in_a_cell(server: bool | None) -> bool:
    """A player in a notebook's cell, or a page? `server` says so, or else where one is."""
    return server is False or (server is None and in_notebook())


def view_solution(
    solution: Any,
    *,
    server: bool | None = None,
    show: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
    plain: bool | None = None,
) -> LivePage | Widget:
    """Watch a run: a page in the browser of this machine; in a notebook a player in the cell, which needs no server.

    - `server`: True for a page, False for a player in a cell, wherever this is called.
    - `show`: open the page; otherwise look at `.address`. `host`: who may come, by default this machine alone.
    - `plain`: no shadows and no reflections, for machines without a graphics processor; by default where the page finds none.
    """
    if in_a_cell(server):
        return Widget.of(solution)
    page = LivePage(Player(of_solution(solution)), host=host, port=port, films=solution.animate, plain=plain)
    return page.show() if show else page


def view_run(
    run: WorldRun,
    *,
    server: bool | None = None,
    show: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
    plain: bool | None = None,
) -> LivePage | Widget:
    """Watch a run of a world; the same as `view_solution`, with the same arguments."""
    if in_a_cell(server):
        return Widget(report_world(run))
    films = None if run.film is None else run.animate
    page = LivePage(Player(of_world(run)), films=films, host=host, port=port, plain=plain)
    return page.show() if show else page


def view_world(
    world: World,
    run: WorldRun | None = None,
    *,
    server: bool | None = None,
    show: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
    plain: bool | None = None,
) -> LivePage | Widget:
    """Watch a run of a world, or look at the world as it stands."""
    if run is not None and not isinstance(run, WorldRun):
        raise InputError(f"run must be a run of the world, from world.solve(); got {run!r}")
    run = standing(world) if run is None else run
    return view_run(run, server=server, show=show, host=host, port=port, plain=plain)


def standing(world: World) -> WorldRun:
    """A world at its start: a run of no steps."""
    scene, state = world.scene()
    return march(scene, state, 1.0, 0, Settings(), False)


def play_world(
    world: World,
    dt: float,
    num_steps: int = 2000,
    *,
    show: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
    plain: bool | None = None,
) -> PlayPage:
    """Play with a world of one's own: a copy of it. `num_steps` is how long it usually runs; it says how fast one watches."""
    return _play(WorldGround.of(world, dt, num_steps), show, host, port, plain)


def play(name: str, **options: Any) -> PlayPage:
    """Play with a model or a scene, by its name."""
    return _play(WorldGround(name, SCENES[name]) if name in SCENES else Playground(name, ALL[name]), **options)


def _play(ground: Ground, show: bool = True, host: str = "127.0.0.1", port: int = 0, plain: bool | None = None) -> PlayPage:
    page = PlayPage(ground, host=host, port=port, plain=plain)
    return page.show() if show else page


def view_file(path: str | Path, **options: Any) -> LivePage:
    """Watch a saved run, *.zarr or *.nc, of a system or of a world; also as a page sends it, *.zarr.zip."""
    path = file_path(path, "run.zarr", there=True)
    with tempfile.TemporaryDirectory() as folder:
        run = load(_unpacked(path, Path(folder)) if path.suffix == ".zip" else path)
    page = run.view(server=True, **options)
    assert isinstance(page, LivePage)
    return page


def _unpacked(path: Path, folder: Path) -> Path:
    """The run in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        return next(folder.glob("*.zarr"))
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise InputError(f"{path} is no archive with a run (*.zarr) in it: {error or 'there is none'}") from error

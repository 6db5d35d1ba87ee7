"""What `solution.view()`, `run.view()` and `world.view()` open, `carom.play()`, `model.play()` and `world.play()`, and the commands
`carom view` and `carom play`."""

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carom.bodies.march import march
from carom.bodies.run import Settings, WorldRun
from carom.bodies.world import World
from carom.calls import nearest, public
from carom.errors import InputError
from carom.live.footage import of_solution
from carom.live.ground import Ground
from carom.live.live_page import LivePage
from carom.live.play_page import PlayPage
from carom.live.player import Player
from carom.live.playground import Playground
from carom.live.rerun import ModelRerun, WorldRerun
from carom.live.widget import Widget
from carom.live.world_footage import of_world
from carom.live.world_ground import WorldGround
from carom.models import ALL, SCENES
from carom.models.model import Model
from carom.models.world_model import WorldModel
from carom.report.html import fill_page
from carom.report.worlds import report as report_world
from carom.results.store import load

if TYPE_CHECKING:  # it needs anywidget
    from carom.live.cell import PlayCell

KNOBS = "For knobs in a notebook: pip install 'carom[notebook]', and start the kernel anew."


def in_notebook() -> bool:
    """Whether somebody looks at this through a notebook, whose kernel may be on another machine than the browser."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def in_a_cell(server: bool | None) -> bool:
    """A player in a notebook's cell, or a page? `server` says so, or else where one is."""
    return server is False or (server is None and in_notebook())


def opened(page: Any, show: bool) -> Any:
    """The page, in the browser if it is to be shown. A script that ends takes its page along: it is told how to stay."""
    if not show:
        return page
    page.show()
    typed = hasattr(sys, "ps1") or sys.flags.interactive or "IPython" in sys.modules
    if not typed:
        print(f"watch it: {page.address}\nThe page ends with this program: .wait() stays until Ctrl-C.", file=sys.stderr)
    return page


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
    return opened(page, show)


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
    return opened(page, show)


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
    server: bool | None = None,
    show: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
    plain: bool | None = None,
) -> "PlayPage | PlayCell | Widget":
    """Play with a world of one's own: a copy of it. `num_steps` is how long it usually runs; it says how fast one watches."""
    play_as = Playing("world", WorldGround.maker(world, dt, num_steps), worlds=True)
    return play_as.open(server, show, host, port, plain)


def play_model(
    model: Model | WorldModel,
    *,
    server: bool | None = None,
    show: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
    plain: bool | None = None,
) -> "PlayPage | PlayCell | Widget":
    """Play with a model as it is: a knob for each of its parameters, or for what every world has."""
    worlds = isinstance(model, WorldModel)
    made: Callable[[], Any] = (lambda: copy.deepcopy(model)) if worlds else (lambda: model)
    return Playing(model.name, made, worlds).open(server, show, host, port, plain)


@public
def play(
    what: str | Model | WorldModel | World,
    *,
    server: bool | None = None,
    show: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
    plain: bool | None = None,
) -> "PlayPage | PlayCell | Widget":
    """Play with a model or a scene: `carom.play("star")` has a knob for every number of it; `carom.play(model)` for its parameters.

    A page in the browser of this machine (extra `live`), computed as one watches. In a notebook a widget in the cell (extra
    `notebook`): no server, the kernel may be anywhere, and the whole run is computed anew at every change; `.run` is that run.

    - `server`: True for a page, False for a widget in a cell, wherever this is called.
    - `show`, `host`, `port`, `plain`: see `view_solution`.
    """
    options: dict[str, Any] = {"server": server, "show": show, "host": host, "port": port, "plain": plain}
    if isinstance(what, (Model, WorldModel)):
        return play_model(what, **options)
    if isinstance(what, World):
        raise InputError("a world has no step that suits it: world.play(dt=…) says one")
    known: dict[str, Any] = {**ALL, **SCENES}
    if not isinstance(what, str) or what not in known:
        raise InputError(f"there is no model {what!r} to play with{nearest(what, known)}; there are {', '.join(known)}")
    return Playing(what, known[what], what in SCENES, known=True).open(*options.values())


@dataclass(frozen=True)
class Playing:
    """What is to be played with: a name, and what makes it. `known`: it is the function of `carom.models` with this name."""

    name: str
    factory: Callable[..., Any]
    worlds: bool
    known: bool = False

    def open(self, server: bool | None, show: bool, host: str, port: int, plain: bool | None) -> "PlayPage | PlayCell | Widget":
        if in_a_cell(server):
            return self._cell()
        ground: Ground = (WorldGround if self.worlds else Playground)(self.name, self.factory, self.known)
        page = PlayPage(ground, host=host, port=port, plain=plain)
        return opened(page, show)

    def _cell(self) -> "PlayCell | Widget":
        """Knobs and the player; the player alone where that is all there is to be had."""
        rerun = (WorldRerun if self.worlds else ModelRerun)(self.name, self.factory)
        try:
            from carom.live.cell import PlayCell
        except ImportError:
            return Widget(fill_page(rerun.contents()), note=KNOBS)
        return PlayCell(rerun)


def view_file(path: str | Path, **options: Any) -> LivePage:
    """Watch a saved run, *.zarr or *.nc, of a system or of a world; also as a page sends it, *.zarr.zip."""
    page = load(path).view(server=True, **options)
    assert isinstance(page, LivePage)
    return page

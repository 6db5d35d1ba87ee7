"""`carom view`, `carom play`, `carom gallery`, and `--live`: pages on this machine."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from carom.cli.parsing import factory_of
from carom.cli.terminal import BAD_INPUT, FAILED, INTERRUPTED, fail

HOST = Annotated[str, typer.Option(help="Who may come: this machine alone, or 0.0.0.0 for whoever reaches it and has the token.")]
PORT = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")]
LOOK = "Without shadows and reflections, or with; by default as the machine can."
PLAIN = Annotated[bool | None, typer.Option("--plain/--rich", help=LOOK, show_default=False)]
QUIET = Annotated[bool, typer.Option("--no-browser", help="Only print the address.")]


def view(
    run: Annotated[Path, typer.Argument(help="A run of a model or a world: *.zarr, *.zarr.zip or *.nc.", show_default=False)],
    host: HOST = "127.0.0.1",
    port: PORT = 0,
    plain: PLAIN = None,
    no_browser: QUIET = False,
) -> None:
    """Watch a saved run in the browser: play, scrub, step from impact to impact, follow a body. Ctrl-C ends it."""
    from carom.live.viewing import view_file

    stay(lambda: view_file(run, show=False, host=host, port=port, plain=plain), no_browser)


def play(
    model: Annotated[str, typer.Argument(help="A name from `carom list`.", show_default=False)],
    host: HOST = "127.0.0.1",
    port: PORT = 0,
    plain: PLAIN = None,
    no_browser: QUIET = False,
) -> None:
    """Play with a model or a scene in the browser: it is computed as you watch. Turn its knobs, take it by the hand, add bodies."""
    from carom.live import viewing

    def open_page() -> Any:
        factory_of(model)
        with being_made():
            return viewing.play(model, show=False, host=host, port=port, plain=plain)

    stay(open_page, no_browser)


def stay(open_page: Callable[[], Any], no_browser: bool) -> None:
    """Open a page, say its address, and stay until Ctrl-C."""
    from carom.errors import CaromError

    try:
        page = open_page()
    except (CaromError, ValueError, OSError) as error:
        fail(str(error), BAD_INPUT)
    typer.echo(f"open {page.address}\nCtrl-C ends it.")
    if not no_browser:
        page.show()
    page.wait()


def being_made() -> Any:
    """Said on a terminal for as long as it takes: a model that is compiled for the first time takes seconds, a beam many."""
    from carom.cli.terminal import console

    return console(stderr=True).status("the first moments are computed; what is new is compiled first, for some seconds")


def run_watched(problem: Any, method: Any, num_steps: int, options: dict[str, Any]) -> tuple[Any, Any]:
    """Run a model with a page open; the solution, and the page, which stays open after the run."""
    from carom.live.watched import ModelWork, WatchedRun

    with being_made():
        watched = WatchedRun(problem.name, ModelWork(problem, method, options), num_steps)
    return _watch(watched)


def watched_world(scene: Any, dt: float, num_steps: int) -> tuple[Any, Any]:
    """The same for a scene."""
    from carom.live.watched import WatchedRun, WorldWork

    with being_made():
        watched = WatchedRun(scene.name, WorldWork(scene, dt), num_steps)
    return _watch(watched)


def watched_sweep(model: str) -> Any:
    """A page on which the points of a sweep appear as they are done."""
    from carom.live.sweep_page import SweepPage

    page = SweepPage(f"sweep of {model}")
    typer.echo(f"watch it: {page.address}", err=True)
    return page.show()


def _watch(watched: Any) -> tuple[Any, Any]:
    typer.echo(f"watch it: {watched.page.address}", err=True)
    watched.page.show()
    try:
        return watched.finish(), watched.page
    except KeyboardInterrupt:
        watched.stop.set()
        typer.echo("stopped; what was computed is summed up, and the page stays open until Ctrl-C is pressed again", err=True)
        return watched.finish(), watched.page


def gallery(
    models: Annotated[
        list[str] | None, typer.Argument(help="Names from `carom list`; all of them by default.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder.")] = Path("gallery"),
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bar (it appears on terminals only).")] = False,
) -> None:
    """Write pages to play with, one for each model, with a choice of parameters: they work from the folder, without a network.

    Pages that are there already are kept for as long as carom and the model are the same; what was stopped goes on."""
    from carom.cli.terminal import console, folder
    from carom.live.gallery import write_gallery
    from carom.models import ALL, SCENES
    from carom.running.progress import Bar

    try:
        chosen = {name: factory_of(name) for name in (models or [*ALL, *SCENES])}
        folder(out)
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    clock, fresh = time.perf_counter(), []
    with Bar(False if no_progress else None) as bar:

        def watch(share: float, name: str) -> None:
            minutes = (time.perf_counter() - clock) / 60
            rate = f", {len(fresh) / minutes:.1f} pages/min" if fresh and minutes > 0.1 else ""
            bar.update(share, f"{name} ({list(chosen).index(name) + 1} of {len(chosen)}{rate})")

        try:
            for page, new in write_gallery(out, chosen, watch):
                fresh += [page] if new else []
        except KeyboardInterrupt:
            fail(f"stopped; what is done is in {out}, and the same command goes on", INTERRUPTED)
        except OSError as error:
            fail(f"writing to {out} failed: {error}", FAILED)
    count = f"{len(chosen)} page{'' if len(chosen) == 1 else 's'}"
    told = f"{len(fresh)} made in {time.perf_counter() - clock:.0f} s, {len(chosen) - len(fresh)} kept"
    console().print(f"written: {out / 'index.html'} and {count} ({told})", highlight=False)

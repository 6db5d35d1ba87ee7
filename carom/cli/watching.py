"""`carom view` and `carom play`: pages on this machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from carom.cli.parsing import known_model
from carom.cli.terminal import BAD_INPUT, fail

HOST = Annotated[str, typer.Option(help="Who may come: this machine alone, or 0.0.0.0 for whoever reaches it and has the token.")]
PORT = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")]
PLAIN = Annotated[bool, typer.Option("--plain", help="No shadows and no reflections: for machines without a graphics processor.")]
QUIET = Annotated[bool, typer.Option("--no-browser", help="Only print the address.")]


def view(
    run: Annotated[Path, typer.Argument(help="A run: *.zarr or *.nc.", show_default=False)],
    host: HOST = "127.0.0.1",
    port: PORT = 0,
    plain: PLAIN = False,
    no_browser: QUIET = False,
) -> None:
    """Watch a saved run in the browser: play, scrub, step from impact to impact, follow a body. Ctrl-C ends it."""
    from carom.errors import CaromError
    from carom.live.viewing import view_file

    try:
        page = view_file(run, show=False, host=host, port=port, plain=plain)
    except (CaromError, OSError) as error:
        fail(str(error), BAD_INPUT)
    keep_open(page, no_browser)


def play(
    model: Annotated[str, typer.Argument(help="A name from `carom list`.", show_default=False)],
    host: HOST = "127.0.0.1",
    port: PORT = 0,
    plain: PLAIN = False,
    no_browser: QUIET = False,
) -> None:
    """Play with a model in the browser: it is computed as you watch. Turn its knobs, change its method, take it by the hand."""
    from carom.errors import CaromError
    from carom.live import viewing
    from carom.models import ALL

    try:
        page = viewing.play(known_model(model), ALL[model], show=False, host=host, port=port, plain=plain)
    except (CaromError, ValueError, OSError) as error:
        fail(str(error), BAD_INPUT)
    keep_open(page, no_browser)


def run_watched(problem: Any, method: Any, num_steps: int, options: dict[str, Any]) -> tuple[Any, Any]:
    """Run a model with a page open; the solution, and the page, which stays open after the run."""
    from carom.live.watched import WatchedRun

    watched = WatchedRun(problem, method, num_steps, options)
    typer.echo(f"watch it: {watched.page.address}", err=True)
    watched.page.show()
    try:
        return watched.finish(), watched.page
    except KeyboardInterrupt:
        watched.stop.set()
        return watched.finish(), watched.page


def keep_open(page: Any, no_browser: bool) -> None:
    """Say the address, open it, and stay until Ctrl-C."""
    typer.echo(f"open {page.address}\nCtrl-C ends it.")
    if not no_browser:
        page.show()
    page.wait()


def gallery(
    models: Annotated[
        list[str] | None, typer.Argument(help="Names from `carom list`; all of them by default.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder.")] = Path("gallery"),
) -> None:
    """Write pages to play with, one for each model, with a choice of parameters: they work from the folder, without a network."""
    from carom.cli.terminal import console, folder
    from carom.live.gallery import write_gallery
    from carom.models import ALL
    from carom.running.progress import Bar

    try:
        chosen = {known_model(name): ALL[name] for name in (models or ALL)}
        folder(out)
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    with Bar() as bar:
        for done, name in enumerate(write_gallery(out, chosen), 1):
            bar.update(done / len(chosen), f"{name} ({done} of {len(chosen)})")
    console().print(f"written: {out / 'index.html'} and {len(chosen)} page{'' if len(chosen) == 1 else 's'}", highlight=False)

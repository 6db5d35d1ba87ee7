"""`carom run SCENE`: a world of bodies, run, told about and written."""

import json
import warnings
from pathlib import Path
from typing import Any

import typer

from carom.cli.parsing import build_model
from carom.cli.terminal import BAD_INPUT, FAILED, after_the_run, console, end_of_run, fail, lists, plain
from carom.cli.watching import watched_world
from carom.cli.writing import check_out, is_file

PICTURED = ("run.zarr", "run.html", "summary.json", "motion.gif")  # what goes into a folder


def run_scene(
    name: str,
    settings: list[str],
    options: dict[str, Any],
    out: Path | None,
    as_json: bool,
    live: bool,
    meaningless: dict[str, bool],
) -> None:
    """Run a scene with what was asked for; `meaningless` are options that only systems have, and whether they were given."""
    from carom.bodies.ending import EARLY
    from carom.errors import CaromError

    try:
        given = [option for option, was in meaningless.items() if was]
        if given:
            raise ValueError(
                f"{given[0]} goes with models, and {name} is a world of bodies: it has one method and steps of equal length"
            )
        scene, _ = build_model(name, settings)
        if out is not None:
            check_out(out, True, PICTURED)
        options = {"dt": scene.dt, "num_steps": scene.num_steps} | {k: v for k, v in options.items() if v is not None}
        page = None
        if live:
            if "checkpoint" in options:
                raise ValueError("--live goes with --steps, not with --checkpoint")
            run, page = watched_world(scene, options["dt"], options["num_steps"])
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=EARLY)  # the last line of the command says so
                run = scene.solve(**options)
    except (CaromError, ValueError) as error:
        fail(str(error), BAD_INPUT)
    with after_the_run(out, page):
        summary = plain({**run.summary(), "model": name, "params": lists(_values(name, settings))})
        if as_json:
            typer.echo(json.dumps(summary, allow_nan=False))
        else:
            from carom.report.tables import world_outcome

            console().print(world_outcome(run))
        if out is not None:
            _write(out, scene, run, summary, as_json)
    if page is not None:
        page.wait()
    end_of_run(run.status)


def _values(name: str, settings: list[str]) -> dict[str, Any]:
    """All arguments of a scene as they were for this run."""
    from carom.cli.parsing import settable, split_settings

    arguments, _ = split_settings(name, settings)
    return {**settable(name), **arguments}


def _write(out: Path, scene: Any, run: Any, summary: dict[str, Any], quiet: bool) -> None:
    from carom.errors import CaromError

    written = [out] if is_file(out) else [out / name for name in PICTURED]
    try:
        for path in written:
            _write_file(path, scene, run, summary)
    except (OSError, CaromError) as error:
        fail(f"writing to {out} failed: {error}", FAILED)
    if not quiet:
        typer.echo(f"written: {', '.join(map(str, written))}")


def _write_file(path: Path, scene: Any, run: Any, summary: dict[str, Any]) -> None:
    from carom.report.body_film import save_film, still

    kind = path.suffix.lower()
    if kind in (".zarr", ".nc"):
        run.save(path)
    elif kind == ".html":
        run.report(path, scene.name)
    elif kind == ".json":
        path.write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n", "utf-8")
    elif kind == ".gif":
        save_film(scene.film(run), path, view=scene.view)
    elif kind == ".mp4":
        run.animate(path)
    else:
        still(scene.film(run), float(run.t[-1]), width=720, view=scene.view).save(path)

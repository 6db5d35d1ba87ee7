"""The commands `carom study impacts` and `carom study tosses`: the library against measured data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from carom.cli.terminal import BAD_INPUT, console, fail, folder, note

AS_JSON = typer.Option("--json", help="Exactly one JSON object on stdout.")


def impacts(
    data: Annotated[Path, typer.Argument(help="A file *.npz with states [k, 12], normal, tangent [k, 3] and flags.")],
    out: Annotated[Path, typer.Option(help="Folder for impacts.png and impacts.json.")] = Path("out"),
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """Laws of impact against measured impacts of a dropped ellipse [fazeli2017].

    Elastic, Newton's and Poisson's laws with constant coefficients, fitted to one half of the impacts and measured on the other.
    """
    from carom.errors import CaromError
    from carom.papers import measured_impacts, reality

    try:
        folder(out)
        found = measured_impacts.load_impacts(data)
        results = measured_impacts.compare(found)
    except (ValueError, CaromError) as error:
        fail(str(error), BAD_INPUT)
    reality.plot_laws(results, out / "impacts.png")
    numbers = {
        "impacts": len(found),
        "tangents_reversed": found.reversed,
        "laws": {r.law: r.coefficients | {"mean_error": float(r.errors.mean())} for r in results},
    }
    _write(numbers, out / "impacts.json", as_json)
    if not as_json:
        if found.reversed:
            note(
                "the levers of the tangents have the other sign than in the file: only so do the measured impulses fit the turning"
            )
        console().print(reality.law_table(results))
        typer.echo(f"written to {out}: impacts.png, impacts.json")


def tosses(
    data: Annotated[Path, typer.Argument(help="A file *.npz with rows [n, 13] (quaternion, position, …) and start.")],
    train: Annotated[int, typer.Option(min=1, help="Tosses to fit to: the first even ones.")] = 10,
    test: Annotated[int, typer.Option(min=1, help="Tosses to measure on: the first odd ones.")] = 40,
    friction: Annotated[float | None, typer.Option(min=0.0, help="Given, and nothing is fitted.", show_default=False)] = None,
    restitution: Annotated[float, typer.Option(min=0.0, max=1.0, help="With --friction.")] = 0.0,
    out: Annotated[Path, typer.Option(help="Folder for tosses.png and tosses.json.")] = Path("out"),
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """A rigid cube with constant friction and restitution against measured tosses [pfrommer2020]. Some seconds per toss."""
    from carom.errors import CaromError
    from carom.papers import reality
    from carom.papers import tosses as study

    try:
        folder(out)
        every = study.load_tosses(data)
        tried = []
        if friction is None:
            for pair in study.fit(every[0::2][:train]):
                note(f"friction {pair[0]:g}, restitution {pair[1]:g}: score {pair[2]:.3f}")
                tried.append(pair)
            friction, restitution, _ = min(tried, key=lambda pair: pair[2])
        errors = list(study.measure(every[1::2][:test], friction, restitution))
    except (ValueError, CaromError) as error:
        fail(str(error), BAD_INPUT)
    summary = reality.toss_summary(errors)
    reality.plot_tosses(errors, out / "tosses.png")
    _write({"friction": friction, "restitution": restitution, "tried": tried} | summary, out / "tosses.json", as_json)
    if not as_json:
        console().print(reality.toss_table(summary, friction, restitution))
        typer.echo(f"written to {out}: tosses.png, tosses.json")


def _write(numbers: dict, path: Path, as_json: bool) -> None:
    text = json.dumps(numbers, indent=1, allow_nan=False)
    path.write_text(text + "\n", "utf-8")
    if as_json:
        typer.echo(text)

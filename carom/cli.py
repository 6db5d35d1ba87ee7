"""The command line: `carom list`, `carom run MODEL`, `carom report RUN`, `carom demo`."""

import difflib
import inspect
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from carom.terminal import BAD_INPUT, FAILED, INTERRUPTED, OK, console, fail, folder, lists, note, plain, use_cache

FILES = (".zarr", ".nc", ".html", ".json", ".png", ".gif", ".mp4")
MOST_STEPS = 2_000_000  # where --impacts is given without --steps

app = typer.Typer(
    name="carom",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Mechanical systems with collisions, simulated so that what mechanics conserves stays conserved.",
    epilog="Start with `carom list`, then `carom run star`. `carom demo` shows what the library is for.",
)


def main() -> None:
    """The entry point. A reader that has seen enough (`carom list | head -3`) is no error."""
    try:
        app(standalone_mode=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more is said when Python flushes at its end
        sys.exit(OK)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        import carom

        typer.echo(f"carom {carom.__version__}")
        raise typer.Exit()


@app.command("list")
def list_models(
    model: Annotated[str | None, typer.Argument(help="Tell about this one only, with its parameters.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """List the models that `carom run` takes, or the parameters of one of them."""
    from carom.models import ALL
    from carom.report.tables import catalogue, portrait

    try:
        names = [*ALL] if model is None else [_known_model(model)]
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    built = {name: ALL[name]() for name in names}
    if as_json:
        typer.echo(
            json.dumps({n: {"about": m.about, "source": m.source, "parameters": lists(settable(n))} for n, m in built.items()})
        )
    elif model is None:
        console().print(catalogue(built))
    else:
        console().print(*portrait(built[model], inspect.getdoc(ALL[model]) or "", settable(model)), sep="\n")


def _complete_model(incomplete: str) -> list[str]:
    from carom.models import ALL

    return [name for name in ALL if name.startswith(incomplete)]


_RULE_HELP = "trapezoidal, midpoint, left, right, gamma:0.3, galerkin:2, composition:4, composition:6:midpoint"


@app.command(
    epilog="""
Examples:

`carom run star` · the star of the paper, with the order-4 rule

`carom run star --rule trapezoidal --impacts 1500 --out out` · the paper's rule; data, report and pictures into `out/`

`carom run star --out star.html` · only the report; `.zarr`, `.nc`, `.png`, `.gif`, `.mp4` work alike

`carom run cradle --simultaneous impulse` · three touching balls, one impulse on all contacts

`carom run particle --set gravity=1.62 --dt 0.005 --json` · on the moon, one JSON object on stdout

Exit codes: 0 done, 1 the run failed on its way (what was computed is still shown and written), 2 bad input, 130 stopped by Ctrl-C
(also shown and written).
"""
)
def run(
    model: Annotated[str, typer.Argument(help="A name from `carom list`.", show_default=False, autocompletion=_complete_model)],
    dt: Annotated[float | None, typer.Option(help="Length of a step; by default what suits the model.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps; by default what suits the model.", show_default=False)] = None,
    impacts: Annotated[int | None, typer.Option(min=1, help="Stop once so many impacts have happened.", show_default=False)] = None,
    rule: Annotated[str, typer.Option(help=f"The discrete Lagrangian: {_RULE_HELP}.")] = "composition:4",
    simultaneous: Annotated[str, typer.Option(help="Contacts that close at once: reflections or impulse.")] = "reflections",
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the model; repeatable.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for everything, or one file: .zarr .nc .html .json .png .gif .mp4", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Exactly one JSON object on stdout.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A *.zarr to write on the way; the same command goes on with it.", show_default=False)
    ] = None,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bar (it appears on terminals only).")] = False,
) -> None:
    """Simulate a model and say what became of its energy."""
    from carom.errors import CaromError

    try:
        problem, changes = build_model(model, setting or [])
        method = build_method(rule, simultaneous)
        if out is not None:
            folder(out.parent if out.suffix in FILES else out)
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    try:
        use_cache()
        num_steps = steps if steps is not None else MOST_STEPS if impacts is not None else problem.num_steps
        solution = problem.solve(
            method,
            dt=problem.dt if dt is None else dt,
            num_steps=num_steps,
            max_impacts=impacts,
            params=changes,
            checkpoint=checkpoint,
            progress=False if no_progress else None,
            throw=False,
        )
    except CaromError as error:
        fail(str(error), BAD_INPUT)
    summary = plain(
        {**solution.summary(), "model": model, "rule": rule, "simultaneous": simultaneous, "params": lists(solution.params)}
    )
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        from carom.report.tables import outcome

        console().print(outcome(solution, rule))
    if out is not None:
        _write(out, solution, summary, quiet=as_json)
    if not solution.status.ok:
        fail(solution.status.message, FAILED)
    if solution.status.name == "interrupted":
        fail(solution.status.message, INTERRUPTED)
    if impacts is not None and len(solution.impacts) < impacts:
        note(f"only {len(solution.impacts):,} of {impacts:,} impacts happened in {num_steps:,} steps; ask for more with --steps")


@app.command(epilog="`carom run star --out star.zarr`, then `carom report star.zarr`: writes star.html")
def report(
    run: Annotated[Path, typer.Argument(help="A run: *.zarr or *.nc.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The HTML file; by default beside the run.", show_default=False)] = None,
    title: Annotated[str | None, typer.Option(help="Instead of the name of the run.", show_default=False)] = None,
) -> None:
    """Make a report of a saved run: one HTML file with the motion, what is conserved, the impacts and how it was made."""
    from carom.errors import InputError
    from carom.store import load

    try:
        path = load(run).report(run.with_suffix(".html") if out is None else out, title)
    except InputError as error:
        fail(str(error), BAD_INPUT)
    except OSError as error:
        fail(f"writing the report failed: {error}", FAILED)
    typer.echo(str(path))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("out"),
    impacts: Annotated[int, typer.Option(min=6, help="So many impacts.")] = 1500,
) -> None:
    """The star of the paper, tumbling: its energy with the paper's rule of order 2 and with the composition of order 4.

    Writes star-energy.png (the paper's figure 4, and the errors on a logarithmic scale), star.png (the first bounces) and
    star.html, the report of the second run: open it in a browser.
    """
    from carom.report import plot_energy, plot_motion
    from carom.report.tables import comparison

    try:
        folder(out)
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    use_cache()
    star, _ = build_model("star", [])
    labels = {"trapezoidal": "trapezoidal (order 2)", "composition:4": "composition (order 4)"}
    runs = {
        label: star.solve(build_method(rule, "reflections"), num_steps=MOST_STEPS, max_impacts=impacts)
        for rule, label in labels.items()
    }
    console().print(comparison(runs, title=f"the star of {star.source}: dt = {star.dt:g}"))
    plot_energy(
        runs, out / "star-energy.png", title=f"a star tumbling on a floor: energy over {impacts:,} impacts, dt = {star.dt:g}"
    )
    last = runs[labels["composition:4"]]
    plot_motion(last, path=out / "star.png", frames=70, until=float(last.impacts.t[5]))
    page = last.report(out / "star.html", title=f"a star tumbling on a floor: {impacts:,} impacts")
    typer.echo(f"pictures: {out / 'star-energy.png'}, {out / 'star.png'}\nreport, to open in a browser: {page.resolve().as_uri()}")


# -- from text to objects ------------------------------------------------------------------------------------------------


def build_model(name: str, settings: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """The model with its settings: arguments of its factory, and for what is left changes of single parameters."""
    from carom.models import ALL

    factory, known = ALL[_known_model(name)], settable(name)
    arguments, changes = {}, {}
    for text in settings:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise ValueError(f"--set takes name=value; got {text!r}")
        if key not in known:
            raise ValueError(f"{name} has no parameter {key!r}{_hint(key, known)}. It has: {', '.join(known)}")
        (arguments if key in inspect.signature(factory).parameters else changes)[key] = _value(key, value, known[key])
    return factory(**arguments), changes


def _known_model(name: str) -> str:
    from carom.models import ALL

    if name not in ALL:
        raise ValueError(f"there is no model {name!r}{_hint(name, ALL)}. There are: {', '.join(ALL)}")
    return name


def settable(name: str) -> dict[str, Any]:
    """What --set can change, with the defaults: the arguments of the factory, then the parameters that are not among them."""
    from carom.models import ALL

    model = ALL[name]()
    arguments = {key: p.default for key, p in inspect.signature(ALL[name]).parameters.items()}
    arguments = {key: model.params.get(key) if value is None else value for key, value in arguments.items()}
    return arguments | {key: value for key, value in model.params.items() if key not in arguments}


def _value(key: str, text: str, default: Any) -> Any:
    """A number, or a list of numbers where the default is one."""
    import numpy as np

    for convert in (int, float, json.loads):
        try:
            value = convert(text)
            found = np.asarray(value, dtype=float)
        except (ValueError, TypeError):
            continue
        if found.ndim == np.ndim(default):
            return value
        break
    wanted = {0: "a number", 1: "a list of numbers, as [1, 2]"}.get(
        np.ndim(default), "a list of points, as [[0, 0], [1, 0], [0, 1]]"
    )
    raise ValueError(f"--set {key}: {text!r} is not {wanted}")


def build_method(rule: str, simultaneous: str) -> Any:
    from carom.methods.variational import VariationalCollision

    return VariationalCollision(build_rule(rule), simultaneous=simultaneous)


def build_rule(text: str) -> Any:
    """From `composition:4:midpoint` to Composition(Midpoint(), 4)."""
    from carom.methods.rules import Composition, Galerkin, Gamma, Left, Midpoint, Right, Trapezoidal

    simple: dict[str, Any] = {"trapezoidal": Trapezoidal, "midpoint": Midpoint, "left": Left, "right": Right}
    names = [*simple, "gamma", "galerkin", "composition"]
    kind, *rest = (part.strip().lower() for part in text.split(":"))
    if kind not in names:
        raise ValueError(f"there is no rule {kind!r}{_hint(kind, names)}. Write one of: {_RULE_HELP}")
    if kind in simple:
        if rest:
            raise ValueError(f"--rule {text}: {kind} takes nothing after the colon")
        return simple[kind]()
    most = 2 if kind == "composition" else 1
    if not rest or not rest[0] or len(rest) > most:
        example = {"gamma": "gamma:0.3", "galerkin": "galerkin:2", "composition": "composition:4 or composition:4:midpoint"}[kind]
        raise ValueError(f"--rule {text}: {kind} is written as {example}")
    try:
        number = float(rest[0]) if kind == "gamma" else int(rest[0])
    except ValueError as error:
        raise ValueError(f"--rule {text}: {rest[0]!r} is not a {'number' if kind == 'gamma' else 'whole number'}") from error
    if kind == "gamma":
        return Gamma(number)
    if kind == "galerkin":
        return Galerkin(int(number))
    return Composition(build_rule(rest[1] if len(rest) > 1 else "trapezoidal"), int(number))


def _hint(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


# -- files ---------------------------------------------------------------------------------------------------------------


def _write(out: Path, solution: Any, summary: dict[str, Any], quiet: bool) -> None:
    """One file, if `out` is the name of one; otherwise a folder with the run, its report, its numbers and its pictures."""
    import numpy as np

    if out.suffix in FILES:
        written = [out]
    else:
        drawn = solution.shape is not None and solution.num_steps > 1 and np.all(np.isfinite(solution.q))
        written = [out / name for name in ("run.zarr", "run.html", "summary.json", "run.png", *(["motion.png"] if drawn else []))]
    try:
        for path in written:
            _write_file(path, solution, summary)
    except OSError as error:
        fail(f"writing to {out} failed: {error}", FAILED)
    if not quiet:
        typer.echo(f"written: {', '.join(map(str, written))}")


def _write_file(path: Path, solution: Any, summary: dict[str, Any]) -> None:
    if path.suffix in (".zarr", ".nc"):
        solution.save(path)
    elif path.suffix == ".html":
        solution.report(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
    elif path.suffix in (".gif", ".mp4"):
        solution.animate(path)
    elif path.name == "motion.png":
        from carom.report import plot_motion

        hits = solution.impacts
        plot_motion(solution, path=path, frames=30, until=float(hits.t[5]) if len(hits) > 5 else None)
    else:
        solution.plot(path)


if __name__ == "__main__":
    main()

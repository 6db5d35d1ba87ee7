"""The command line: `carom list`, `carom run MODEL`, `carom demo`."""

import difflib
import inspect
import json
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
MOST_STEPS = 2_000_000  # where --impacts is given without --steps
CACHE_FROM = 0.2  # seconds: what compiles faster is not worth a file

app = typer.Typer(
    name="carom",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Mechanical systems with collisions, simulated so that what mechanics conserves stays conserved.",
    epilog="Start with `carom list`, then `carom run star`. `carom demo` shows what the library is for.",
)


def main() -> None:
    """The entry point."""
    app()


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
        _fail(str(error), BAD_INPUT)
    built = {name: ALL[name]() for name in names}
    if as_json:
        typer.echo(
            json.dumps({n: {"about": m.about, "source": m.source, "parameters": _lists(settable(n))} for n, m in built.items()})
        )
    elif model is None:
        _console().print(catalogue(built))
    else:
        _console().print(*portrait(built[model], inspect.getdoc(ALL[model]) or "", settable(model)), sep="\n")


_RULE_HELP = "trapezoidal, midpoint, left, right, gamma:0.3, galerkin:2, composition:4, composition:6:midpoint"


@app.command(
    epilog="""
Examples:

`carom run star` · the star of the paper, with the order-4 rule

`carom run star --rule trapezoidal --impacts 1500 --out out` · the paper's rule, pictures and arrays into `out/`

`carom run cradle --simultaneous impulse` · three touching balls, one impulse on all contacts

`carom run particle --set gravity=1.62 --dt 0.005 --json` · on the moon, one JSON object on stdout

Exit codes: 0 done, 1 the run failed on its way (what was computed is still shown and written), 2 bad input.
"""
)
def run(
    model: Annotated[str, typer.Argument(help="A name from `carom list`.", show_default=False)],
    dt: Annotated[float | None, typer.Option(help="Length of a step; by default what suits the model.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps; by default what suits the model.", show_default=False)] = None,
    impacts: Annotated[int | None, typer.Option(min=1, help="Stop once so many impacts have happened.", show_default=False)] = None,
    rule: Annotated[str, typer.Option(help=f"The discrete Lagrangian: {_RULE_HELP}.")] = "composition:4",
    simultaneous: Annotated[str, typer.Option(help="Contacts that close at once: reflections or impulse.")] = "reflections",
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the model; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for run.png, motion.png, run.npz, summary.json.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Exactly one JSON object on stdout.")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bar (it appears on terminals only).")] = False,
) -> None:
    """Simulate a model and say what became of its energy."""
    from carom.errors import CaromError

    try:
        problem, changes = build_model(model, setting or [])
        method = build_method(rule, simultaneous)
        if out is not None:
            _folder(out)
    except ValueError as error:
        _fail(str(error), BAD_INPUT)
    try:
        _use_cache()
        num_steps = steps if steps is not None else MOST_STEPS if impacts is not None else problem.num_steps
        solution = problem.solve(
            method,
            dt=problem.dt if dt is None else dt,
            num_steps=num_steps,
            max_impacts=impacts,
            params=changes,
            progress=False if no_progress else None,
            throw=False,
        )
    except CaromError as error:
        _fail(str(error), BAD_INPUT)
    summary = _plain(
        {**solution.summary(), "model": model, "rule": rule, "simultaneous": simultaneous, "params": _lists(solution.params)}
    )
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        from carom.report.tables import outcome

        _console().print(outcome(solution, rule))
    if out is not None:
        _write(out, solution, problem, summary, quiet=as_json)
    if not solution.status.ok:
        _fail(solution.status.message, FAILED)
    if solution.status.name == "interrupted":
        _fail(solution.status.message, INTERRUPTED)
    if impacts is not None and len(solution.impacts) < impacts:
        _note(f"only {len(solution.impacts):,} of {impacts:,} impacts happened in {num_steps:,} steps; ask for more with --steps")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("out"),
    impacts: Annotated[int, typer.Option(min=6, help="So many impacts.")] = 1500,
) -> None:
    """The star of the paper, tumbling: its energy with the paper's rule of order 2 and with the composition of order 4.

    Writes star-energy.png (the paper's figure 4, and the errors on a logarithmic scale) and star.png (the first bounces).
    """
    from carom.report import plot_energy, plot_motion
    from carom.report.tables import comparison

    try:
        _folder(out)
    except ValueError as error:
        _fail(str(error), BAD_INPUT)
    _use_cache()
    star, _ = build_model("star", [])
    labels = {"trapezoidal": "trapezoidal (order 2)", "composition:4": "composition (order 4)"}
    runs = {
        label: star.solve(build_method(rule, "reflections"), num_steps=MOST_STEPS, max_impacts=impacts)
        for rule, label in labels.items()
    }
    _console().print(comparison(runs, title=f"the star of {star.source}: dt = {star.dt:g}"))
    plot_energy(
        runs, out / "star-energy.png", title=f"a star tumbling on a floor: energy over {impacts:,} impacts, dt = {star.dt:g}"
    )
    last = runs[labels["composition:4"]]
    plot_motion(last, star.shape, out / "star.png", frames=70, until=float(last.impacts.t[5]))
    typer.echo(f"pictures: {out / 'star-energy.png'}, {out / 'star.png'}")


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

    plain: dict[str, Any] = {"trapezoidal": Trapezoidal, "midpoint": Midpoint, "left": Left, "right": Right}
    names = [*plain, "gamma", "galerkin", "composition"]
    kind, *rest = (part.strip().lower() for part in text.split(":"))
    if kind not in names:
        raise ValueError(f"there is no rule {kind!r}{_hint(kind, names)}. Write one of: {_RULE_HELP}")
    if kind in plain:
        if rest:
            raise ValueError(f"--rule {text}: {kind} takes nothing after the colon")
        return plain[kind]()
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


# -- what a person sees --------------------------------------------------------------------------------------------------


def _console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False)


def _fail(message: str, code: int) -> NoReturn:
    _console(stderr=True).print(f"[bold red]error:[/bold red] {_escape(message)}", soft_wrap=True)
    raise typer.Exit(code)


def _note(message: str) -> None:
    _console(stderr=True).print(f"[yellow]note:[/yellow] {_escape(message)}", soft_wrap=True)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


# -- files ---------------------------------------------------------------------------------------------------------------


def _folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {path}: the folder cannot be made ({error.strerror})") from error
    if not os.access(path, os.W_OK):
        raise ValueError(f"--out {path}: the folder cannot be written to")


def _write(out: Path, solution: Any, model: Any, summary: dict[str, Any], quiet: bool) -> None:
    """run.npz, summary.json, run.png and, for models with a shape, motion.png up to the sixth impact."""
    import numpy as np

    from carom.report import plot_motion, plot_solution

    hits = solution.impacts
    columns = ("t", "step", "q", "p_before", "p_after", "contact", "impulse", "impulses", "scale", "fallback")
    table = {f"impact_{name}": getattr(hits, name) for name in columns}
    grid = {name: getattr(solution, name) for name in ("t", "q", "p", "v", "energy")}
    try:
        np.savez(out / "run.npz", **grid, **table, contact_names=np.array(hits.names, dtype=str))
        (out / "summary.json").write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
        plot_solution(solution, out / "run.png")
        written = ["run.npz", "summary.json", "run.png"]
        if model.shape is not None and solution.num_steps > 1 and np.all(np.isfinite(solution.q)):
            until = float(hits.t[5]) if len(hits) > 5 else None
            plot_motion(solution, model.shape, out / "motion.png", frames=30, until=until)
            written.append("motion.png")
    except OSError as error:
        _fail(f"writing to {out} failed: {error}", FAILED)
    if not quiet:
        typer.echo(f"written to {out}: {', '.join(written)}")


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lists(params: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {key: np.asarray(value).tolist() for key, value in params.items()}


def _use_cache() -> None:
    """Keep compiled programs between runs. Without a folder to write to, everything works as before, only slower to start."""
    import jax

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    folder = _cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return
    except (OSError, RuntimeError):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", CACHE_FROM)


def _cache_folder() -> Path:
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "carom"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "carom"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "carom"
    return Path.home() / ".cache" / "carom"


if __name__ == "__main__":
    main()

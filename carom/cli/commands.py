"""The command line: `carom list`, `carom run MODEL`, `carom report RUN`, `carom study convergence`, `carom demo`."""

import inspect
import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from carom.cli.bench import bench
from carom.cli.info import info
from carom.cli.measuring import impacts, tosses
from carom.cli.mistyped import ModelCommand
from carom.cli.parsing import RULE_HELP, asked_for, build_method, build_model, factory_of, known_model, parse_grid, settable
from carom.cli.reproducing import DISCOVER_EPILOG, EPILOG, discover, reproduce
from carom.cli.scenes import run_scene
from carom.cli.terminal import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    Stoppable,
    after_the_run,
    console,
    end_of_run,
    fail,
    folder,
    hear_every_interrupt,
    lists,
    note,
    plain,
    speak_plainly,
    to_the_end,
)
from carom.cli.watching import gallery, play, run_watched, view, watched_sweep
from carom.cli.writing import check_out, write

MOST_STEPS = 2_000_000  # where --impacts is given without --steps

app = typer.Typer(
    name="carom",
    cls=Stoppable,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Mechanical systems with collisions, simulated so that what mechanics conserves stays conserved.",
    epilog="Start with `carom list`, then `carom run star`. `carom demo` shows what the library is for.",
)


app.command()(bench)
app.command()(info)
app.command()(view)
app.command(cls=ModelCommand)(play)
app.command()(gallery)


def main() -> None:
    """The entry point. A reader that has seen enough (`carom list | head -3`) is no error, a full disk is one."""
    speak_plainly()
    hear_every_interrupt()
    with to_the_end():
        app(standalone_mode=True)


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
    """List the models and scenes that `carom run` and `carom play` take, or the parameters of one of them."""
    from carom.models import ALL, SCENES
    from carom.report.tables import catalogue, portrait

    try:
        built = {name: factory_of(name)() for name in ([*ALL, *SCENES] if model is None else [model])}
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    if as_json:
        typer.echo(
            json.dumps({n: {"about": m.about, "source": m.source, "parameters": lists(settable(n))} for n, m in built.items()})
        )
    elif model is None:
        console().print(catalogue(built))
    else:
        console().print(*portrait(built[model], inspect.getdoc(factory_of(model)) or "", settable(model)), sep="\n")


def _complete_model(incomplete: str) -> list[str]:
    from carom.models import ALL, SCENES

    return [name for name in (*ALL, *SCENES) if name.startswith(incomplete)]


@app.command(
    cls=ModelCommand,
    epilog="""
Examples:

`carom run star` · the star of the paper, with the order-4 rule

`carom run star --rule trapezoidal --impacts 1500 --out out` · the paper's rule; data, report and pictures into `out/`

`carom run star --out star.html` · only the report; `.zarr`, `.nc`, `.png`, `.gif`, `.mp4` work alike

`carom run cradle --simultaneous impulse` · three touching balls, one impulse on all contacts

`carom run particle --set gravity=1.62 --dt 0.005 --json` · on the moon, one JSON object on stdout

`carom run dominoes --out dominoes.gif` · a world of bodies, as a film

Exit codes: 0 done, 1 the run failed on its way (what was computed is still shown and written), 2 bad input, 130 stopped by Ctrl-C
(also shown and written).
""",
)
def run(
    model: Annotated[str, typer.Argument(help="A name from `carom list`.", show_default=False, autocompletion=_complete_model)],
    dt: Annotated[float | None, typer.Option(help="Length of a step; by default what suits the model.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps; by default what suits the model.", show_default=False)] = None,
    impacts: Annotated[int | None, typer.Option(min=1, help="Stop once so many impacts have happened.", show_default=False)] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            "--method",
            help=f"The discrete Lagrangian, or a timestepping method: {RULE_HELP}. By default what suits the model.",
            show_default=False,
        ),
    ] = None,
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
    live: Annotated[bool, typer.Option("--live", help="Watch it in the browser while it is computed, until Ctrl-C.")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bar (it appears on terminals only).")] = False,
) -> None:
    """Simulate a model and say what became of its energy."""
    from carom.errors import CaromError
    from carom.models import SCENES

    if model in SCENES:
        options = {"dt": dt, "num_steps": steps, "checkpoint": checkpoint, "progress": False if no_progress else None}
        only = {"--rule": rule is not None, "--impacts": impacts is not None, "--simultaneous": simultaneous != "reflections"}
        return run_scene(model, setting or [], options, out, as_json, live, only)
    try:
        problem, changes = build_model(model, setting or [])
        if rule is None and problem.method is not None:
            method, rule = problem.method, type(problem.method).__name__
        else:
            rule = rule or "composition:4"
            method = build_method(rule, simultaneous)
        if out is not None:
            check_out(out, problem.shape is not None)
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    try:
        num_steps = steps if steps is not None else MOST_STEPS if impacts is not None else problem.num_steps
        page, step = None, problem.dt if dt is None else dt
        if live:
            if impacts is not None or checkpoint is not None:
                fail("--live goes with --steps, not with --impacts or --checkpoint", BAD_INPUT)
            solution, page = run_watched(problem, method, num_steps, {"dt": step, "params": changes})
        else:
            solution = problem.solve(
                method,
                dt=step,
                num_steps=num_steps,
                max_impacts=impacts,
                params=changes,
                checkpoint=checkpoint,
                progress=False if no_progress else None,
                throw=False,
            )
    except CaromError as error:
        fail(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        fail("stopped; nothing is written", INTERRUPTED)
    with after_the_run(out, page):
        about = {"model": model, "rule": rule, "simultaneous": simultaneous, "params": lists(solution.params)}
        summary = plain({**solution.summary(), **about})
        if as_json:
            typer.echo(json.dumps(summary, allow_nan=False))
        else:
            from carom.report.tables import outcome

            console().print(outcome(solution, rule))
        if out is not None:
            write(out, solution, summary, quiet=as_json)
    if page is not None:
        page.wait()
    end_of_run(solution.status)
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
    from carom.results.store import load

    try:
        path = load(run).report(run.with_suffix(".html") if out is None else out, title)
    except InputError as error:
        fail(str(error), BAD_INPUT)
    except OSError as error:
        fail(f"writing the report failed: {error}", FAILED)
    typer.echo(str(path))


@app.command(
    cls=ModelCommand,
    epilog="""
Examples:

`carom sweep pendulum --vary wall=0:0.9:10 --vary restitution=0.5,0.8,1 --out study.zarr` · every combination

`carom sweep star --vary v0.theta=0:10:100 --steps 2000 --out spin.zarr` · initial states, too

`carom sweep star --vary gravity=1:20:1000 --scheduler tcp://host:8786 --out big.zarr` · on a dask cluster

The store opens with `xarray.open_zarr`. The same command goes on with a sweep that was stopped.
""",
)
def sweep(
    model: Annotated[str, typer.Argument(help="A name from `carom list`.", show_default=False, autocompletion=_complete_model)],
    out: Annotated[Path | None, typer.Option(help="The *.zarr store; asked for.", show_default=False)] = None,
    vary: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUES", help="a,b,c or first:last:count; repeatable.", show_default=False)
    ] = None,
    dt: Annotated[float | None, typer.Option(help="Length of a step.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps.", show_default=False)] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            "--method",
            help=f"The discrete Lagrangian, or a timestepping method: {RULE_HELP}. By default what suits the model.",
        ),
    ] = None,
    simultaneous: Annotated[str, typer.Option(help="Contacts that close at once: reflections or impulse.")] = "reflections",
    workers: Annotated[int | None, typer.Option(help="Processes; by default one per core.", show_default=False)] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a dask scheduler.", show_default=False)] = None,
    live: Annotated[bool, typer.Option("--live", help="Watch the map fill up in the browser, until Ctrl-C.")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bar (it appears on terminals only).")] = False,
) -> None:
    """Run a model at every combination of values; what came out goes into one labelled store."""
    from carom.errors import CaromError, SweepError
    from carom.many.sweep import check_grid
    from carom.many.sweep import sweep as run_sweep

    options = {name: value for name, value in {"dt": dt, "num_steps": steps}.items() if value is not None}
    try:
        grid = parse_grid(vary or ())
        check_grid(known_model(model), grid)
        out = asked_for(out, f"{model}.zarr")
        folder(out.parent)
        page = watched_sweep(known_model(model)) if live else None
        dataset = run_sweep(
            known_model(model),
            grid,
            out=out,
            method=None if rule is None and simultaneous == "reflections" else build_method(rule or "composition:4", simultaneous),
            workers=workers,
            scheduler=scheduler,
            progress=False if no_progress else None,
            watch=page,
            **options,
        )
    except SweepError as error:
        fail(str(error), FAILED)
    except (CaromError, ValueError) as error:
        fail(str(error), BAD_INPUT)
    except OSError as error:
        fail(f"writing to {out} failed: {error}", FAILED)
    except KeyboardInterrupt:
        done = (
            f"what is done is in {out}, and the same command goes on" if out is not None and out.exists() else "nothing is done yet"
        )
        fail(f"stopped; {done}", INTERRUPTED)
    counts = Counter(dataset["status"].values.ravel().tolist())
    told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.most_common())
    size = dataset["status"].size
    typer.echo(f"{size:,} point{'' if size == 1 else 's'} in {out}: {told}")
    if page is not None:
        page.wait()
    if not set(counts) & {"ok", "impacts_reached"}:
        fail(f"no point was run to its end; the first says: {dataset['message'].values.ravel()[0]}", FAILED)


study_app = typer.Typer(no_args_is_help=True, help="Measure what the methods promise.")
app.add_typer(study_app, name="study")
study_app.command()(impacts)
study_app.command()(tosses)


@study_app.command(epilog="`carom study convergence --degrees 3 --out out` · up to degree 3; picture and numbers into `out/`")
def convergence(
    degrees: Annotated[int, typer.Option(min=1, max=8, help="Up to this degree.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for convergence.png and convergence.json.")] = Path("out"),
    as_json: Annotated[bool, typer.Option("--json", help="Exactly one JSON object on stdout.")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bar (it appears on terminals only).")] = False,
) -> None:
    """The orders of Moreau–Jean and the time-discontinuous Galerkin methods, in L1 norms with dense output.

    Free flight, rest and accumulating impacts of [schindler2014, §4], a mass on a spring and a growing load.
    """
    from carom.papers import studies
    from carom.papers.convergence import order_table, plot_convergence
    from carom.running.progress import Bar

    try:
        folder(out)
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    total = len(studies.methods(range(1, degrees + 1))) * len(studies.problems())
    measured = []
    with Bar(False if no_progress else None) as bar:
        for one in studies.convergence(range(1, degrees + 1)):
            measured.append(one)
            bar.update(len(measured) / total, "measuring", len(measured))
    numbers = plain([studies.as_numbers(m) for m in measured])
    plot_convergence(measured, out / "convergence.png")
    (out / "convergence.json").write_text(json.dumps(numbers, indent=1, allow_nan=False) + "\n", "utf-8")
    if as_json:
        typer.echo(json.dumps(numbers, allow_nan=False))
    else:
        console().print(order_table(measured))
        typer.echo(f"written to {out}: convergence.png, convergence.json")


@app.command(cls=ModelCommand)
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


app.command(epilog=EPILOG)(reproduce)
app.command(epilog=DISCOVER_EPILOG)(discover)

"""The gallery: a page for each model and scene, with runs at a few values of its parameters to choose from, and one for all."""

import html
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from carom.bodies.run import WorldRun
from carom.drawing import film_of_run
from carom.errors import InputError
from carom.live.kept_pages import MadePage, keep, kept, key_of
from carom.live.knobs import Knob, arguments_of, knobs_of
from carom.live.turned import make
from carom.live.world_parts import world_knobs
from carom.methods.timestepping.moreau import MoreauJean
from carom.models import SCENES
from carom.models.model import Model
from carom.models.world_model import WorldModel
from carom.report.body_film import save_film, still
from carom.report.choices import write_choices
from carom.report.html import report
from carom.report.plots import plot_card
from carom.report.worlds import report as report_world

STEPS, LONG = 400, 2800  #     of each run of a model, and of one in which little happens in so few
DULL = 4  #                   impacts: with fewer than that, little happens
FRAMES, STATES = 300, 150  #  of the film of a model; states that are kept of each run of a world
FIRST = ("restitution", "friction", "gravity", "angle", "size", "radius", "length", "mass")  # what one likes to change most
# What one likes to change most of these; none of it makes another System, which would be compiled anew for every value. Of scenes,
# what decides how they go: a house of cards does not bounce, but it slides apart. Dominoes that bounce take minutes.
CHOSEN = {
    "bars": ("densities 2",),
    "beam": ("modulus",),
    "beam_pair": ("modulus",),
    "rigid_body": ("spin 3", "gravity"),
    "dominoes": ("push",),
    "card_house": ("friction",),
    "arch": ("friction",),
    "newtons_cradle": ("lifted",),
    "rattleback": ("spin",),
    "tippe_top": ("spin",),
    "euler_disk": ("tilt",),
    "grain_column": ("friction",),
    "chain_over_peg": ("friction",),
}
LARGEST = 6_000_000  #        bytes of a page: a larger one gets one choice less
AXES, WORLD_AXES = 2, 1  #    numbers to choose, of a model and of a world: three values of each
FILM, WORLD_WORK = 300, 4.0  # pixels of a film on a card; how much longer a page of a world takes than one of a model


def _knobs(name: str, factory: Callable[..., Any]) -> dict[str, Knob]:
    return world_knobs(factory, factory().world) if name in SCENES else knobs_of(factory, factory().params)


def axes_of(name: str, factory: Callable[..., Any]) -> dict[str, list[Any]]:
    """A number or two of a model with three values each, its own among them; those that it refuses are left out."""
    world, knobs = name in SCENES, _knobs(name, factory)
    order = CHOSEN.get(name) or sorted(knobs, key=lambda key: (FIRST.index(key) if key in FIRST else len(FIRST), key))
    found: dict[str, list[Any]] = {}
    for key in order:
        values = [value for value in _values(knobs[key]) if _taken(name, factory, {key: value})]
        if len(values) > 1 and len(found) < (WORLD_AXES if world else AXES):
            found[key] = values
    pairs = [dict(zip(found, values, strict=True)) for values in product(*found.values())]
    return found if all(_taken(name, factory, pair) for pair in pairs) else dict([next(iter(found.items()))])


def _taken(name: str, factory: Callable[..., Any], values: dict[str, Any]) -> bool:
    try:
        built(name, factory, values)
    except InputError:
        return False
    return True


def built(name: str, factory: Callable[..., Any], values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A model with these values, and the parameters that remain to be changed when it is solved."""
    if name in SCENES:
        return make(factory, values), {}
    arguments, params = arguments_of(factory, values)
    return factory(**arguments), params


def _values(knob: Knob) -> list[Any]:
    if knob.name == "restitution":
        return sorted({0.5, 0.8, knob.value} if knob.value else {0.0, 0.4, 0.8})
    low, high = (0.5 * knob.value, 1.5 * knob.value) if knob.value else (0.25 * knob.high, 0.5 * knob.high)
    found = [low, knob.value, high] if knob.value else [knob.value, low, high]
    return sorted({int(np.clip(round(v), knob.low, knob.high)) for v in found}) if knob.whole else sorted(found)


def run_of(name: str, factory: Callable[..., Any], values: dict[str, Any]) -> tuple[Any, Any]:
    """A model and its run, with a method for contact that lasts where that is what happens; a run that failed is shown as far as it
    went."""
    model, params = built(name, factory, values)
    if isinstance(model, WorldModel):
        return model, model.solve(save_every=max(1, model.num_steps // STATES), progress=False)
    steps, options = min(model.num_steps, STEPS), {"params": params, "throw": False, "progress": False}
    run = model.solve(num_steps=steps, **options)
    if run.status.ok and len(run.impacts) < DULL and steps < model.num_steps:
        steps = min(model.num_steps, LONG)
        run = model.solve(num_steps=steps, **options)
    return model, run if run.status.ok else model.solve(MoreauJean(), num_steps=steps, **options)


def write_page(
    name: str,
    factory: Callable[..., Any],
    path: Path,
    home: str | None = None,
    watch: Callable[[float], None] = lambda share: None,
) -> tuple[Any, Any, int]:
    """The page of a model or a scene; what it shows at first, the run of it, and how many runs there are. Values at which it cannot
    start are left out: that is found out by running it. `watch` is told how much of the work is done."""
    clock, axes, made, refused = time.perf_counter(), axes_of(name, factory), {}, set()
    grid = list(product(*axes.values()))
    for number, values in enumerate(grid):
        watch(number / (len(grid) + 1))  # the last part is writing
        try:
            made[values] = run_of(name, factory, dict(zip(axes, values, strict=True)))
        except InputError:
            refused.add(values)
    watch(len(grid) / (len(grid) + 1))
    axes = without(axes, refused)
    knobs = _knobs(name, factory)
    first = {key: knobs[key].value if knobs[key].value in axis else axis[len(axis) // 2] for key, axis in axes.items()}
    own = tuple(first.values())
    took = (time.perf_counter() - clock) / max(len(made), 1)
    reports = {values: _page(made[values][1]) for values in product(*axes.values())}
    about = made[own][0].about
    while _written(path, name, about, axes, reports, home, took, first) > LARGEST:
        choices = [key for key, axis in axes.items() if len(axis) > 1]
        if len(choices) < 2:
            break
        axes[choices[-1]] = [first[choices[-1]]]  # one choice less
    return *made[own], len(list(product(*axes.values())))


def _written(
    path: Path,
    name: str,
    about: str,
    axes: dict[str, list[Any]],
    reports: dict[Any, str],
    home: str | None,
    each: float,
    first: dict[str, Any],
) -> int:
    """Write the page with the runs at these values, `each` of which took so many seconds; how large it has become."""
    choices = {key: axis for key, axis in axes.items() if len(axis) > 1}  # one value is no choice
    numbers = product(*(range(len(axis)) for axis in choices.values()))
    pages = {n: reports[values] for n, values in zip(numbers, product(*axes.values()), strict=True)}
    took, count = each * len(pages), f"{len(pages)} run{'' if len(pages) == 1 else 's'}"
    note = f"{count}, computed in {took:.2g} s. " if took < 100 else f"{count}, computed in {took / 60:.1f} min. "
    note += f"With carom play {name} it is computed as you watch, at any value."
    shown = {key: first[key] for key in choices}
    return write_choices(path, name, about, choices, pages, home, note, shown).stat().st_size


def without(axes: dict[str, list[Any]], refused: set[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """The axes without the values that most of the refused combinations have in common, until none of those is left."""
    axes, left = {key: list(axis) for key, axis in axes.items()}, set(refused)
    while left:
        counted = Counter((k, values[k]) for values in left for k in range(len(axes)) if len(list(axes.values())[k]) > 1)
        if not counted:
            raise InputError(f"none of the values {axes} can be run")
        (k, value), _ = counted.most_common(1)[0]
        list(axes.values())[k].remove(value)
        left = {values for values in left if values[k] != value}
    return axes


def _page(run: Any) -> str:
    if isinstance(run, WorldRun):
        return report_world(run, coarse=True)
    return report(run, reel=film_of_run(run.shape, run.t, run.q, run.params, run.impacts.t, run.impacts.q, FRAMES), coarse=True)


def write_picture(model: Model | WorldModel, run: Any, path: Path) -> Path:
    """What a card shows: the motion of a model in one picture, a scene as a film."""
    if isinstance(model, WorldModel):
        return save_film(model.film(run), path.with_suffix(".gif"), seconds=4.0, fps=12, width=FILM, view=model.view)
    plot_card(run, path.with_suffix(".png"), until=float(run.impacts.t[5]) if len(run.impacts) > 5 else None)
    return path.with_suffix(".png")


def write_gallery(
    folder: Path, models: dict[str, Callable[..., Any]], watch: Callable[[float, str], None] = lambda share, name: None
) -> Iterator[tuple[MadePage, bool]]:
    """All pages into a folder, one after the other, and at last index.html, which opens from the folder. Each page comes with
    whether it was made now: those that are there already, of the same carom, stay. `watch` is told how much of the work is done."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: WORLD_WORK if name in SCENES else 1.0 for name in models}
    before, every, pages = 0.0, sum(weights.values()), []
    for name, factory in models.items():
        key = key_of(name, factory)
        found = kept(folder, name, key)
        inside = lambda share, name=name, before=before: watch((before + weights[name] * share) / every, name)  # noqa: E731
        pages.append(_made(folder, name, factory, key, inside) if found is None else found)
        before += weights[name]
        watch(before / every, name)
        yield pages[-1], found is None
    index = (resources.files("carom.live") / "client" / "gallery.html").read_text("utf-8")
    heads = {"Worlds of bodies": [p for p in pages if p.name in SCENES], "Systems": [p for p in pages if p.name not in SCENES]}
    sections = [f"<h2>{head}</h2>\n<ul>\n" + "\n".join(map(_card, some)) + "\n</ul>" for head, some in heads.items() if some]
    (folder / "index.html").write_text(index.replace("{{SECTIONS}}", "\n".join(sections)), encoding="utf-8")


def _made(folder: Path, name: str, factory: Callable[..., Any], key: str, watch: Callable[[float], None]) -> MadePage:
    """Make a page and the picture of its card, and note them down."""
    clock = time.perf_counter()
    model, run, count = write_page(name, factory, folder / f"{name}.html", "index.html", watch)
    picture = write_picture(model, run, folder / name)
    files = [f"{name}.html", picture.name]
    if picture.suffix == ".gif":  # for those who do not like things to move by themselves
        still(model.film(run), float(run.t[-1]) / 2, width=FILM, view=model.view).save(folder / f"{name}.png")
        files.append(f"{name}.png")
    hits = f"{len(run.impacts):,} impact{'' if len(run.impacts) == 1 else 's'} in {run.num_steps:,} steps"
    told = hits if isinstance(run, WorldRun) else f"{hits}, {type(run.method).__name__}"
    page = MadePage(name, model.about, picture.name, told, count, time.perf_counter() - clock, files, key)
    keep(folder, page)
    return page


def _card(page: MadePage) -> str:
    name, at, still_one = html.escape(page.name), html.escape(quote(page.name)), ""
    if page.picture.endswith(".gif"):
        still_one = f'<source media="(prefers-reduced-motion: reduce)" srcset="{at}.png">'
    seen = html.escape(quote(page.picture))
    image = f'<picture>{still_one}<img src="{seen}" alt="" loading="lazy" width="320" height="200"></picture>'
    return f'<li><a href="{at}.html">{image}<b>{name}</b></a> {html.escape(page.about)}</li>'

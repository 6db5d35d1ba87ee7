"""The gallery: a page for each model and scene, with runs at a few values of its parameters to choose from, and one for all."""

import html
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies.run import WorldRun
from carom.errors import InputError
from carom.live.knobs import Knob, knobs_of
from carom.live.world_ground import make
from carom.live.world_parts import world_knobs
from carom.methods.timestepping.moreau import MoreauJean
from carom.models import SCENES
from carom.models.model import Model
from carom.models.world_model import WorldModel
from carom.report.body_film import save_film, still
from carom.report.choices import write_choices
from carom.report.html import report
from carom.report.plots import plot_motion
from carom.report.worlds import report as report_world

STEPS, FRAMES = 400, 150  # of each run of a model; states that are kept of each run of a world
DULL, LONGER = 4, 3  #        a run with fewer impacts is made so many times longer, if the model is
FIRST = ("restitution", "friction", "gravity", "angle", "size", "radius", "length", "mass")  # what one likes to change most
LARGEST = 6_000_000  #        bytes of a page: a larger one gets one choice less
AXES, WORLD_AXES, VALUES = 2, 1, 3  # numbers to choose, of a model and of a world; values of each


def axes_of(name: str, factory: Callable[..., Any]) -> dict[str, list[Any]]:
    """A number or two of a model with three values each, its own in the middle; those that it refuses are left out."""
    world = name in SCENES
    knobs = world_knobs(factory, factory().world) if world else knobs_of(factory, factory().params)
    order = sorted(knobs, key=lambda key: (FIRST.index(key) if key in FIRST else len(FIRST), key))
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
    knobs = knobs_of(factory, factory().params)
    model = factory(**{key: value for key, value in values.items() if knobs[key].argument})
    return model, {key: value for key, value in values.items() if not knobs[key].argument}


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
        return model, model.solve(save_every=max(1, model.num_steps // FRAMES), progress=False)
    steps, options = min(model.num_steps, STEPS), {"params": params, "throw": False, "progress": False}
    run = model.solve(num_steps=steps, **options)
    if run.status.ok and 0 < len(run.impacts) < DULL:
        steps = min(model.num_steps, LONGER * STEPS)
        run = model.solve(num_steps=steps, **options)
    return model, run if run.status.ok else model.solve(MoreauJean(), num_steps=steps, **options)


def write_page(name: str, factory: Callable[..., Any], path: Path, home: str | None = None) -> tuple[Any, Any]:
    """The page of a model or a scene; what stands in the middle of its grid, and its run. Values at which it cannot start are left
    out: that is found out by running it."""
    axes, made, refused = axes_of(name, factory), {}, set()
    for values in product(*axes.values()):
        try:
            made[values] = run_of(name, factory, dict(zip(axes, values, strict=True)))
        except InputError:
            refused.add(values)
    axes = without(axes, refused)
    own = tuple(axis[len(axis) // 2] for axis in axes.values())
    while _written(path, name, factory().about, axes, made, home) > LARGEST and sum(len(axis) > 1 for axis in axes.values()) > 1:
        last = [key for key, axis in axes.items() if len(axis) > 1][-1]
        axes[last] = [own[list(axes).index(last)]]  # one choice less
    return made[own]


def _written(path: Path, name: str, about: str, axes: dict[str, list[Any]], made: dict[Any, Any], home: str | None) -> int:
    """Write the page with the runs at these values; how large it has become."""
    kept = list(product(*axes.values()))
    choices = {key: axis for key, axis in axes.items() if len(axis) > 1}  # one value is no choice
    numbers = product(*(range(len(axis)) for axis in choices.values()))
    pages = {n: _page(made[values][1]) for n, values in zip(numbers, kept, strict=True)}
    return write_choices(path, name, about, choices, pages, home).stat().st_size


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
    return report_world(run) if isinstance(run, WorldRun) else report(run)


def write_picture(model: Model | WorldModel, run: Any, path: Path) -> Path:
    """What a card shows: the motion of a model in one picture, a scene as a film."""
    if isinstance(model, WorldModel):
        return save_film(model.film(run), path.with_suffix(".gif"), seconds=4.0, fps=12, width=300, view=model.view)
    plot_motion(run, path=path.with_suffix(".png"), frames=40, until=float(run.impacts.t[5]) if len(run.impacts) > 5 else None)
    return path.with_suffix(".png")


def write_gallery(folder: Path, models: dict[str, Callable[..., Any]]) -> Iterator[str]:
    """All pages into a folder, one after the other, and at last index.html, which opens from the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cards = {False: [], True: []}  # models, scenes
    for name, factory in models.items():
        model, run = write_page(name, factory, folder / f"{name}.html", "index.html")
        picture = write_picture(model, run, folder / name)
        about, still_one = html.escape(model.about), ""
        if picture.suffix == ".gif":  # for those who do not like things to move by themselves
            still(model.film(run), float(run.t[-1]) / 2, width=300, view=model.view).save(folder / f"{name}.png")
            still_one = f'<source media="(prefers-reduced-motion: reduce)" srcset="{name}.png">'
        image = f'<picture>{still_one}<img src="{picture.name}" alt="" loading="lazy" width="320" height="200"></picture>'
        cards[name in SCENES].append(f'<li><a href="{name}.html">{image}<b>{name}</b></a> {about}</li>')
        yield name
    index = (resources.files("carom.live") / "client" / "gallery.html").read_text("utf-8")
    heads = {"Systems": cards[False], "Worlds of bodies": cards[True]}
    sections = [f"<h2>{head}</h2>\n<ul>\n" + "\n".join(rows) + "\n</ul>" for head, rows in heads.items() if rows]
    index = index.replace("{{SECTIONS}}", "\n".join(sections))
    (folder / "index.html").write_text(index, encoding="utf-8")

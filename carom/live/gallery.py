"""The gallery: a page for each model, with runs at a few values of its parameters to choose from, and one that shows them all."""

import html
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from carom.live.knobs import Knob, knobs_of
from carom.methods.timestepping.moreau import MoreauJean
from carom.models.model import Model
from carom.report.choices import write_choices
from carom.report.plots import plot_motion

STEPS = 400  #     of each run
FIRST = ("restitution", "friction", "gravity", "angle", "size", "radius", "length", "mass")  # what one likes to change most
AXES, VALUES = 2, 3


def axes_of(factory: Callable[..., Model]) -> dict[str, list[Any]]:
    """At most two numbers of a model with three values each: its own in the middle."""
    knobs = knobs_of(factory, factory().params)
    order = sorted(knobs, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return {name: _values(knobs[name]) for name in order[:AXES]}


def _values(knob: Knob) -> list[Any]:
    if knob.name == "restitution":
        return [0.5, 0.8, 1.0]
    low, high = (0.5 * knob.value, 1.5 * knob.value) if knob.value else (0.25 * knob.high, 0.5 * knob.high)
    found = [low, knob.value, high] if knob.value else [knob.value, low, high]
    return sorted({int(np.clip(round(v), knob.low, knob.high)) for v in found}) if knob.whole else sorted(found)


def run_of(factory: Callable[..., Model], values: dict[str, Any]) -> Any:
    """A run, with a method for contact that lasts where that is what happens; one that failed is shown as far as it went."""
    knobs = knobs_of(factory, factory().params)
    model = factory(**{name: value for name, value in values.items() if knobs[name].argument})
    params = {name: value for name, value in values.items() if not knobs[name].argument}
    steps = min(model.num_steps, STEPS)
    run = model.solve(num_steps=steps, params=params, throw=False, progress=False)
    return run if run.status.ok else model.solve(MoreauJean(), num_steps=steps, params=params, throw=False, progress=False)


def write_page(name: str, factory: Callable[..., Model], path: Path, home: str | None = None) -> Any:
    """The page of a model; its run in the middle of the grid."""
    axes = axes_of(factory)
    numbers = list(product(*(range(len(values)) for values in axes.values())))
    runs = {n: run_of(factory, {key: axes[key][i] for key, i in zip(axes, n, strict=True)}) for n in numbers}
    write_choices(path, name, factory().about, axes, runs, home)
    return runs[tuple(len(values) // 2 for values in axes.values())]


def write_gallery(folder: Path, models: dict[str, Callable[..., Model]]) -> Iterator[str]:
    """All pages into a folder, one after the other, and at last index.html, which opens from the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cards = []
    for name, factory in models.items():
        run = write_page(name, factory, folder / f"{name}.html", "index.html")
        until = float(run.impacts.t[5]) if len(run.impacts) > 5 else None
        plot_motion(run, path=folder / f"{name}.png", frames=40, until=until)
        about = html.escape(factory().about)
        cards.append(f'<li><a href="{name}.html"><img src="{name}.png" alt="" loading="lazy"><b>{name}</b></a> {about}</li>')
        yield name
    index = (resources.files("carom.live") / "client" / "gallery.html").read_text("utf-8")
    (folder / "index.html").write_text(index.replace("{{CARDS}}", "\n".join(cards)), encoding="utf-8")

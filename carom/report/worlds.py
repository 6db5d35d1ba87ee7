"""The report of a world: the page of `carom.report.html` with bodies, forces and shadows, energy, certificates and impacts."""

from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies.contact_table import meetings
from carom.bodies.run import WorldRun
from carom.report.html import Contents, curve, fill_page, film_data, impact_data, liveliest, pack, span_of
from carom.results.places import page_path, titled
from carom.results.store import versions

SMALLEST = 1e-17  # a certificate below this is drawn here: it has a logarithm
MOST_IMPACTS = 20_000  # in the table; the strongest are kept


def write_report(run: WorldRun, path: str | Path, title: str | None = None) -> Path:
    """Write the report of a run of a world to `path`."""
    path, title = page_path(path, "run.html"), titled(title, run.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report(run, title), encoding="utf-8")
    return path


def report(run: WorldRun, title: str | None = None, coarse: bool = False) -> str:
    """The report as text. `coarse`: see `carom.report.html.film_data`."""
    return fill_page(contents(run, title, coarse))


def contents(run: WorldRun, title: str | None = None, coarse: bool = False) -> Contents:
    """What the report shows."""
    impacts, left_out = _impacts(run)
    impacts["met"] = pack(run.contacts.t[meetings(run.contacts, run.steps)] - run.dt, "f8")
    data = {**span_of(run.t), "impacts": impacts, "panels": _panels(run), "time": "time"}
    data["film"] = None if run.film is None else film_data(run.film, coarse)
    note = "Forces are contact forces, as arrows: impulses of a step divided by its length. "
    note += f"The table shows the {MOST_IMPACTS:,} strongest impacts; {left_out:,} more happened. " if left_out else ""
    words = {
        "title": title or run.name,
        "summary": _headline(run),
        "message": "" if run.status.name == "done" else run.status.message,
        "note": note,
    }
    tables = {"parameters": _bodies(run), "method": _method(run), "measured": _measured(run), "versions": versions()}
    return Contents(words, tables, data)


def _impacts(run: WorldRun) -> tuple[dict[str, Any], int]:
    """The impacts with a number for each pair of bodies, and how many were left out. They fall on the start of their step."""
    hits = run.impacts
    strength = np.linalg.norm(hits.impulse, axis=1)
    kept = np.sort(np.argsort(-strength, kind="stable")[:MOST_IMPACTS])
    left_out = len(hits) - len(kept)
    hits, strength = hits.take(kept), strength[kept]
    pairs, number = np.unique(hits.a * len(run.names) + hits.b, return_inverse=True)
    names = [f"{run.names[p // len(run.names)]} – {run.names[p % len(run.names)]}" for p in pairs]
    return impact_data(hits.t - run.dt, hits.step, number, strength, names), left_out


def _panels(run: WorldRun) -> list[dict[str, Any]]:
    every = run.dt * np.arange(1, run.num_steps + 1)
    panels = [
        {
            "title": "energy",
            "series": [curve(run.t, getattr(run, name), name) for name in ("energy", "kinetic", "potential")],
        }
    ]
    free = np.flatnonzero(run.free)
    height = run.x[:, free, run.dim - 1]
    speed = np.linalg.norm(run.v[:, free], axis=2)
    for title, values in (("height" if run.dim == 3 else "y", height), ("speed", speed)):
        panels.append({"title": title, "series": [curve(run.t, values[:, i], run.names[free[i]]) for i in liveliest(values)]})
    steps, count = np.unique(run.contacts.step[~run.contacts.impact.astype(bool)], return_counts=True)
    number = np.zeros(len(run.steps))
    number[np.flatnonzero(np.isin(run.steps, steps))] = count[np.isin(steps, run.steps)]
    known = run.steps > 0 if len(run.steps) > 1 else run.steps >= 0  # contacts belong to steps: the start has none to tell of
    panels.append({"title": "contacts", "series": [curve(run.t[known], number[known], "contacts")]})
    certificate = np.log10(np.maximum(run.residual, SMALLEST))
    panels.append({"title": "log₁₀ E", "series": [curve(every, certificate, "certificate")]})
    panels.append({"title": "depth", "series": [curve(every, -np.minimum(run.deepest, 0.0), "depth")]})
    return panels


def _headline(run: WorldRun) -> str:
    bodies, hits = int(np.sum(run.free)), len(run.impacts)
    parts = [
        f"{bodies:,} {'body' if bodies == 1 else 'bodies'}",
        f"{run.num_steps:,} steps of {run.dt:g} to t = {run.t[-1]:g}",
        f"{len(run.contacts):,} contacts, {hits:,} in impacts",
        f"largest certificate {np.max(run.residual, initial=0.0):.1e}",
        run.status.name.replace("_", " "),
    ]
    return " · ".join(parts)


def _bodies(run: WorldRun) -> dict[str, str]:
    free = np.flatnonzero(run.free)
    rows = {run.names[i]: f"mass {run.mass[i]:.6g}" for i in free[:12]}
    if len(free) > 12:
        rows["and"] = f"{len(free) - 12} more free bodies, {np.sum(run.mass[free]):.6g} in all"
    still = [name for i, name in enumerate(run.names) if not run.free[i]]
    return rows | ({"not free": ", ".join(still[:12]) + (" …" if len(still) > 12 else "")} if still else {})


def _method(run: WorldRun) -> dict[str, str]:
    stages, count = np.unique(run.stages, return_counts=True)
    return {
        "method": "Moreau–Jean, on rotations, exact Coulomb friction",
        "dt": f"{run.dt:g}",
        "tolerance of certificates": f"{run.settings.tolerance:g}",
        "kept": "every step" if run.settings.save_every == 1 else f"every {run.settings.save_every}-th step",
        "stages of the solver": ", ".join(f"{name} {n:,}" for name, n in zip(stages, count, strict=True)),
    }


def _measured(run: WorldRun) -> dict[str, str]:
    energy = run.energy
    scale = max(float(np.max(run.kinetic)), 1e-300)
    gain = float(np.max(np.diff(energy), initial=0.0))
    rows = {
        "energy": f"{energy[0]:.9g} at the start, {energy[-1]:.9g} at the end",
        "largest gain between kept times": f"{gain:.2e} ({gain / scale:.1e} of the largest kinetic energy)",
        "largest certificate E": f"{np.max(run.residual, initial=0.0):.2e}",
        "largest depth": f"{-np.min(run.deepest, initial=0.0):.2e}",
        "momentum, largest change": f"{np.max(np.abs(run.momentum - run.momentum[0])):.2e}",
    }
    still = np.all(run.v[-1, run.free] == 0)
    rows["at the end"] = "everything rests, exactly" if still else f"largest speed {np.max(np.linalg.norm(run.v[-1], axis=1)):.4g}"
    rows["stepping"] = f"{run.seconds:.3g} s, {1e3 * run.seconds / max(run.num_steps, 1):.3g} ms per step"
    return rows

"""The report: one HTML file that needs nothing else, with the motion, what is conserved, the impacts and how the run was made.

The page is `page/page.html` with `page.css`, `page.js` and plotly's JavaScript inside. Numbers travel as base64. Whatever a person
typed is escaped here where it becomes HTML, and in page.js where it becomes a label of plotly, which reads tags too.
"""

import base64
import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import numpy as np

from carom.drawing import Arrows, Film
from carom.report.plots import envelope
from carom.report.view import view_of
from carom.results.impacts import counted
from carom.results.labels import momentum_labels
from carom.results.places import page_path, titled
from carom.results.solution import MANY_CONTACTS, Solution
from carom.results.store import method_record, versions

INTERVALS = 4000  #  of time in the curves: shorter runs are there step by step
CURVES = 8  #        in one panel
SPEEDS = [m * 10.0**e for e in range(-6, 7) for m in (1, 2, 5)]


def write_report(solution: Solution, path: str | Path, title: str | None = None) -> Path:
    """Write the report of a run to `path`."""
    path, title = page_path(path, "run.html"), titled(title, solution.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report(solution, title), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Contents:
    """What a page shows of a run: words and tables, as people typed them, and numbers."""

    words: Mapping[str, str]  #                title, summary, message, note
    tables: Mapping[str, Mapping[str, Any]]  # parameters, method, measured, versions
    data: dict[str, Any]

    def as_json(self) -> str:
        """For a page that is open already: `tell` and `player` of page.js take it."""
        tables = {name: [[str(key), str(value)] for key, value in rows.items()] for name, rows in self.tables.items()}
        return json.dumps({"words": self.words, "tables": tables, "data": self.data}, allow_nan=False)


def report(solution: Solution, title: str | None = None, reel: Film | None = None, coarse: bool = False) -> str:
    """The report as text; with another film of the run, where one is given. `coarse`: see `film_data`."""
    return fill_page(contents(solution, title, reel, coarse))


def contents(solution: Solution, title: str | None = None, reel: Film | None = None, coarse: bool = False) -> Contents:
    """What the report shows."""
    reel = solution.film if reel is None else reel
    numbers = solution.summary()
    words = {
        "title": title or solution.name,
        "summary": _headline(solution, numbers),
        "message": numbers["message"] if _alarming(solution) else "",
        "note": _note(solution),
    }
    tables = {
        "parameters": _parameters(solution.params),
        "method": _method(solution),
        "measured": measured(solution, numbers),
        "versions": versions(),
    }
    return Contents(words, tables, _data(solution, reel, coarse))


def fill_page(what: Contents) -> str:
    """The page with everything in its place; words and tables are escaped here."""
    from plotly.offline import get_plotlyjs

    page = resources.files("carom.report") / "page"
    film = what.data["film"]
    fields = {
        **{name.upper(): html.escape(text) for name, text in what.words.items()},
        **{name.upper(): _table(rows) for name, rows in what.tables.items()},
        "EVAL": " 'unsafe-eval'" if film is not None and film["dim"] == 3 else "",  # the 3-D part of plotly compiles code
        "NO_MESSAGE": "" if what.words["message"] else "hidden",
        "NO_MOTION": "hidden" if film is None else "",
        "NO_IMPACTS": "" if what.data["impacts"]["t"] else "hidden",
        "DATA": json.dumps(what.data, allow_nan=False).replace("<", "\\u003c"),  # no tag ends inside a script
        "PLOTLY": get_plotlyjs(),
        "STYLE": (page / "page.css").read_text("utf-8"),
        "SCRIPT": (page / "page.js").read_text("utf-8"),
    }
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda match: fields[match[1]], (page / "page.html").read_text("utf-8"))


# -- numbers for the page ------------------------------------------------------------------------------------------------


def _data(solution: Solution, reel: Film | None, coarse: bool) -> dict[str, Any]:
    hits = solution.impacts
    return {
        **span_of(solution.t),
        "impacts": impact_data(hits.t, hits.step, hits.contact, hits.impulse, hits.names),
        "panels": _panels(solution),
        "time": solution.time_label,
        "film": None if reel is None else film_data(reel, coarse),
    }


def span_of(t: np.ndarray) -> dict[str, Any]:
    """From when to when, and how fast to play it."""
    duration = float(t[-1] - t[0]) or 1.0
    wanted = 10 if duration < 2 else 30  # seconds of watching, for what is over in a moment and for what takes long
    natural = min(SPEEDS, key=lambda s: abs(np.log(duration / s / wanted)))
    speed = 1.0 if 2 <= duration <= 120 else natural
    return {
        "span": [float(t[0]), float(t[-1])],
        "speed": speed,
        "speeds": [s for s in SPEEDS if speed / 101 < s < speed * 101],
    }


def impact_data(t: np.ndarray, step: np.ndarray, contact: np.ndarray, impulse: np.ndarray, names: Any) -> dict[str, Any]:
    return {
        "t": pack(t, "f8"),
        "step": pack(step, "i4"),
        "contact": pack(contact, "i4"),
        "impulse": pack(np.nan_to_num(impulse), "f4"),
        "names": list(names),
    }


def pack(values: np.ndarray, kind: str) -> str:
    """Numbers as text. What a run that bursts has beyond the numbers of 4 bytes becomes ∞: the page leaves it out."""
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype="<" + kind)
    return base64.b64encode(values.tobytes()).decode()


def _panels(solution: Solution) -> list[dict[str, Any]]:
    panels = [{"title": "(E − E₀) / |E₀|", "series": [curve(solution.t, solution.energy_error, "energy")]}]
    for title, values, names in (
        ("coordinates", solution.q, solution.labels),
        ("momenta", solution.p, momentum_labels(solution)),
    ):
        shown = liveliest(values)
        panels.append({"title": title, "series": [curve(solution.t, values[:, i], names[i]) for i in shown]})
    if solution.commands is not None:
        held = np.concatenate([solution.commands, solution.commands[-1:]])
        series = [curve(solution.t, held[:, i], f"u{i}" if held.shape[1] > 1 else "u") for i in liveliest(held)]
        panels.append({"title": "command", "series": series})
    if 0 < len(solution.impacts.names) <= MANY_CONTACTS:
        shown = sorted(np.argsort(np.nanmin(solution.gaps, axis=0), kind="stable")[:CURVES])
        curves = [{**curve(solution.t, solution.gaps[:, i], solution.impacts.names[i]), "contact": int(i)} for i in shown]
        panels.append({"title": "gaps", "series": curves})
    elif solution.smallest_gap is not None:
        panels.append({"title": "smallest gap", "series": [curve(solution.t, solution.smallest_gap, "smallest gap")]})
    return panels


def liveliest(values: np.ndarray) -> list[int]:
    """The columns that change most, where there are more than can be told apart."""
    if values.shape[1] <= CURVES:
        return list(range(values.shape[1]))
    return sorted(np.argsort(-np.nan_to_num(np.ptp(values, axis=0)), kind="stable")[:CURVES].tolist())


def curve(t: np.ndarray, y: np.ndarray, name: str) -> dict[str, Any]:
    t, y = envelope(t, y, INTERVALS)
    return {"name": str(name), "t": pack(t, "f8"), "y": pack(y, "f4")}


def film_data(reel: Film, coarse: bool = False) -> dict[str, Any]:
    """Scenery that stays where it is, once; the points of everything else, frame by frame. `coarse`: in steps of 1/65535 of the
    room in which they move, which nobody sees, and only how they change: a page of many runs is a fraction of its size."""
    still = [i for i in range(len(reel.parts)) if reel.track(i).size and np.all(reel.track(i) == reel.track(i)[:1])]
    still = [i for i in still if reel.parts[i].fixed or reel.parts[i].kind == "wall"]
    alive = [i for i in range(len(reel.parts)) if i not in still] or [still.pop()]
    points = np.concatenate([reel.track(i) for i in alive], axis=1)
    parts, start = [], 0
    for i in alive:
        size = reel.starts[i + 1] - reel.starts[i]
        part, outline = reel.parts[i], reel.part(0, i)
        closed = part.kind == "line" and size > 2 and np.array_equal(outline[0], outline[-1])
        parts.append(
            {"kind": "fill" if closed else "line" if part.kind == "wall" else part.kind, "start": start, "stop": start + size}
        )
        if part.triangles is not None:
            parts[-1]["triangles"] = part.triangles.tolist()
        if part.name:
            parts[-1]["name"] = part.name
        start += size
    scenery = [
        {"kind": reel.parts[i].kind, "points": pack(reel.part(0, i), "f4")}
        | ({} if (faces := reel.parts[i].triangles) is None else {"triangles": faces.tolist()})
        for i in still
    ]
    return {
        "dim": reel.dim,
        "count": points.shape[1],
        "t": pack(reel.t, "f8"),
        **(_steps(points) if coarse else {"points": pack(points, "f4")}),
        "parts": parts,
        "scenery": scenery,
        "floor": None if (floor := reel.floor) is None else {"point": floor[0].tolist(), "normal": floor[1].tolist()},
        "arrows": None if (a := reel.arrows) is None else {"frame": pack(a.frame, "i4")} | _ends(a),
        **asdict(view_of(reel)),
    }


def _steps(points: np.ndarray) -> dict[str, Any]:
    """Points [frames, points, dim] as whole numbers of 16 bits: how much each differs from the frame before, modulo 2¹⁶."""
    low = points.min(axis=(0, 1))
    unit = np.maximum(points.max(axis=(0, 1)) - low, 1e-300) / 65535
    whole = np.round((points - low) / unit).astype(np.uint16)
    change = np.concatenate([whole[:1], whole[1:] - whole[:-1]]).ravel()
    planes = np.concatenate([change & 255, change >> 8]).astype(np.uint8)  # bytes of one kind together: they are packed better
    return {"steps": base64.b64encode(planes.tobytes()).decode(), "origin": low.tolist(), "unit": unit.tolist()}


def _ends(arrows: Arrows) -> dict[str, str]:
    return {"start": pack(arrows.start, "f4"), "end": pack(arrows.end, "f4")}


# -- words ---------------------------------------------------------------------------------------------------------------


def _alarming(solution: Solution) -> bool:
    """Did the run end otherwise than was asked?"""
    return not solution.status.ok or solution.status.name == "interrupted"


def _headline(solution: Solution, numbers: Mapping[str, Any]) -> str:
    hits, steps = numbers["impacts"], f"{numbers['steps']:,} steps of {numbers['dt']:g} to t = {numbers['t_end']:g}"
    method = method_record(solution.method).name
    kept = f"energy changes by at most {numbers['energy_error_max']:.1e}"  # true of runs with loss as well
    return " · ".join([steps, f"{hits:,} impact{'' if hits == 1 else 's'}", method, kept, numbers["status"].replace("_", " ")])


def _note(solution: Solution) -> str:
    notes = []
    if len(solution.t) > 2 * INTERVALS:
        notes.append(f"Curves show the smallest and largest values of {INTERVALS:,} intervals of time; every impact is kept.")
    if solution.q.shape[1] > CURVES:
        notes.append(f"The {CURVES} liveliest of {solution.q.shape[1]} coordinates are drawn.")
    return " ".join(notes)


def _parameters(params: Any) -> dict[str, str]:
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): _number(value) for path, value in leaves}


def _number(value: Any) -> str:
    array = np.asarray(value)
    if array.size > 24:
        return f"{' × '.join(map(str, array.shape))} numbers from {array.min():.6g} to {array.max():.6g}"
    return f"{float(array):.10g}" if array.ndim == 0 else np.array2string(array, precision=6, separator=", ")


def _method(solution: Solution) -> dict[str, str]:
    record = method_record(solution.method)
    declared = {"order": str(record.order), "preserves": ", ".join(solution.preserved) or "nothing declared"}
    return {"method": record.name, **record.settings, **declared}


def measured(solution: Solution, numbers: Mapping[str, Any]) -> dict[str, str]:
    """What the run itself shows of the properties that its method declares."""
    rows = {
        "energy, largest change": f"{numbers['energy_error_max']:.2e} relative",
        "energy, drift": f"{numbers['energy_drift']:+.2e} over the run",
    }
    scale = np.max(np.abs(solution.p), initial=0.0)
    for i in liveliest(-solution.p):
        change = np.max(np.abs(solution.p[:, i] - solution.p[0, i]))
        if np.any(solution.p[:, i]) and change <= 1e-9 * scale:
            rows[f"momentum of {solution.directions[i]}"] = f"kept to {change:.1e}"
    if solution.smallest_gap is not None:
        rows["deepest penetration at grid points"] = f"{max(0.0, -float(np.nanmin(solution.smallest_gap))):.1e}"
        if numbers["impacts"]:
            rows["near grazing, reflected by the law itself"] = f"{numbers['fallbacks']} of {counted(numbers['impacts'], 'impact')}"
    for number, words in enumerate(solution.caveats):
        rows["caveat" if not number else f"caveat {number + 1}"] = words
    rows["stepping"] = f"{numbers['seconds']:.3g} s, {numbers['microseconds_per_step']:.3g} µs per step"
    rows["compiling"] = f"{numbers['compile_seconds']:.3g} s"
    return rows


def _breakable(value: Any) -> str:
    """A text for a narrow column: names and calls break after their signs, not in the middle of a word."""
    return re.sub(r"([_(=,/])(?=\w)", r"\1<wbr>", html.escape(str(value), quote=False))


def _table(rows: Mapping[str, Any]) -> str:
    cells = (f"<tr><th>{_breakable(key)}</th><td>{_breakable(value)}</td></tr>" for key, value in rows.items())
    return f"<table>{''.join(cells)}</table>" if rows else "<p>none</p>"

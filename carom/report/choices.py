"""One page with a choice: runs at a small grid of parameters, each in the player of the report. It works from a folder.

The page holds what all reports share (plotly's JavaScript, script, style) once, and what is different in each run, packed (gzip).
A frame shows the report of the run that was chosen, put together by the page itself; nothing is asked of any server.
"""

import base64
import gzip
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from carom.errors import InputError


def write_choices(
    path: str | Path,
    title: str,
    about: str,
    axes: Mapping[str, Sequence[Any]],
    reports: Mapping[tuple[int, ...], str],
    home: str | None = None,
    note: str = "",
    first: Mapping[str, Any] | None = None,
) -> Path:
    """Write the page. `axes` are the parameters and their values, `reports` has the report of a run for each combination, by the
    numbers of the values; `home` is an address to go back to, `note` a sentence below the choices. `first` are the values that are
    shown at first; those in the middle, where it says nothing."""
    wanted = list(product(*(range(len(values)) for values in axes.values())))
    if sorted(reports) != wanted:
        raise InputError(f"a page of choices needs a run for each of {len(wanted)} combinations; got {len(reports)}")
    common = _common()
    pages = {"-".join(map(str, key)): _without(reports[key], common) for key in wanted}
    text = (_folder() / "choices.html").read_text("utf-8")
    fields = {
        "TITLE": html.escape(title),
        "ABOUT": html.escape(about),
        "HOME": "" if home is None else f'<a href="{html.escape(home)}">all models</a>',
        "CONTROLS": _controls(axes, first or {}),
        "NOTE": html.escape(note),
        "EVAL": " 'unsafe-eval'" if any("'unsafe-eval'" in page for page in pages.values()) else "",
        "PACKED": _packed({"common": common, "pages": pages}),
    }
    for name, value in fields.items():
        text = text.replace("{{" + name + "}}", value)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _folder() -> Any:
    return resources.files("carom.report") / "page"


def _common() -> dict[str, str]:
    from plotly.offline import get_plotlyjs

    return {
        "PLOTLY": get_plotlyjs(),
        "STYLE": (_folder() / "page.css").read_text("utf-8"),
        "SCRIPT": (_folder() / "page.js").read_text("utf-8"),
    }


def _without(page: str, common: Mapping[str, str]) -> str:
    """A report with marks where the shared parts were."""
    for name, text in common.items():
        if page.count(text) != 1:
            raise AssertionError(f"the report has its {name.lower()} {page.count(text)} times")
        page = page.replace(text, f"\x00{name}\x00")
    return page


def _packed(value: Any) -> str:
    """As text that a page can hold; the same bytes whenever it is made."""
    return base64.b64encode(gzip.compress(json.dumps(value, ensure_ascii=False).encode("utf-8"), 9, mtime=0)).decode()


def _controls(axes: Mapping[str, Sequence[Any]], first: Mapping[str, Any]) -> str:
    boxes = []
    for k, (name, values) in enumerate(axes.items()):
        shown = list(values).index(first[name]) if name in first else len(values) // 2
        options = ""
        for i, value in enumerate(values):
            chosen = " checked" if i == shown else ""
            options += f'<label><input type="radio" name="axis-{k}" value="{i}"{chosen}> {html.escape(f"{value:g}")}</label>'
        boxes.append(f"<fieldset><legend>{html.escape(str(name))}</legend>{options}</fieldset>")
    return "".join(boxes)

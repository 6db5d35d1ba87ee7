"""Reports of what does not play: one HTML file with pictures and tables, for ensembles and gases of bodies. It needs no network."""

import base64
import html
import io
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from carom.report.ensembles import plot_billiard, plot_ensemble
from carom.results.places import page_path, titled
from carom.results.store import method_record, versions

FAILURES = 10  # lanes whose end is told in words


def report_ensemble(ensemble: Any, path: str | Path, title: str | None = None) -> Path:
    """Write the report of an ensemble to `path`."""
    path, title = page_path(path, "ensemble.html"), titled(title, ensemble.name)
    numbers = ensemble.summary()
    record = method_record(ensemble.method)
    failed = np.flatnonzero(~ensemble.ok)
    endings = {f"lane {lane}": ensemble.status(int(lane)).message for lane in failed[:FAILURES]}
    shared = {key: str(np.asarray(value)) for key, value in (ensemble.params or {}).items() if key not in ensemble.each}
    varied = {key: f"{np.min(x):.6g} … {np.max(x):.6g}, one per lane" for key, x in ensemble.each.items()}
    tables = {
        "Numbers": _worded(numbers),
        **({f"The first {len(endings)} of {len(failed)} lanes that failed": endings} if endings else {}),
        "Parameters": {**shared, **varied},
        "Method": {"method": record.name, **record.settings, "order": str(record.order)},
        "Versions": versions(),
    }
    return _write(path, title, repr(ensemble), {"All lanes": plot_ensemble(ensemble)}, tables)


def report_billiard(run: Any, path: str | Path, title: str | None = None) -> Path:
    """Write the report of a gas of discs or spheres to `path`."""
    path, title = page_path(path, "gas.html"), titled(title, run.billiard.name)
    tables = {"Numbers": _worded(run.summary()), "Versions": versions()}
    return _write(path, title, repr(run), {"The gas": plot_billiard(run)}, tables)


def _worded(numbers: Mapping[str, Any]) -> dict[str, str]:
    text = lambda x: f"{x:.6g}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else str(x)  # noqa: E731
    return {key.replace("_", " "): text(value) for key, value in numbers.items()}


def _write(path: Path, title: str, headline: str, figures: Mapping[str, Figure], tables: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    style = (resources.files("carom.report") / "page" / "page.css").read_text("utf-8")
    parts = [f"<h1>{html.escape(title)}</h1>", f'<p class="summary">{html.escape(headline)}</p>']
    parts += [f'<figure><img alt="{html.escape(name)}" src="{_picture(figure)}"></figure>' for name, figure in figures.items()]
    for name, rows in tables.items():
        cells = "".join(f"<tr><th>{html.escape(str(k))}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items())
        parts.append(f"<section><h2>{html.escape(name)}</h2><table>{cells}</table></section>" if rows else "")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
        f"<style>{style}\nimg {{ max-width: 100%; background: white; }}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>"
    )
    path.write_text(page, encoding="utf-8")
    return path


def _picture(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()

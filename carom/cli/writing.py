"""What `--out` means: a folder for everything or one file, found out before the run, written after it."""

import json
import os
from pathlib import Path
from typing import Any

import typer

from carom.cli.terminal import FAILED, fail, folder

FILES = (".zarr", ".nc", ".html", ".json", ".png", ".gif", ".mp4")


def is_file(out: Path) -> bool:
    return out.suffix.lower() in FILES


PARTS = ("run.zarr", "run.html", "summary.json", "run.png", "motion.png")


def check_out(out: Path, drawn: bool, parts: tuple[str, ...] = PARTS) -> None:
    """Whether everything can be written there, one file or the `parts` of a folder; `drawn` says that the model has a picture."""
    kind = out.suffix.lower()
    if not is_file(out) and kind[1:2].isalpha() and not out.is_dir():
        raise ValueError(f"--out {out}: there is no format {kind}; write {' '.join(FILES)}, or a folder (a name without an ending)")
    folder(out.parent if is_file(out) else out)
    if kind in (".gif", ".mp4"):
        from carom.report.movie import check_path

        check_path(out)
        if not drawn:
            raise ValueError(f"--out {out}: this model has no picture to make a film of")
    target = out / "run.zarr" if not is_file(out) else out
    if target.suffix.lower() in (".zarr", ".nc") and target.exists():
        from carom.results.store import header, kind_of

        if (not target.is_dir() or any(target.iterdir())) and kind_of(target) != "world":
            header(target)  # refuses what is not a run
    for path in [out] if is_file(out) else [out / name for name in parts]:
        if path.exists() and not os.access(path, os.W_OK):
            raise ValueError(f"--out {out}: {path} cannot be written to")
        if path.is_dir() and path.suffix.lower() != ".zarr":
            raise ValueError(f"--out {out}: {path} is a folder, and a file goes there")


def write(out: Path, solution: Any, summary: dict[str, Any], quiet: bool) -> None:
    """One file, if `out` is the name of one; otherwise a folder with the run, its report, its numbers and its pictures."""
    import numpy as np

    from carom.errors import CaromError

    if is_file(out):
        written = [out]
    else:
        drawn = solution.shape is not None and solution.num_steps > 1 and np.all(np.isfinite(solution.q))
        written = [out / name for name in ("run.zarr", "run.html", "summary.json", "run.png", *(["motion.png"] if drawn else []))]
    try:
        for path in written:
            _write_file(path, solution, summary)
    except (OSError, CaromError) as error:
        fail(f"writing to {out} failed: {error}", FAILED)
    if not quiet:
        typer.echo(f"written: {', '.join(map(str, written))}")


def _write_file(path: Path, solution: Any, summary: dict[str, Any]) -> None:
    kind = path.suffix.lower()
    if kind in (".zarr", ".nc"):
        solution.save(path)
    elif kind == ".html":
        solution.report(path)
    elif kind == ".json":
        path.write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n", "utf-8")
    elif kind in (".gif", ".mp4"):
        solution.animate(path)
    elif path.name == "motion.png":
        from carom.report import plot_motion

        hits = solution.impacts
        plot_motion(solution, path=path, frames=30, until=float(hits.t[5]) if len(hits) > 5 else None)
    else:
        solution.plot(path)

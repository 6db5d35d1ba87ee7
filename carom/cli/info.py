"""`carom info`: what a bug report needs to say about this installation."""

import json
import platform
import sys
from typing import Annotated, Any

import typer

PACKAGES = ("jax", "jaxlib", "equinox", "diffrax", "jaxtyping", "numpy", "xarray", "zarr", "filelock")
HOW = "arrays, several times slower: pip install 'carom[fast]'"


def info(as_json: Annotated[bool, typer.Option("--json", help="Exactly one JSON object on stdout.")] = False) -> None:
    """Say what carom runs on: versions, processor, devices, caches, and whether programs run as one kernel."""
    found = facts()
    if as_json:
        typer.echo(json.dumps(found))
        return
    for title, section in found.items():
        typer.echo(title)
        for name, value in section.items():
            typer.echo(f"  {name:12} {_text(value)}")


def facts() -> dict[str, dict[str, Any]]:
    """All of it, as plain data."""
    import jax

    import carom
    from carom.kept import finished
    from carom.numerics.friction import compiled
    from carom.xla.kernel import kernel_state
    from carom.xla.machine import cache_root, cores, processor, versions
    from carom.xla.probe import verdict
    from carom.xla.programs import program_cache, size

    kernel, programs = kernel_state(), program_cache()
    count, total = size(programs.folder) if programs.folder is not None else (0, 0)
    ready, more = finished.size(programs.folder) if programs.own and programs.folder is not None else (0, 0)
    kept = finished.store()
    features = [f for f in ("sse4_2", "avx", "avx2", "fma", "avx512f", "asimd", "sve") if f in processor().features]
    return {
        "versions": {"carom": carom.__version__, "Python": platform.python_version(), **versions(*PACKAGES)},
        "machine": {
            "platform": platform.platform(),
            "processor": processor().model,
            "instructions": features,
            "cores": cores(),
            "devices": [f"{device.platform}: {device.device_kind}" for device in jax.devices()],
            "interpreter": sys.executable,
        },
        "caches": {
            "folder": _plain_path(cache_root),
            "programs": None if programs.folder is None else str(programs.folder),
            "why": programs.why,
            "count": count,
            "bytes": total,
            "finished": ready,
            "their bytes": more,
            "kept": kept is not None and kept.works() is not False,
            "without their computation": verdict().bare,
        },
        "one kernel": {"on": kernel.on, "why": kernel.why},
        "bodies": {"compiled": compiled.available(), "by": "numba" if compiled.available() else HOW},
    }


def _plain_path(find: Any) -> str | None:
    try:
        return str(find())
    except RuntimeError:  # there is no home
        return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)

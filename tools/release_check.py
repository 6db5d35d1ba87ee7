"""Build sdist and wheel, install the wheel into a clean environment as a stranger would (no constraints), and try it there.

`make release-check` runs all of it; `--quick` leaves out the demo and the extras that only developers install. The environments are
made in a temporary folder and thrown away. Exits with the number of steps that failed.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What each extra promises, by the names that one imports.
EXTRAS = {
    "netcdf": ("h5netcdf", "h5py"),
    "live": ("viser",),
    "notebook": ("anywidget",),
    "cluster": ("distributed",),
    "billiards": ("numba",),
    "fast": ("numba",),
    "bench": ("scipy", "mujoco", "numba"),
    "docs": ("mkdocs", "material", "mkdocstrings"),
    "dev": ("pytest", "xdist", "ruff", "pyright", "scipy", "websocket", "h5netcdf", "distributed", "numba", "viser", "anywidget"),
}
FOR_USERS = ("netcdf", "cluster", "billiards", "fast", "live", "notebook")
IN_WHEEL = ("carom/py.typed", "carom/__init__.py", "carom/xla/trial.py")
IN_SDIST = ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "carom/py.typed", "tests/conftest.py")


def run(*command: str, cwd: Path, **changes: str) -> str:
    """The output of a command; its end is shown where it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PIP_CONSTRAINT", "VIRTUAL_ENV")}
    ran = subprocess.run(command, cwd=cwd, env={**environment, **changes}, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(map(str, command[:6]))} … exits {ran.returncode}:\n{(ran.stdout + ran.stderr)[-2000:]}")
    return ran.stdout


def environment(folder: Path) -> str:
    """The interpreter of a new virtual environment."""
    run(sys.executable, "-m", "venv", str(folder), cwd=folder.parent)
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


def build(work: Path) -> Path:
    """The wheel; both archives hold what they should."""
    python = environment(work / "builder")
    run(python, "-m", "pip", "install", "--quiet", "build", cwd=work)
    run(python, "-m", "build", "--outdir", str(work / "dist"), str(ROOT), cwd=work)
    (wheel,), (sdist,) = (work / "dist").glob("*.whl"), (work / "dist").glob("*.tar.gz")
    inside = set(zipfile.ZipFile(wheel).namelist())
    missing = [name for name in IN_WHEEL if name not in inside] + (
        [] if any(n.endswith("/LICENSE") for n in inside) else ["LICENSE"]
    )
    strangers = sorted({name.split("/")[0] for name in inside if not name.startswith(("carom/", "carom-"))})
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    missing += [f"{name} (sdist)" for name in IN_SDIST if name not in names]
    if missing or strangers:
        raise RuntimeError(f"missing: {missing}; not wanted in the wheel: {strangers}")
    return wheel


def extra(python: str, wheel: Path, name: str, work: Path) -> None:
    run(python, "-m", "pip", "install", "--quiet", f"carom[{name}] @ {wheel.as_uri()}", cwd=work)
    run(python, "-c", f"import carom, {', '.join(EXTRAS[name])}", cwd=work)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="without the demo and the extras for developers")
    quick, failed = options.parse_args().quick, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        home = {"CAROM_CACHE_DIR": str(work / "cache")}
        wheel, python, command = Path(), "", ""

        def install() -> None:
            nonlocal python, command
            python = environment(work / "clean")
            command = str(Path(python).with_name("carom"))
            run(python, "-m", "pip", "install", "--quiet", str(wheel), cwd=work)

        def make() -> None:
            nonlocal wheel
            wheel = build(work)

        steps = [
            ("sdist and wheel", make),
            ("install into a clean environment", install),
            ("carom info", lambda: print(run(command, "info", cwd=work, **home))),
            ("carom run", lambda: run(command, "run", "particle", "--out", "run", cwd=work, **home)),
            ("smoke test", lambda: print(run(python, str(ROOT / "tools" / "smoke.py"), cwd=work, **home))),
        ]
        if not quick:
            steps.append(("carom demo", lambda: run(command, "demo", "--out", "demo", cwd=work, **home)))
        for name in FOR_USERS if quick else EXTRAS:
            steps.append((f"extra [{name}]", lambda name=name: extra(python, wheel, name, work)))
        for title, step in steps:
            clock = time.perf_counter()
            try:
                step()
                said = "ok"
            except (RuntimeError, OSError, ValueError) as error:
                said, failed = f"FAILED: {error}", failed + 1
            print(f"{title}: {said} ({time.perf_counter() - clock:.0f} s)", flush=True)
            if failed and title in ("sdist and wheel", "install into a clean environment"):
                break
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""The smoke test with several versions of Python and JAX, each in an environment of its own: `make test-versions`.

    python tools/versions.py                       all pairs of PAIRS whose interpreter is found
    python tools/versions.py 3.12:0.11.2           one of one's own choice

Environments are kept in out/versions, and made again only when they are missing. Exits with the number of pairs that failed.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "out" / "versions"
# The oldest that carom declares, the newest for each Python, and some between. Never 0.10.2, which computes wrong numbers.
PAIRS = ("3.11:0.8.0", "3.11:0.9.2", "3.11:0.10.1", "3.12:0.11.2", "3.13:0.12.0.1", "3.14:0.12.0.1")


def interpreter(python: str) -> str | None:
    """On the path, under the usual names, or among those of pyenv."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    kept = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{python}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{python}")


def prepare(python: str, jax: str, place: Path) -> str:
    """The interpreter of an environment with this JAX, and with this carom in place."""
    found = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
    if not (place / ".ready").exists():
        subprocess.run([python, "-m", "venv", "--clear", str(place)], check=True)
        install = [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"jax=={jax}", "-e", str(ROOT)]
        subprocess.run(install, check=True)
        (place / ".ready").touch()
    return found


def main(pairs: tuple[str, ...]) -> int:
    failed = 0
    for pair in pairs:
        version, _, jax = pair.partition(":")
        python, clock = interpreter(version), time.perf_counter()
        print(f"== Python {version}, jax {jax}", flush=True)
        if python is None:
            print("   skipped: no such interpreter here", flush=True)
            continue
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        try:
            found = prepare(python, jax, PLACE / f"py{version}-jax{jax}")
            subprocess.run([found, str(ROOT / "tools" / "smoke.py")], check=True, env=environment, cwd=PLACE)
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"   FAILED: exit code {error.returncode} of {error.cmd[1]}", flush=True)
        print(f"   {time.perf_counter() - clock:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    PLACE.mkdir(parents=True, exist_ok=True)
    sys.exit(main(tuple(sys.argv[1:]) or PAIRS))

"""May programs be given the hints that make one kernel of them? Asked once per machine and version, and remembered.

Whether a version of XLA takes the hints, ignores them or aborts cannot be read from its number. So the first program that wants
them runs a small one in another process (trial.py), which may crash without harm, and the answer is kept in a small file beside
the compiled programs. In one go it is asked whether finished programs may be kept without the computation that they were compiled
from (`bare.py`). The name of the file stands for the processor, Python, jax, jaxlib, XLA's flags, the trial itself and `bare.py`:
when one of them changes, the trial is made again. Files are written under another name and then renamed, so that several processes
may ask at once.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from carom.xla.machine import cache_root, environment

PATIENCE = 300.0  # seconds; a trial takes about two, more where many others want the processor
TRIAL = Path(__file__).with_name("trial.py")
BARE = Path(__file__).with_name("bare.py")


class Verdict(NamedTuple):
    works: bool
    why: str
    bare: bool = False  # do finished programs load without their computation?


_asked: dict[str, Verdict] = {}


def verdict() -> Verdict:
    """The answer, from this process, from the file, or from a trial now."""
    found = known_verdict()
    if found is None:
        found, final = _try()
        _asked[_name()] = found
        if final:
            _remember(found)
    return found


def known_verdict() -> Verdict | None:
    """The answer if somebody has asked before."""
    name = _name()
    if name not in _asked:
        try:
            kept = json.loads(_file().read_text("utf-8"))
            _asked[name] = Verdict(bool(kept["works"]), str(kept["why"]), bool(kept["bare"]))
        except (OSError, RuntimeError, ValueError, KeyError, TypeError):  # none, or not readable: ask again
            return None
    return _asked[name]


def _try() -> tuple[Verdict, bool]:
    """Make the trial. The second value: is that an answer to keep, or was it only a bad moment?"""
    if not sys.executable or getattr(sys, "frozen", False):
        return Verdict(False, "it could not be tried out: there is no Python interpreter to run"), False
    drop = ("JAX_COMPILATION_CACHE_DIR", "PYTHONSTARTUP", "COVERAGE_PROCESS_START")
    inherited = {key: value for key, value in os.environ.items() if key not in drop}
    # The program has to be compiled there and then, on the CPU.
    given = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false", "CAROM_CACHE": "0"}
    try:
        ran = subprocess.run(
            [sys.executable, str(TRIAL)],
            env={**inherited, **given},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Verdict(False, f"it could not be tried out ({type(error).__name__}: {error})"), False
    answers = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0 and not answers:
        said = ran.stderr.strip().splitlines()
        crash = f"the trial ended with exit code {ran.returncode}" + (f": {said[-1][:200]}" if said else "")
        return Verdict(False, crash), True
    try:
        return _judge(json.loads(answers[-1])), True  # the last that it came to
    except (ValueError, IndexError, KeyError):
        return Verdict(False, "the trial gave no answer"), False


def _judge(found: dict[str, Any]) -> Verdict:
    """From what the trial measured: the largest relative difference that one kernel makes, how many times faster it is, and whether
    programs were loaded without their computation."""
    bare = bool(found.get("bare"))
    if not found["difference"] < 1e-9:  # a thousand steps of a motion that is not chaotic: 1e-15 to 1e-12 by rounding
        return Verdict(False, f"with the hints this version of XLA computes something else (by {found['difference']:.1e})", bare)
    if not found["gain"] > 3:  # 7 to 27 in versions that take the hints, 1 to 1.3 without them
        return Verdict(False, f"this version of XLA does not take the hints (a loop runs {found['gain']:.1f} times faster)", bare)
    return Verdict(True, f"tried out: a loop runs {found['gain']:.0f} times faster than in pieces", bare)


@cache
def _trial_text() -> str:
    return TRIAL.read_text("utf-8") + BARE.read_text("utf-8")


def _name() -> str:
    return environment(_trial_text())


def _file() -> Path:
    return cache_root() / "kernel" / f"{_name()}.json"


def _remember(found: Verdict) -> None:
    """Without a folder to write to, every process asks anew."""
    try:
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=file.parent, prefix=file.stem, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(json.dumps(found._asdict()))
        os.replace(part, file)
    except (OSError, RuntimeError):
        return

"""Runs that several tests look at, computed once; and programs, compiled once for all workers and processes.

Tests whose numbers depend on the last bit (chaotic runs, comparisons to rounding, statistics of ensembles) are marked `sensitive`:
`make test-isa` runs the suite under every set of instructions, and .ci/run the sensitive part under two more.
"""

import os
import re
import signal
from pathlib import Path

# Before jax is loaded. What one test compiles is found again by the other worker, by commands in other processes, and next time.
# JAX keeps programs for other flags of XLA apart; a folder for each set of instructions lets one see that it does.
ISA = re.search(r"xla_cpu_max_isa=(\w+)", os.environ.get("XLA_FLAGS", ""))
KEPT = Path(__file__).parent.parent / ".pytest_cache" / f"jax-{ISA[1] if ISA else 'own'}"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(KEPT))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")

import pytest

import carom
from carom.running import interrupts

for name in carom.__all__:
    getattr(carom, name)  # tests reach for modules that a program loads when it needs them

TRAPEZOIDAL = carom.VariationalCollision(carom.Trapezoidal())
ORDER_4 = carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4))

SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text().splitlines())  # made by tools/slow_tests.py


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as a person presses it: a process that was started in the background ignores it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    interrupts.heard()  # what is asked of the next run is not asked of the next test
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def kept_folder(tmp_path, monkeypatch):
    """Finished programs in a folder of their own, as if carom had no other; what is written is there at once."""
    from carom.kept import beside, finished, keep, remember, surroundings

    found = finished.Store(tmp_path / "finished")
    monkeypatch.setattr(keep, "store", lambda: found)
    monkeypatch.setattr(remember, "store", lambda: found)
    monkeypatch.setattr(keep, "beside", beside.at_once)
    monkeypatch.setattr(surroundings, "LOADED", float("inf"))  # whatever was edited shortly before the tests
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for the tests of a file; see tests/browser.py."""
    from browser import Browser

    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def particle_run():
    return carom.models.particle().solve(TRAPEZOIDAL, num_steps=10**6, max_impacts=1000)


@pytest.fixture(scope="session")
def star_run():
    return carom.models.star().solve(TRAPEZOIDAL, num_steps=10**6, max_impacts=1500)


@pytest.fixture(scope="session")
def star_run_4():
    return carom.models.star().solve(ORDER_4, num_steps=10**6, max_impacts=1500)

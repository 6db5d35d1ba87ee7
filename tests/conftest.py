"""Runs that several tests look at, computed once; and programs, compiled once for all workers and processes."""

import os
import signal
from pathlib import Path

# Before jax is loaded. What one test compiles is found again by the other worker, by commands in other processes, and next time.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")

import pytest

import carom

TRAPEZOIDAL = carom.VariationalCollision(carom.Trapezoidal())
ORDER_4 = carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4))


@pytest.fixture
def ctrl_c():
    """Ctrl-C as a person presses it: a process that was started in the background ignores it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def particle_run():
    return carom.models.particle().solve(TRAPEZOIDAL, num_steps=10**6, max_impacts=1000)


@pytest.fixture(scope="session")
def star_run():
    return carom.models.star().solve(TRAPEZOIDAL, num_steps=10**6, max_impacts=1500)


@pytest.fixture(scope="session")
def star_run_4():
    return carom.models.star().solve(ORDER_4, num_steps=10**6, max_impacts=1500)

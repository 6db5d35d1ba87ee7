"""Runs that several tests look at, computed once."""

import pytest

import carom

TRAPEZOIDAL = carom.VariationalCollision(carom.Trapezoidal())
ORDER_4 = carom.VariationalCollision(carom.Composition(carom.Trapezoidal(), 4))


@pytest.fixture(scope="session")
def particle_run():
    return carom.models.particle().solve(TRAPEZOIDAL, num_steps=10**6, max_impacts=1000)


@pytest.fixture(scope="session")
def star_run():
    return carom.models.star().solve(TRAPEZOIDAL, num_steps=10**6, max_impacts=1500)


@pytest.fixture(scope="session")
def star_run_4():
    return carom.models.star().solve(ORDER_4, num_steps=10**6, max_impacts=1500)

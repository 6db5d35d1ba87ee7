"""Worlds whose large contact problems are solved by compiled programs. On the CPU here: the programs are the same on a GPU."""

import jax
import numpy as np
import pytest

import carom
from carom.bodies import large_on_device
from carom.errors import InputError


def _heap() -> carom.World:
    world = carom.World(gravity=(0, 0, -9.81))
    world.fix(carom.shapes.HalfSpace())
    rng = np.random.default_rng(0)
    for i in range(3):
        for j in range(3):
            for k in range(2):
                place = np.array([1.3 * i, 1.3 * j, 0.5 + 1.02 * k]) * 0.1 + [*(0.01 * rng.uniform(-1, 1, 2)), 0]
                world.add(carom.shapes.Sphere(0.05), density=1000, position=place)
    world.material(friction=0.5)
    return world


def _few_rows_are_many(monkeypatch) -> None:
    monkeypatch.setattr(large_on_device, "MANY_ROWS", 1)
    monkeypatch.setattr("carom.bodies.velocity.MOST_ROWS", 10)
    monkeypatch.setattr("carom.bodies.velocity.MANY_ROWS", 10)


def test_a_heap_on_a_device_moves_as_on_the_host(monkeypatch):
    options = {"dt": 2e-3, "num_steps": 30, "tolerance": 1e-9, "progress": False}
    host = _heap().solve(**options)
    _few_rows_are_many(monkeypatch)
    there = _heap().solve(**options, device="cpu")
    assert "device" in set(there.stages) and "device" not in set(host.stages)
    assert np.max(there.residual) <= 1e-9
    assert np.allclose(there.x, host.x, rtol=0, atol=1e-6)  # 30 steps, errors of E · v each, over the flattest mode
    assert np.max(np.abs(there.x[-1] - there.x[0])) > 1e-3  # control: it moved
    assert there.settings.device == "cpu"


def test_what_a_device_leaves_is_finished_by_the_host(monkeypatch):
    _few_rows_are_many(monkeypatch)
    monkeypatch.setattr(large_on_device, "PRODUCTS", 0)  # nothing is done there
    run = _heap().solve(dt=2e-3, num_steps=20, tolerance=1e-9, progress=False, device="cpu")
    assert "together" in set(run.stages) and np.max(run.residual) <= 1e-9


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="choose 'gpu' or 'cpu'"):
        _heap().solve(dt=1e-3, num_steps=1, device="abacus")
    if not any(device.platform == "gpu" for device in jax.devices()):
        with pytest.raises(InputError, match="there is no gpu that JAX can use here"):
            _heap().solve(dt=1e-3, num_steps=1, device="gpu")

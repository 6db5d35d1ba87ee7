"""What is handed on: to another process, or under a name with capital letters."""

import copy
import pickle

import numpy as np
import pytest

import carom

METHOD = carom.VariationalCollision(carom.Trapezoidal())


@pytest.fixture(scope="module")
def run():
    return carom.models.particle().solve(METHOD, num_steps=100)


def test_a_run_and_its_status_go_through_pickle(run):
    """A status remembered its run by a function that nobody can pickle."""
    again = pickle.loads(pickle.dumps(run))
    assert np.array_equal(again.q, run.q) and np.array_equal(again.energy, run.energy) and str(again.status) == str(run.status)
    alone = pickle.loads(pickle.dumps(run.status))
    assert alone == run.status and str(alone) == str(run.status)
    assert copy.deepcopy(run.status) == run.status


def test_the_caveats_go_with_a_status():
    thin = carom.System(lambda q, v: 0.5 * v @ v, [carom.Contact(lambda q: abs(q[0] - 1) - 0.001, name="sheet")])
    through = carom.solve(thin, carom.MoreauJean(), [0.0, 0.0], [10.0, 0.0], dt=0.01, num_steps=20)
    alone = pickle.loads(pickle.dumps(through.status))
    assert "was passed through" in str(through.status) and alone.caveats == through.caveats


@pytest.mark.parametrize("name", ["run.Zarr", "run.ZARR", "run.NC"])
def test_an_ending_in_capital_letters_is_the_same_format(run, name, tmp_path):
    """*.Zarr was written as netCDF, and could not be opened any more."""
    path = run.save(tmp_path / name)
    assert np.array_equal(carom.load(path).q, run.q) and path.is_dir() == (path.suffix.lower() == ".zarr")


def test_worlds_too(tmp_path):
    world = carom.World(gravity=(0, -9.81))
    world.add(carom.shapes.Disc(0.1), mass=1.0, position=(0, 1))
    run = world.solve(0.01, 3)
    for name in ("run.Zarr", "run.NPZ"):
        assert np.array_equal(carom.load(run.save(tmp_path / name)).body("body 0").position, run.body("body 0").position)

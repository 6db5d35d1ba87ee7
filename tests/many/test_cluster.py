"""An ensemble over a dask cluster: the numbers of one machine, whatever happens to the workers."""

import os
import subprocess
import sys

import numpy as np
import pytest

import carom
from carom.many import cluster

distributed = pytest.importorskip("distributed")
xr = pytest.importorskip("xarray")

STEPS = 60


def _lanes(count: int):
    random = np.random.default_rng(3)
    q0s = np.stack([np.zeros(count), random.uniform(0.5, 1.5, count)], axis=1)
    return q0s, {"gravity": random.uniform(5.0, 12.0, count)}


def _options(each):
    model = carom.models.particle()
    shared = {key: value for key, value in model.params.items() if key not in each}
    return {"dt": 0.01, "num_steps": STEPS, "params": shared, "each": each, "save": 30}


@pytest.fixture(scope="module")
def one_machine():
    """100 lanes, here, in blocks of the size that the cluster uses: the same program."""
    q0s, each = _lanes(100)
    method, system = carom.VariationalCollision(carom.Trapezoidal()), carom.models.particle().system
    return system, method, q0s, each, carom.ensemble(system, method, q0s, [0.0, 0.0], **_options(each))


def test_the_numbers_of_one_machine_and_nothing_twice(one_machine, tmp_path, monkeypatch):
    system, method, q0s, each, here = one_machine
    path, computed = tmp_path / "lanes.zarr", []
    genuine = cluster.LaneStore.write

    def counted(store, number, block):
        computed.append(number)
        genuine(store, number, block)

    monkeypatch.setattr(cluster.LaneStore, "write", counted)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as workers:
        where = {"cluster": workers.scheduler_address, "out": path}
        there = carom.ensemble(system, method, q0s, [0.0, 0.0], **_options(each), **where, block=32)
        assert sorted(computed) == [0, 1, 2, 3] and there.sizes["lane"] == 100
        assert np.array_equal(there.q.values, here.q) and np.array_equal(there.energy.values, here.energy)
        assert np.array_equal(there.impacts_so_far.values, here.impacts_so_far) and here.num_impacts.sum() > 0

        # What is there is not computed again; what is missing is, and only that.
        carom.ensemble(system, method, q0s, [0.0, 0.0], **_options(each), **where)
        assert len(computed) == 4
        import zarr

        group = zarr.open_group(path, mode="r+")
        group["done"][2], group["q"][64:96] = False, np.zeros((32, *here.q.shape[1:]))
        again = carom.ensemble(system, method, q0s, [0.0, 0.0], **_options(each), **where)
        assert computed[4:] == [2] and np.array_equal(again.q.values, here.q)

        # Another ensemble does not go on with it.
        with pytest.raises(carom.InputError, match="belongs to something else"):
            carom.ensemble(system, method, q0s + 0.1, [0.0, 0.0], **_options(each), **where)


def test_lanes_are_read_in_slices(tmp_path):
    """Of what is given only blocks are read: an array that refuses to be read as a whole will do."""

    class Slices:
        shape, ndim = (10_000, 2), 2

        def __len__(self):
            return self.shape[0]

        def __getitem__(self, lanes):
            assert isinstance(lanes, slice) and lanes.stop - lanes.start <= 128
            return np.arange(2.0 * lanes.start, 2.0 * lanes.stop).reshape(-1, 2)

    lanes = cluster.Lanes(Slices(), [0.0, 0.0], 0.01, {"gravity": np.arange(10_000.0)})
    q, v, dt, each = lanes[128:256]
    assert q.shape == (128, 2) and q[0, 0] == 256 and v.shape == (1, 2) and dt == 0.01 and each["gravity"][0] == 128
    last = lanes[9_984:10_112]  # a whole block, the last lane repeated
    assert last[0].shape == (128, 2) and np.all(last[0][16:] == last[0][15])
    with pytest.raises(carom.InputError, match="there are 10000 lanes"):
        cluster.Lanes(Slices(), np.zeros((3, 2)), 0.01, None)


def test_what_is_refused(tmp_path):
    model, method = carom.models.particle(), carom.VariationalCollision()

    def run(**more):
        params = model.params
        return carom.ensemble(model.system, method, [[0.0, 1.0]], [0.0, 0.0], dt=0.01, num_steps=5, params=params, **more)

    with pytest.raises(carom.InputError, match=r"pass cluster= too"):
        run(out=tmp_path / "x.zarr")
    with pytest.raises(carom.InputError, match=r"ends in \.zarr"):
        run(cluster="tcp://127.0.0.1:9", out=tmp_path / "x.nc")


@pytest.mark.stress
def test_a_hundred_thousand_lanes_and_a_worker_killed(tmp_path):
    """Two worker processes, one killed midway: complete, and the numbers of one machine."""
    count, block = 100_000, 8192
    q0s, each = _lanes(count)
    memory = np.memmap(tmp_path / "q0s", float, "w+", shape=q0s.shape)
    memory[:] = q0s
    method, system = carom.VariationalCollision(carom.Trapezoidal()), carom.models.particle().system
    options = {**_options(each), "num_steps": 20_000, "save": None}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers:
        script = f"import os, time; time.sleep(20); os.kill({workers.workers[0].process.process.pid}, 9)"
        killer = subprocess.Popen([sys.executable, "-c", script])
        where = {"cluster": workers.scheduler_address, "out": tmp_path / "lanes.zarr"}
        there = carom.ensemble(system, method, memory, [0.0, 0.0], **options, **where, block=block)
        assert killer.wait() == 0
    here = carom.ensemble(system, method, q0s, [0.0, 0.0], **options)
    assert np.array_equal(there.q.values, here.q) and np.array_equal(there.steps_taken.values, here.steps)
    assert os.path.getsize(tmp_path / "q0s") == q0s.nbytes

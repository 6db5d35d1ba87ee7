"""Sweeps: the right numbers at the right places, whoever computes them and whoever dies on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import carom
from carom.cli import commands as cli
from carom.cli.parsing import parse_values
from carom.many import sweep_workers as executors

LEFT = carom.VariationalCollision(carom.Trapezoidal())
GRID = {"gravity": [5.0, 9.81, 20.0], "q0.y": [0.5, 1.0, 2.0, 4.0], "dt": [0.01, 0.02]}
OPTIONS = {"method": LEFT, "num_steps": 100}


def measure(solution):
    """The height after each of the first two seconds' hundredths, and the number of impacts."""
    return {"hits": len(solution.impacts), "heights": ("moment", solution.q[::50, 1]), "pair": solution.q[-1]}


def deadly(solution):
    """Kills its process at one of the points, once: a file remembers."""
    memory = Path(os.environ["CAROM_TEST_MEMORY"])
    if float(solution.params["gravity"]) == 9.81 and not memory.exists():
        memory.write_text("died here")
        os.kill(os.getpid(), signal.SIGKILL)
    return {"y": solution.q[-1, 1]}


def hopeless(solution):
    if float(solution.params["gravity"]) == 9.81:
        raise RuntimeError("no luck")
    return {"y": solution.q[-1, 1]}


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "serial.zarr"
    return out, carom.sweep("particle", GRID, out=out, workers=0, block=4, **OPTIONS)


def test_every_combination_is_at_its_place(serial):
    _, data = serial
    assert dict(data.sizes) == {"gravity": 3, "q0.y": 4, "dt": 2, "coordinate": 2}
    point = data.sel({"gravity": 20.0, "q0.y": 0.5, "dt": 0.02})
    run = carom.models.particle(gravity=20.0).solve(LEFT, q0=[0.0, 0.5], dt=0.02, num_steps=100)
    np.testing.assert_array_equal(point.q_end, run.q[-1])
    np.testing.assert_array_equal(point.v_end.sel(coordinate="y"), run.v[-1, 1])
    assert float(point.impacts) == len(run.impacts) > 0 and point.status.item() == "ok" and "100 steps" in point.message.item()
    assert data.done.values.all() and float(point.energy_error_max) == run.summary()["energy_error_max"]


def test_the_store_opens_with_xarray_alone(serial):
    out, data = serial
    with xr.open_zarr(out, consolidated=False) as dataset:
        assert dataset.drop_attrs().equals(data.drop_attrs())
        assert dataset.q_end.chunks is None or dataset.q_end.encoding["chunks"][:3] == (1, 2, 2)


def test_samples_and_measures_of_ones_own(tmp_path):
    samples = {"gravity": [9.81, 1.62, 3.7], "v0.y": [0.0, 1.0, 2.0]}
    data = carom.sweep(carom.models.particle, samples=samples, measure=measure, workers=0, **OPTIONS)
    assert data.hits.dims == ("sample",) and data.heights.dims == ("sample", "moment") and data.pair.dims == ("sample", "pair_0")
    run = carom.models.particle().solve(LEFT, params={"gravity": 3.7}, v0=[-2.0, 2.0], num_steps=100)
    np.testing.assert_array_equal(data.heights[2], run.q[::50, 1])
    np.testing.assert_array_equal(data.gravity, samples["gravity"])


def test_what_fails_is_recorded_where_it_failed():
    data = carom.sweep("drag", {"restitution": [0.9, 0.1, 2.0]}, workers=0, method=LEFT, num_steps=900)
    assert data.status.values.tolist() == ["ok", "too_many_impacts", "refused"]
    assert "coming to rest" in data.message.values[1] and "a number between 0 and 1" in data.message.values[2]
    assert np.isnan(data.t_end.values[2]) and 0 < data.t_end.values[1] < data.t_end.values[0]


def test_a_sweep_goes_on_where_it_was_stopped(serial, tmp_path, monkeypatch):
    out, computed = tmp_path / "sweep.zarr", []
    real = executors._here

    def stopped(work, tasks, retries, after=3):
        for count, task in enumerate(real(work, tasks, retries)):
            if count == after:
                raise KeyboardInterrupt
            computed.append(task[0])
            yield task

    with monkeypatch.context() as patch:
        patch.setattr(executors, "_here", stopped)
        with pytest.raises(KeyboardInterrupt):
            carom.sweep("particle", GRID, out=out, workers=0, block=4, **OPTIONS)
    part = xr.open_zarr(out, consolidated=False)
    assert int(part.done.sum()) == 12 == int((part.status == "ok").sum()) and int(part.q_end.notnull().sum()) == 24
    part.close()
    with monkeypatch.context() as patch:
        patch.setattr(executors, "_here", lambda *a: stopped(*a, after=99))
        whole = carom.sweep("particle", GRID, out=out, workers=0, block=7, **OPTIONS)  # the blocks of the store stay
    assert sorted(computed) == list(range(6))  # each once
    assert whole.equals(serial[1])
    monkeypatch.setattr(executors, "_here", lambda work, tasks, retries: iter(() if not tasks else 1 / 0))
    assert carom.sweep("particle", GRID, out=out, workers=0, **OPTIONS).equals(serial[1])  # nothing is left to do


def test_processes_compute_the_same_and_survive_a_death(tmp_path, monkeypatch):
    """One pool of two processes; one of them kills itself on the way."""
    monkeypatch.setenv("CAROM_TEST_MEMORY", str(tmp_path / "died"))
    grid = {"gravity": [5.0, 9.81, 20.0, 30.0], "q0.y": [0.5, 1.0]}
    data = carom.sweep("particle", grid, out=tmp_path / "pool.zarr", measure=deadly, workers=2, block=2, **OPTIONS)
    assert (tmp_path / "died").exists()
    alone = carom.sweep("particle", grid, measure=deadly, workers=0, **OPTIONS)
    assert data.equals(alone) and data.done.values.all()


def test_what_cannot_be_computed_is_tried_again_and_then_told(tmp_path):
    grid = {"gravity": [5.0, 9.81, 20.0]}
    with pytest.raises(carom.SweepError, match=r"1 of 3 blocks failed 3 times, the last with RuntimeError: no luck") as caught:
        carom.sweep("particle", grid, out=tmp_path / "s.zarr", measure=hopeless, workers=0, block=1, **OPTIONS)
    assert caught.value.dataset.done.values.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grid": {}}, "nothing to vary"),
        ({}, "a grid or samples"),
        ({"grid": {"gravty": [1.0]}}, "has no 'gravty' to vary; it has mass, gravity"),
        ({"model": "rigid_body", "grid": {"v0.qw": [1.0]}}, "q0.qz, .* v0.wx"),  # a turning rate has no fourth entry
        ({"grid": {"gravity": []}}, "list of numbers"),
        ({"grid": {"gravity": ["heavy"]}}, "list of numbers"),
        ({"grid": {"gravity": [1.0, np.nan]}}, "finite"),
        ({"samples": {"gravity": [1.0], "mass": [1.0, 2.0]}}, "equal lengths"),
        ({"model": "partikel", "grid": {"gravity": [1.0]}}, "there is no model"),
        ({"model": carom.models.particle(), "grid": {"gravity": [1.0]}}, "not called"),
        ({"grid": {"gravity": [1.0, 2.0]}, "out": "sweep.nc"}, "ends in .zarr"),
        ({"grid": {"gravity": [1.0, 2.0]}, "measure": lambda s: {}, "workers": 1}, "importable"),
        ({"grid": {"gravity": [1.0, 2.0]}, "scheduler": "tcp://127.0.0.1:9"}, "no dask scheduler answers"),
    ],
)
def test_bad_input(arguments, message, monkeypatch):
    monkeypatch.setattr("distributed.Client.__init__", _no_scheduler)
    with pytest.raises(carom.InputError, match=message):
        carom.sweep(**{"model": "particle", "workers": 0, **OPTIONS, **arguments})


def _no_scheduler(self, *_, **__):
    raise OSError("Timed out trying to connect")


def test_a_foreign_store_is_refused(serial, tmp_path):
    out, _ = serial
    for changes, word in [({"num_steps": 50}, "options"), ({"method": carom.VariationalCollision(carom.Left())}, "method")]:
        with pytest.raises(carom.InputError, match=f"another sweep: {word} differs"):
            carom.sweep("particle", GRID, out=out, workers=0, **{**OPTIONS, **changes})
    with pytest.raises(carom.InputError, match="another sweep: values differs"):
        carom.sweep("particle", {**GRID, "dt": [0.01, 0.03]}, out=out, workers=0, **OPTIONS)
    with pytest.raises(carom.InputError, match="another sweep: model, values differ"):
        carom.sweep("star", {"gravity": [1.0]}, out=out, workers=0, **OPTIONS)
    (tmp_path / "notes.zarr").mkdir()
    with pytest.raises(carom.InputError, match="not a sweep"):
        carom.sweep("particle", GRID, out=tmp_path / "notes.zarr", workers=0, **OPTIONS)
    with pytest.raises(carom.InputError, match="holds a sweep, not a run"):
        carom.load(out)


@pytest.mark.parametrize("what", ["model", "measure"])
def test_a_store_made_with_other_captured_numbers_is_another_sweep(what, tmp_path):
    """The functions have the same names and the same code."""

    def again(number):
        model = lambda gravity=9.81: carom.models.particle(gravity=gravity, mass=number)  # noqa: E731
        measure = lambda run: {"x": number * run.q[-1, 0]}  # noqa: E731
        own = {"model": model} if what == "model" else {"model": "particle", "measure": measure}
        return carom.sweep(grid={"gravity": [1.0]}, out=tmp_path / "s.zarr", workers=0, **own, **{**OPTIONS, "num_steps": 5})

    first = again(1.0)
    assert again(1.0).equals(first)  # control: it is known again
    with pytest.raises(carom.InputError, match=f"another sweep: {what} differs"):
        again(2.0)


def test_values_by_text():
    assert parse_values("mass=1,2,4") == ("mass", [1, 2, 4]) and isinstance(parse_values("n=3,4")[1][0], int)
    assert parse_values("g=0:1:5") == ("g", [0.0, 0.25, 0.5, 0.75, 1.0])
    for bad in ("g", "g=", "g=1:2", "g=1:2:1", "g=a,b"):
        with pytest.raises(ValueError, match="NAME=a,b,c"):
            parse_values(bad)


def test_from_the_command_line(tmp_path):
    call = lambda *a: CliRunner().invoke(cli.app, ["sweep", "particle", *a, "--rule", "trapezoidal", "--steps", "100"])  # noqa: E731
    arguments = ("--vary", "gravity=5:20:4", "--vary", "mass=1,2", "--out", str(tmp_path / "s.zarr"), "--workers", "0")
    result = call(*arguments)
    assert result.exit_code == 0 and result.stdout.endswith("s.zarr: 8 ok\n"), result.stderr
    assert json.loads(xr.open_zarr(tmp_path / "s.zarr", consolidated=False).attrs["carom"])["kind"] == "sweep"
    for wrong, message in [(("--vary", "gravty=1,2"), "has no 'gravty'"), (("--vary", "gravity"), "NAME=a,b,c")]:
        for where in (("--out", str(tmp_path / "t.zarr")), ()):  # without --out, what is varied is looked at all the same
            result = call(*wrong, *where)
            assert result.exit_code == 2 and message in result.stderr.replace("\n", " ")
    result = call("--vary", "gravity=1,2")
    assert result.exit_code == 2 and "say where the results go: --out particle.zarr" in result.stderr
    result = call("--out", str(tmp_path / "t.zarr"))
    assert result.exit_code == 2 and "there is nothing to vary" in result.stderr


def test_progress_tells_rate_and_time_left(capsys):
    work = [(0, [{}] * 5), (1, [{}] * 5)]
    assert list(executors.run_blocks(len, work, 0, None, 0, 10, True)) == [(0, 5), (1, 5)]
    told = capsys.readouterr().err
    assert "10/10" in told and "/s" in told


# -- in earnest ----------------------------------------------------------------------------------------------------------


def test_on_dask(serial):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        data = carom.sweep("particle", GRID, scheduler=cluster.scheduler_address, block=4, **OPTIONS)
    assert data.equals(serial[1])


@pytest.mark.stress
def test_ten_thousand_points_on_dask_with_a_worker_killed(tmp_path):
    """Two worker processes, one killed midway: complete, and identical to the serial result."""
    distributed = pytest.importorskip("distributed")
    grid = {"gravity": np.linspace(5, 20, 100), "q0.y": np.linspace(0.5, 4, 100)}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim = cluster.workers[0].process.process.pid
        script = f"import os, time; time.sleep(15); os.kill({victim}, 9)"
        killer = subprocess.Popen([sys.executable, "-c", script])
        start = time.monotonic()
        data = carom.sweep("particle", grid, out=tmp_path / "dask.zarr", scheduler=cluster.scheduler_address, **OPTIONS)
        assert time.monotonic() - start > 15 and killer.wait() == 0  # it was killed while the sweep ran
    assert data.done.values.all()
    assert data.equals(carom.sweep("particle", grid, workers=0, **OPTIONS))

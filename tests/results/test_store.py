"""Runs on disk: what is read is what was written, and what is no run is refused with a reason."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import carom
from carom.results import store
from carom.results.solution import Solution

DATA = Path(__file__).parent.parent / "data"
TRAPEZOIDAL = carom.VariationalCollision(carom.Trapezoidal())


@pytest.fixture(scope="module")
def run() -> Solution:
    return carom.models.corner().solve(TRAPEZOIDAL, num_steps=100)


@pytest.fixture
def saved(run, tmp_path) -> Path:
    return run.save(tmp_path / "run.zarr")


def _same(a: Solution, b: Solution) -> None:
    for name in ("t", "q", "p", "v", "energy", "gaps", "smallest_gap", "energy_error"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    for name in ("t", *store.TABLE):
        np.testing.assert_array_equal(getattr(a.impacts, name), getattr(b.impacts, name))
    assert a.impacts.names == b.impacts.names and a.coordinates == b.coordinates
    assert a.film is not None and b.film is not None and a.film.starts == b.film.starts
    np.testing.assert_allclose(a.film.points, b.film.points, rtol=1e-7, atol=1e-7)  # pictures are kept in single precision
    assert a.status == b.status and a.summary() == b.summary()


@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_what_is_read_is_what_was_written(run, tmp_path, suffix):
    again = carom.load(run.save(tmp_path / "deep" / f"run.{suffix}"))
    _same(again, run)
    assert {k: float(v) for k, v in again.params.items()} == {k: float(v) for k, v in run.params.items()}
    assert again.method.order == 2 and again.method.preserves == TRAPEZOIDAL.preserves
    assert str(again.method).startswith("VariationalCollision(rule=Trapezoidal()")
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == [f"run.{suffix}"]  # nothing else is left behind
    _same(carom.load(again.save(tmp_path / f"again.{suffix}")), run)  # a loaded run can be saved


def test_xarray_opens_it_without_carom(run, saved):
    with xr.open_zarr(saved, consolidated=False) as dataset:
        np.testing.assert_array_equal(dataset.q.sel(coordinate="y"), run.q[:, 1])
        assert dataset.impact_impulses.dims == ("impact", "contact") and float(dataset["params.gravity"]) == 9.81


def test_a_loaded_run_says_what_it_lacks_and_can_be_given_it(run, saved):
    with pytest.raises(carom.InputError, match="pass system="):
        carom.diagnostics.penetration(carom.load(saved))
    whole = carom.load(saved, system=run.system, method=TRAPEZOIDAL)
    assert carom.diagnostics.penetration(whole, samples=1) == carom.diagnostics.penetration(run, samples=1)


def test_a_system_that_has_changed_is_not_taken_for_the_one_that_made_a_run(tmp_path):
    """It went on with the new numbers, and did not say so."""
    numbers = {"gravity": 9.81, "floor": 0.0}
    fall = carom.System(lambda q, v: 0.5 * v @ v - numbers["gravity"] * q[0], [carom.Contact(lambda q: q[0] - numbers["floor"])])
    ends = {"system": fall, "method": TRAPEZOIDAL}
    whole = carom.solve(fall, TRAPEZOIDAL, [1.0], [0.0], dt=0.01, num_steps=20)
    path = carom.solve(fall, TRAPEZOIDAL, [1.0], [0.0], dt=0.01, num_steps=10).save(tmp_path / "run.zarr")
    np.testing.assert_array_equal(carom.load(path, **ends).extend(10).q, whole.q)  # control: unchanged, it is taken
    for name, value, what in (("gravity", 1.62, "energy"), ("floor", -1.0, "gaps")):
        before, numbers[name] = numbers[name], value
        with pytest.raises(carom.InputError, match=f"another system: its {what}"):
            carom.load(path, **ends)
        numbers[name] = before


def test_runs_without_contacts_and_with_trees_of_parameters(tmp_path):
    def lagrangian(q, v, params):
        return 0.5 * params["masses"][0] * v @ v - 0.5 * params["spring"]["k"][0] * q @ q

    tree = {"masses": [2.0, np.eye(2)], "spring": {"k": (1.0,)}}
    system = carom.System(lagrangian)
    run = carom.solve(system, carom.Variational(carom.Left()), [1.0], [0.0], dt=0.1, num_steps=9, params=tree, stride=2)
    again = carom.load(run.save(tmp_path / "run.zarr"))
    assert len(again.impacts) == 0 and again.smallest_gap is None and again.gaps.shape == (5, 0) and again.num_steps == 9
    assert isinstance(again.params["masses"], list) and isinstance(again.params["spring"]["k"], tuple)
    np.testing.assert_array_equal(again.params["masses"][1], np.eye(2))
    np.testing.assert_array_equal(again.energy, run.energy)


def test_saving_replaces_runs_but_nothing_else(run, saved, tmp_path):
    carom.models.corner().solve(TRAPEZOIDAL, num_steps=50).save(saved)
    assert carom.load(saved).num_steps == 50
    (tmp_path / "thesis.zarr").mkdir()
    (tmp_path / "thesis.zarr" / "chapter1.tex").write_text("years of work")
    with pytest.raises(carom.InputError, match="not a carom run"):
        run.save(tmp_path / "thesis.zarr")
    assert (tmp_path / "thesis.zarr" / "chapter1.tex").read_text() == "years of work"
    with pytest.raises(carom.InputError, match=r"\*\.zarr or \*\.nc"):
        run.save(tmp_path / "run.csv")


def test_a_failed_write_leaves_the_old_run(run, saved, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_write", full)
    with pytest.raises(OSError, match="No space"):
        run.save(saved)
    _same(carom.load(saved), run)
    assert [p.name for p in saved.parent.iterdir()] == ["run.zarr"]


# -- old and new formats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["run-v1.nc", "run-v1.zarr.zip"])
def test_runs_of_format_1_open(run, file, tmp_path):
    path = DATA / file
    if file.endswith(".zip"):
        zipfile.ZipFile(path).extractall(tmp_path)
        path = tmp_path / "run-v1.zarr"
    old = carom.load(path)
    np.testing.assert_allclose(old.q, run.q, rtol=0, atol=1e-12)  # another machine may round otherwise
    np.testing.assert_allclose(old.impacts.t, run.impacts.t, rtol=0, atol=1e-12)
    assert old.status.ok and old.method.order == 2 and float(old.params["gravity"]) == 9.81
    assert old.film is None and store.header(path)["format"] == 2  # format 1 had no picture


def _edit_header(path: Path, **changes) -> None:
    root = json.loads((path / "zarr.json").read_text())
    root["attributes"]["carom"] = json.dumps({**json.loads(root["attributes"]["carom"]), **changes})
    (path / "zarr.json").write_text(json.dumps(root))


def test_runs_of_a_later_format_ask_for_a_later_carom(saved):
    _edit_header(saved, format=99, versions={"carom": "7.0"})
    with pytest.raises(carom.InputError, match=r"format 99 by carom 7\.0.*install a newer"):
        carom.load(saved)


# -- what is no run ------------------------------------------------------------------------------------------------------


def test_what_is_not_a_run_is_said_to_be_none(saved, tmp_path):
    cases = {
        "missing.zarr": "there is no",
        "notes.txt": "not a carom run: those are called",
        "text.zarr": "cannot be opened as zarr",
        "text.nc": "cannot be opened as nc",
        "empty.zarr": "cannot be opened as zarr",
        "weather.zarr": "no carom header",
        "sweep.zarr": "holds a sweep",
    }
    for name in ("notes.txt", "text.zarr", "text.nc"):
        (tmp_path / name).write_text("hello")
    (tmp_path / "empty.zarr").mkdir()
    xr.Dataset({"rain": ("day", [1.0, 2.0])}).to_zarr(tmp_path / "weather.zarr", consolidated=False)
    shutil.copytree(saved, tmp_path / "sweep.zarr")
    _edit_header(tmp_path / "sweep.zarr", kind="sweep")
    for name, message in cases.items():
        with pytest.raises(carom.InputError, match=message):
            carom.load(tmp_path / name)


def test_damage_is_found(saved, tmp_path):
    """zarr reads a missing chunk as zeros, without a word: the checksums tell."""
    for damage in ("lost", "flipped", "without"):
        path = tmp_path / f"{damage}.zarr"
        shutil.copytree(saved, path)
        chunk = next(p for p in (path / "q").rglob("*") if p.is_file() and p.name != "zarr.json")
        if damage == "lost":
            chunk.unlink()
        elif damage == "flipped":
            data = bytearray(chunk.read_bytes())
            data[-3] ^= 1
            chunk.write_bytes(data)
        else:
            shutil.rmtree(path / "q")
        with pytest.raises(carom.InputError, match="damaged.*q" if damage != "flipped" else "damaged"):
            carom.load(path)

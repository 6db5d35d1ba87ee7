"""What one does with the run of a world: save it, go on with it, survive a crash, read its tables, look at its report and film."""

import json
import re

import numpy as np
import pytest

import carom
from carom.bodies import march as loop
from carom.bodies import shapes, world_checkpoint
from carom.bodies.run import WorldRun
from carom.bodies.world import World

ARRAYS = ("t", "steps", "x", "q", "v", "L", "energy", "residual", "deepest")


def _world(friction=0.4):
    world = World(gravity=(0, -9.81))
    world.fix(shapes.HalfPlane(), name="floor")
    world.add(shapes.Polygon.box(0.2, 0.1), density=10, position=(0, 0.08), orientation=0.2, velocity=(1, 0), name="box")
    world.material(friction=friction, restitution=0.2)
    return world


def _same(a, b):
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ARRAYS)
    assert np.array_equal(a.stages, b.stages) and a.status == b.status
    assert all(
        np.array_equal(getattr(a.contacts, name), getattr(b.contacts, name)) for name in ("t", "a", "point", "impulse", "state")
    )


@pytest.fixture(scope="module")
def run():
    return _world().solve(5e-3, 40)


@pytest.mark.parametrize("name", ["box.zarr", "box.nc", "box.npz"])
def test_a_run_is_saved_and_loaded_to_the_bit(run, tmp_path, name):
    assert run.save(tmp_path / name) == tmp_path / name
    again = carom.load(tmp_path / name)
    assert isinstance(again, WorldRun) and again.scene is None
    _same(run, again)
    assert np.array_equal(run.film.points, again.film.points) and [p.name for p in again.film.parts] == ["floor", "box"]
    longer = again.extend(10, world=_world())
    _same(longer, _world().solve(5e-3, 50))
    with pytest.raises(carom.InputError, match="pass world="):
        again.extend(10)


def test_the_axis_of_time_of_a_report_has_its_name(run, tmp_path):
    page = run.report(tmp_path / "run.html").read_text()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["time"] == "time"  # without it the page said "undefined"


def test_what_is_damaged_or_something_else_is_refused(run, tmp_path):
    run.save(tmp_path / "box.zarr")
    with pytest.raises(carom.InputError, match="saved as"):
        run.save(tmp_path / "box.txt")
    chunk = next(file for file in (tmp_path / "box.zarr" / "x").rglob("*") if file.is_file() and file.name != "zarr.json")
    chunk.unlink()
    with pytest.raises(carom.InputError, match="damaged: x"):
        carom.load(tmp_path / "box.zarr")
    with pytest.raises(carom.InputError, match="there is no"):
        WorldRun.load(tmp_path / "none.npz")
    (tmp_path / "other.zarr").mkdir()
    (tmp_path / "other.zarr" / "notes").write_text("mine")
    with pytest.raises(carom.InputError, match="not a carom run"):
        run.save(tmp_path / "other.zarr")


def test_a_run_goes_on_as_if_it_had_been_longer(run):
    _same(run.extend(25), _world().solve(5e-3, 65))


def test_control_a_run_that_forgets_goes_on_otherwise(run):
    state = loop.last_state(run)
    rest = loop.march(run.scene, state, run.dt, 65, run.settings, False, 40, memory=None)
    whole = _world().solve(5e-3, 65)
    assert not np.array_equal(rest.contacts.impulse[-1], whole.contacts.impulse[-1]) or not np.array_equal(rest.x[-1], whole.x[-1])


def test_a_run_that_was_killed_ends_like_one_that_was_not(tmp_path, monkeypatch):
    whole = _world().solve(5e-3, 40, checkpoint=tmp_path / "whole.zarr", every=10)
    taken = []

    def dies(*arguments):
        if len(taken) == 2:
            raise MemoryError("killed")
        taken.append(1)
        return loop.march(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(world_checkpoint, "march", dies)
        with pytest.raises(MemoryError):
            _world().solve(5e-3, 40, checkpoint=tmp_path / "killed.zarr", every=10)
    assert len(list((tmp_path / "killed.zarr.parts").glob("part-*.npz"))) == 2 and not (tmp_path / "killed.zarr").exists()
    with pytest.raises(carom.InputError, match="another run: world"):
        _world(friction=0.5).solve(5e-3, 40, checkpoint=tmp_path / "killed.zarr", every=10)
    _same(_world().solve(5e-3, 40, checkpoint=tmp_path / "killed.zarr", every=10), whole)
    assert not (tmp_path / "killed.zarr.parts").exists()
    _same(_world().solve(5e-3, 40, checkpoint=tmp_path / "killed.zarr", every=10), whole)  # is there: read, not run
    with pytest.raises(carom.InputError, match="another run: num_steps"):
        _world().solve(5e-3, 41, checkpoint=tmp_path / "killed.zarr", every=10)


def test_functions_tell_worlds_apart():
    def push(strength):
        return lambda t: (strength * t, 0.0)

    def asked(strength):
        world = _world()
        world.force("box", push(strength))
        return world_checkpoint.digest(world.scene()[0])

    assert asked(1.0) == asked(1.0) != asked(2.0)


def test_contacts_and_runs_are_labelled_tables(run):
    table = run.contacts.to_pandas()
    assert len(table) == len(run.contacts) and set(table.a) == {"floor"} and set(table.b) == {"box"}
    assert np.array_equal(table["impulse.y"], run.contacts.impulse[:, 1])
    labelled = run.to_xarray()
    assert all(array.dtype.kind != "U" for array in labelled.variables.values())  # zarr has no lasting format for such texts
    assert np.array_equal(labelled.position.sel(body="box").values, run.body("box").position)
    assert labelled.sizes["step"] == 40 and np.array_equal(run.contacts.to_xarray().impulse.values, run.contacts.impulse)
    assert len(run.contacts.between("box", "floor")) == len(run.contacts) == len(run.contacts.of("box"))
    assert len(run.impacts) == run.contacts.impact.sum() > 0
    with pytest.raises(carom.InputError, match="no body 'cat'"):
        run.contacts.of("cat")


def test_arrows_are_the_forces_of_the_contacts():
    world = World()
    world.fix(shapes.HalfSpace())
    world.add(shapes.Sphere(0.1), mass=2, position=(0, 0, 0.1), name="ball")
    run = world.solve(1e-2, 5)
    arrows = run.film.arrows
    start, end = arrows.of(3)
    assert np.allclose(start, [[0, 0, 0]]) and np.allclose((end - start)[:, :2], 0) and end[0, 2] > 0.01
    assert len(arrows.of(0)[0]) == 0  # no step ends at the start
    point, normal = run.film.floor
    assert np.array_equal(normal, [0, 0, 1]) and point[2] == 0


def test_the_report_tells_the_run(run, tmp_path):
    page = run.report(tmp_path / "box.html", "<a box>").read_text()
    assert "&lt;a box&gt;" in page and "<a box>" not in page and "1 body · 40 steps" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert [panel["title"] for panel in data["panels"]] == ["energy", "y", "speed", "contacts", "log₁₀ E", "depth"]
    assert data["film"]["arrows"] is not None and data["impacts"]["names"] == ["floor – box"]
    assert {part.get("name") for part in data["film"]["parts"]} == {"box"}


def test_a_film_follows_a_body(run, tmp_path):
    movie = run.animate(tmp_path / "box.gif", start=0.0, stop=0.02, follow="box")
    low, high = movie._fig.axes[0].get_xlim()
    assert low < run.body("box").position[4, 0] < high and high - low < 4.1 * 0.25
    with pytest.raises(carom.InputError, match="no body 'cat' to follow"):
        run.animate(follow="cat")


def test_a_run_is_shown_as_a_sentence():
    """All its arrays would be some ten thousand letters."""
    world = carom.World(gravity=(0, -9.81))
    world.add(carom.shapes.Disc(0.1), density=1, position=(0, 1))
    assert repr(world.solve(0.01, 50)).startswith("1 body, 50 steps, 0 contacts: all 50 steps were taken")

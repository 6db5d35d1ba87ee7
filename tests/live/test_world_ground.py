"""Worlds that play, without a page: they run as `solve` does, go on with other numbers, take bodies, feel a hand; and once more."""

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from watcher import watch

import carom
from carom.bodies.assemble import refuse_overlaps
from carom.bodies.scene import accelerations
from carom.live.knobs import SUITS
from carom.live.player import natural_speed
from carom.live.take import HAND
from carom.live.viewing import standing
from carom.live.world_footage import of_world
from carom.live.world_ground import WorldGround
from carom.live.world_parts import Addition
from carom.live.world_take import Pull
from carom.models.world_model import WorldModel

G = 9.81


def one_ball(speed: float = 1.0, restitution: float = 0.0) -> WorldModel:
    """A ball high above a floor, thrown sideways."""
    world = carom.World(gravity=(0, 0, -G))
    world.fix(carom.shapes.HalfSpace(), name="floor")
    world.add(carom.shapes.Sphere(0.1), density=1000, position=(0, 0, 1.0), velocity=(speed, 0, 0), name="ball")
    world.material(friction=0.3, restitution=restitution)
    return WorldModel("one_ball", "a ball", world, 1e-2, 400)


def tumbling(friction: float = 0.4) -> WorldModel:
    """Two squares of the plane that meet and come to rest."""
    world = carom.World(gravity=(0, -G))
    world.fix(carom.shapes.HalfPlane(), name="floor")
    for i in range(2):
        box = carom.shapes.Polygon.box(0.2, 0.2)
        world.add(box, density=100, position=(0.12 * i, 0.2 + 0.3 * i), orientation=0.3, spin=2.0, name=f"box {i}")
    world.material(friction, 0.2)
    return WorldModel("tumbling", "two boxes", world, np.float64(1e-2), 200)  # as a scene has it whose step follows from sizes


@pytest.fixture
def ground() -> WorldGround:
    return WorldGround("one_ball", one_ball)


# -- pictures ------------------------------------------------------------------------------------------------------------


def test_free_bodies_are_numbered_and_scenery_is_not():
    footage = of_world(tumbling().solve(num_steps=20))
    assert footage.bodies == ("box 0", "box 1") and footage.name == "tumbling"
    run = tumbling().solve(num_steps=20)
    for body, name in enumerate(footage.bodies):
        x, y = run.body(name).center[-1]
        assert np.allclose(footage.centre(body, float(run.t[-1])), [x, 0, y], atol=1e-12)  # the same numbers, in another order


def test_curves_of_energy_depth_and_momentum():
    """The depth at a kept state is the largest since the one before."""
    run = tumbling().solve(num_steps=60, save_every=7)
    run = replace(run, deepest=-1e-6 * np.random.default_rng(0).random(60))  # its own is zero: nothing enters anything there
    energy, depth, momentum = of_world(run).curves
    ends = [0, *run.steps[1:]]
    since = [0.0, *(max(0.0, *-run.deepest[a:b]) for a, b in pairwise(ends))]
    assert np.array_equal(depth.lines["depth"], since) and max(since) > 0 and len(depth.t) == len(energy.t) == len(momentum.t)


def test_what_is_computed_in_parts_has_the_curves_of_the_whole():
    """The depth was zero wherever a part began: nobody knows there how deep contacts were in the step before."""
    run = tumbling().solve(num_steps=60)
    run = replace(run, deepest=-1e-6 * (1.0 + np.random.default_rng(0).random(60)))
    whole, k = of_world(run), 25
    late = of_world(run).since(k)
    late = replace(late, curves=tuple(replace(c, lines={n: np.r_[0.0, y[1:]] for n, y in c.lines.items()}) for c in late.curves))
    assert late.curves[1].lines["depth"][0] == 0.0 < whole.curves[1].lines["depth"][k]  # control
    joined = whole.until(float(run.t[k])).followed_by(late)
    for a, b in zip(joined.curves, whole.curves, strict=True):
        assert np.array_equal(a.t, b.t) and all(np.array_equal(a.lines[n], b.lines[n]) for n in b.lines)


def test_bodies_that_slide_down_each_other_meet_once():
    """A domino strikes the one that it leans on in every step: the next impact was the next step."""
    row = lambda: carom.models.dominoes(count=4)  # noqa: E731
    ground = WorldGround("dominoes", row)
    watch(ground, 1.6, each=0.05)
    seen, run = ground.player.footage, ground.takes[0].whole()
    whole = of_world(run)
    assert run.steps[-1] > 120 and seen.hit_names == whole.hit_names
    assert np.allclose(seen.hits, whole.hits, rtol=0, atol=1e-12)  # the end of a part, however long it is, is rounded otherwise
    struck = ["domino 1 – domino 2", "domino 2 – domino 3", "domino 3 – domino 4"]
    first = {name: t for t, name in reversed(list(zip(whole.hits, whole.hit_names, strict=True)))}
    assert list(dict.fromkeys(n for n in whole.hit_names if "table" not in n)) == struck  # one after the other
    c = run.contacts
    for i, name in enumerate(struck):
        pressed = np.any(c.impulse != 0, axis=1) & (np.minimum(c.a, c.b) == 1 + i) & (np.maximum(c.a, c.b) == 2 + i)
        assert first[name] == pytest.approx(c.t[pressed][0], abs=1e-12)  # the same
    parts = [of_world(part) for part in ground.takes[0].runs]
    assert len(whole.hits) < 30 < len(run.impacts) and sum(len(part.hits) for part in parts) > 2 * len(whole.hits)  # controls


def test_a_ball_that_bounces_meets_the_floor_each_time():
    """As often as it falls on it; at first it is 0.9 above the floor, and each bounce takes half as long as the one before."""
    run = one_ball(0.0, restitution=0.5).solve(num_steps=120)
    fall = np.sqrt(2 * 0.9 / G)
    bounces = fall + 2 * fall * (1 - 0.5 ** np.arange(3))
    hits = of_world(run).hits
    assert len(hits) == 3 and np.all(np.abs(hits - bounces) < 3 * run.dt)  # impacts fall on steps, one after the other


def test_a_round_body_is_painted_all_over_and_once():
    footage = of_world(standing(one_ball().world))
    halves = [s for s in footage.solids if s.body == 0]
    whole = {tuple(t) for s in halves for t in s.triangles}
    assert len(halves) == 2 and len(whole) == sum(len(s.triangles) for s in halves) and halves[0].shade != halves[1].shade
    assert abs(len(halves[0].triangles) - len(halves[1].triangles)) <= 0.05 * len(whole)  # eighths, up to slivers at the poles


def test_strings_are_lines_that_keep_their_length():
    model = carom.models.newtons_cradle(balls=2)
    run = model.solve(num_steps=60)
    footage = of_world(run)
    lengths = [np.linalg.norm(np.diff(piece.points, axis=1)[:, 0], axis=1) for piece in footage.loose]
    assert len(lengths) == len(model.world.joints) > 0
    for length, joint in zip(lengths, model.world.joints, strict=True):
        assert np.allclose(length, np.linalg.norm(np.subtract(*joint.at)), rtol=1e-6)  # what a distance joint drifts by in 60 steps


def test_a_world_can_be_looked_at_before_it_runs():
    footage = of_world(standing(tumbling().world))
    assert len(footage.t) == 1 and footage.ok and len(footage.bodies) == 2


# -- playing -------------------------------------------------------------------------------------------------------------


def test_it_is_the_run_that_solve_makes():
    """Bit by bit: stretches go on from the memory of the last step."""
    ground = WorldGround("tumbling", tumbling)
    watch(ground, 1.0, each=0.05)
    run = ground.takes[0].whole()
    exact = tumbling().solve(num_steps=run.num_steps)
    rows = np.isin(exact.steps, run.steps)
    assert run.num_steps >= 50 and np.array_equal(exact.x[rows], run.x) and np.array_equal(exact.q[rows], run.q)
    assert len(ground.takes[0].story) == 1  # nothing was done to it


def test_gravity_changes_the_motion_from_now_on(ground):
    watch(ground, 0.2, each=0.05)
    t = ground.player.now
    ground.turn("gravity", 0.0)
    take = ground.takes[0]
    start = take.runs[-1]
    since = start.t[-1] - start.t[0]
    assert abs(start.t[0] - t) <= 2 * take.dt and since > 0
    x, v = (getattr(start, name)[0, 1] for name in "xv")
    assert np.allclose(start.x[-1, 1], x + since * v, atol=1e-12)  # straight on: rounding of some steps
    assert v[2] == pytest.approx(-G * start.t[0], rel=1e-9) and not ground.message
    assert 0.5 * G * since**2 > 1e-3  # control: with gravity it would be elsewhere


def test_what_says_how_it_starts_starts_it_anew_and_what_cannot_be_is_refused(ground):
    watch(ground, 0.2, each=0.05)
    ground.turn("speed", 3.0)
    assert ground.player.now == 0.0 and ground.takes[0].runs[0].v[0, 1, 0] == 3.0
    ground.turn("restitution", 2.0)
    assert "restitution" in ground.message and ground.values["restitution"] == 0.0
    watch(ground, 0.1, each=0.05)
    ground.turn("friction", 0.9)
    assert not ground.message and ground.player.now > 0 and ground.takes[0].scene.materials.table[0, 0, 0] == 0.9


def test_a_hand_holds_a_body_where_it_is(ground):
    """A spring of the frequency ω in gravity g sags by g/ω², whatever the mass."""
    watch(ground, 0.1, each=0.05)
    target = ground.player.footage.centre(0, ground.player.now) + np.array([0.3, 0.0, 0.4])
    ground.player.play(True)
    take = ground.takes[0]
    for _ in range(90):
        ground.player.tick(1 / 30)
        ground.pull(0, take.state.x[1], target)
        ground.work()
    held = take.state.x[1]
    assert np.allclose(held, target - [0, 0, G / HAND**2], atol=1e-5)  # three seconds are 27/ω: e⁻²⁷ (1 + 27) and rounding
    ground.pull(0, None, None)
    watch(ground, 0.3, each=0.05)
    assert ground.player.footage.centre(0, ground.player.now)[2] < held[2] - 0.1  # let go, it falls


@pytest.mark.parametrize("make", [one_ball, tumbling])
def test_any_point_of_a_body_answers_to_a_hand_alike(make):
    """The acceleration of the held point is ω² (target − point) − 2ω v, wherever it lies on the body: M a = Jᵀ f."""
    scene, state = make().world.scene()
    flat = scene.dim == 2
    take_at = np.array([0.03, -0.05, 0.0 if flat else 0.02])
    pull = Pull(1, tuple(take_at), (1.0, 2.0, 0.0 if flat else 3.0), 7.0)
    force, torque = accelerations(replace(scene, forces=(pull.force(scene),), gravity=np.zeros(3)), state, 0.0)
    R, omega = state.R[1], state.spin(scene)[1]
    arm = R @ take_at
    turning = R @ scene.inverse_inertia[1] @ R.T @ torque[1]
    found = force[1] * scene.inverse_mass[1] + np.cross(turning, arm)
    speed = state.v[1] + np.cross(omega, arm)
    wanted = 49.0 * (np.array(pull.target) - state.x[1] - arm) - 14.0 * speed
    assert np.allclose(found, wanted, rtol=1e-9) and np.linalg.norm(arm) > 0.05
    assert not np.allclose(force[1] * scene.inverse_mass[1], wanted, rtol=1e-2)  # control: the mass alone is not what answers


def test_a_body_is_added_and_what_overlaps_is_refused():
    ground = WorldGround("tumbling", tumbling)
    watch(ground, 0.2, each=0.05)
    now = ground.player.now
    ground.add_body("disc")
    take = ground.takes[0]
    assert not ground.message and ground.player.footage.bodies == ("box 0", "box 1", "added 1")
    assert take.runs[-1].t[0] == pytest.approx(now, abs=2 * take.dt) and len(take.scene.names) == 4
    high = take.runs[-1].x[0, 3, 1]
    watch(ground, 0.3, each=0.05)
    assert take.state.x[3, 1] < high - 0.1  # it falls
    with pytest.raises(carom.InputError, match="overlap"):
        take.add(type(take.added[0])("added 2", "disc", 0.1, 100.0, tuple(take.state.x[3, :2])))
    assert len(take.scene.names) == 4 and len(take.model.world.bodies) == 4  # as before
    ground.restart()
    assert ground.player.footage.bodies == ("box 0", "box 1") and ground.player.now == 0.0


def test_what_was_played_is_computed_again_bit_by_bit(monkeypatch, tmp_path, capsys):
    """A knob, a body, a hand: the script does it all again."""
    monkeypatch.setattr(carom.models, "tumbling", tumbling, raising=False)
    ground = WorldGround("tumbling", tumbling)
    ground.player.speed = 0.2  # less is computed in advance, and thrown away
    watch(ground, 0.8, each=0.05)
    ground.turn("gravity", 4.0)
    watch(ground, 0.4, each=0.05)
    ground.add_body("square", 0.05)
    watch(ground, 0.4, each=0.05)
    centre = ground.player.footage.centre(0, ground.player.now)
    ground.pull(0, centre, centre + np.array([0.2, 0, 0.3]))
    for _ in range(5):
        ground.player.tick(1 / 30)
        ground.work()
    ground.pull(0, None, None)
    watch(ground, 0.4, each=0.05)
    take = ground.takes[0]
    space: dict = {}
    exec(compile(ground.script(), "script.py", "exec"), space)
    again = space["runs"][-1]
    assert np.array_equal(again.x[-1], take.state.x) and np.array_equal(again.v[-1], take.state.v)
    assert len(take.story) >= 4 and any(s.pull for s in take.story) and "added 1" in again.names
    saved = carom.load(ground.save(tmp_path / "played.zarr"))
    assert np.array_equal(saved.x[-1], take.state.x) and saved.names == again.names
    assert "x =" in capsys.readouterr().out


def test_two_steps_side_by_side():
    ground = WorldGround("one_ball", one_ball)
    ground.choose(other="half of dt")
    watch(ground, 0.3, each=0.05)
    one, two = ground.takes
    assert two.dt == one.dt / 2 and ground.methods[SUITS] == 1.0 and len(ground.players) == 2
    fallen = [1.0 - player.footage.centre(0, player.now)[2] for player in ground.players]
    for player, way in zip(ground.players, fallen, strict=True):
        assert way == pytest.approx(0.5 * G * player.now**2, abs=1e-3)  # a chord between two frames of the parabola


def test_a_world_of_ones_own_stays_as_it_is_and_a_failure_is_shown():
    world = copy.deepcopy(one_ball().world)
    world.force("ball", lambda t: [np.nan if t > 1.0 else 0.0, 0, 0])
    ground = WorldGround.of(world, dt=0.01)
    ground.player.speed = 5.0
    watch(ground, 0.5, each=0.05)
    take = ground.takes[0]
    assert take.failed and not ground.player.footage.ok and "'ball' became infinite" in ground.player.footage.message
    assert ground.script() is None and len(world.bodies) == 2
    ground.restart()
    assert not ground.takes[0].failed and ground.player.footage.ok


def test_hours_of_play_do_not_fill_the_memory():
    ground = WorldGround("one_ball", one_ball)
    footage = ground.takes[0].footage
    long = footage
    for k in range(1, 40):
        later = replace(footage, t=footage.t + k, curves=tuple(replace(c, t=c.t + k) for c in footage.curves))
        long = long.recent(40 * footage.numbers).followed_by(later)
    assert len(long.t) <= 80 + len(footage.t) and long.t[-1] == footage.t[-1] + 39
    assert len(long.curves[0].t) == len(long.t) and len(long.solids[0].places) == len(long.t)


@pytest.mark.parametrize("name", carom.models.SCENES)
def test_every_scene_has_knobs_and_a_first_look(name):
    model = carom.models.SCENES[name]()
    footage = of_world(standing(model.world))
    low, high = footage.box()
    assert len(footage.bodies) == int(np.sum(model.world.scene()[0].free)) and np.all(np.isfinite([low, high]))
    assert natural_speed(model.dt * model.num_steps) > 0


def test_a_body_is_added_to_others_that_are_in_contact():
    """Bodies that push one another are in one another by a hair, which a world refuses at its start: only the new one is asked."""
    ground = WorldGround("tumbling", tumbling)
    take = ground.takes[0]
    boxes = take.state.x[1:3]
    boxes[1] = boxes[0] + [0.15, 0.0, 0.0]  # as wide as three quarters of a box
    with pytest.raises(carom.InputError, match="'box 0' and 'box 1'"):
        refuse_overlaps(take.scene, take.state)
    ground.player.scrub(ground.player.end)
    take.add(Addition("added 1", "disc", 0.05, 100.0, (0.0, 3.0)))
    assert take.scene.names[-1] == "added 1"
    with pytest.raises(carom.InputError, match="'added 1' and 'added 2'"):
        take.add(Addition("added 2", "disc", 0.05, 100.0, (0.0, 3.01)))

"""Footage and player without a page: what is shown at a time is where the bodies are, and hands move time as they should."""

from dataclasses import replace

import numpy as np
import pytest

import carom
from carom.drawing import film, line, mesh
from carom.live.footage import Curves, Footage, of_solution, pieces
from carom.live.pacing import EARLY, LATE, Pace, next_beat
from carom.live.player import SPEEDS, Player
from carom.live.rigid_fit import ears, fit, outward, prism, quaternions_of, wheel
from carom.live.viewing import standing
from carom.live.world_footage import of_world


@pytest.fixture(scope="module")
def star():
    return carom.models.star().solve(num_steps=600)


@pytest.fixture(scope="module")
def footage(star) -> Footage:
    return of_solution(star)


def _turned(q: np.ndarray, points: np.ndarray) -> np.ndarray:
    """R(q) points, written out from the quaternion itself."""
    w, v = q[0], q[1:]
    return points + 2 * np.cross(v, np.cross(v, points) + w * points)


# -- footage -------------------------------------------------------------------------------------------------------------


def test_a_body_is_where_its_film_has_it(star, footage):
    """Every frame: the outline carried by place and turn is the film's outline, to the rounding of the fit."""
    reel, solid = star.film, footage.solids[0]
    assert solid.outline is not None and len(footage.t) == len(reel.t)
    for k in range(0, len(reel.t), 37):
        x, y = reel.part(k, 0).T
        place, turn = footage.pose(solid, float(reel.t[k]))
        seen = _turned(turn, solid.outline) + place
        assert np.allclose(seen, np.stack([x, 0 * x, y], axis=1), atol=1e-9)  # a fit of eight points of size 1


def test_control_a_body_that_bends_is_not_stiff():
    t = np.linspace(0, 1, 5)
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0.0]])
    bends = film(lambda q: [line(square * [1, 1 + 1e-3 * q[0]])], t, t[:, None], None)
    turns = film(lambda q: [line(square @ [[np.cos(q[0]), -np.sin(q[0])], [np.sin(q[0]), np.cos(q[0])]])], t, t[:, None], None)
    assert [len(found) for found in pieces(bends)] == [0, 1] and [len(found) for found in pieces(turns)] == [1, 0]


def test_rotations_are_found_in_space_and_mirrors_are_not():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(6, 3))
    points -= points.mean(axis=0)
    axis, angle = np.array([1.0, 2.0, -2.0]) / 3, 2.2
    q = np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)])
    found = fit(points, np.stack([points, _turned(q, points) + np.array([1, 2, 3])]))
    assert found is not None and np.allclose(found[0], [[0, 0, 0], [1, 2, 3]]) and np.isclose(abs(found[1][1] @ q), 1)
    assert fit(points, np.stack([points, points * [1, 1, -1]])) is None  # a mirror image is no turn


def test_turns_can_be_interpolated():
    """Quaternions q and −q are the same turn: neighbours are on the same side, also over several full turns."""
    angle = np.linspace(0, 20, 200)
    turns = np.array([[[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]] for a in angle])
    q = quaternions_of(turns)
    assert np.min(np.sum(q[1:] * q[:-1], axis=1)) > 0.99  # cos of half a step of 0.1


def test_a_prism_is_closed_and_has_its_volume():
    """The star is not convex: ears, not fans. The volume is the area times twice the depth (divergence theorem)."""
    angle = np.arange(8) * np.pi / 4
    radius = np.where(np.arange(8) % 2, 0.3, 1.0)
    ring = np.stack([radius * np.cos(angle), 0 * angle, radius * np.sin(angle)], axis=1)
    vertices, triangles = prism(np.concatenate([ring, ring[:1]]), 0.25)
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    volume = np.sum(a * np.cross(b, c)) / 6
    x, z = ring[:, 0], ring[:, 2]
    area = 0.5 * np.sum(x * np.roll(z, -1) - np.roll(x, -1) * z)
    assert volume == pytest.approx(2 * 0.25 * area, rel=1e-12)  # positive: all faces look outwards
    edges = [tuple(sorted(e)) for t in triangles for e in ((t[0], t[1]), (t[1], t[2]), (t[2], t[0]))]
    assert all(edges.count(e) == 2 for e in set(edges))  # every edge between two faces
    flat = np.array([[0, 0], [4, 0], [4, 4], [2, 1], [0, 4.0]])
    cut = ears(flat)
    areas = [0.5 * float(np.linalg.det(np.c_[flat[t], np.ones(3)])) for t in cut]
    assert len(cut) == 3 and min(areas) > 0 and sum(areas) == pytest.approx(10.0)


def test_a_closed_surface_is_known_and_turned_outwards():
    """Only then its far side is left out: a bowl, a sheet and a body with a hole are seen from both sides."""
    ring = np.array([[np.cos(a), 0, np.sin(a)] for a in np.linspace(0, 2 * np.pi, 13)])
    vertices, triangles = wheel(ring, np.zeros(3), 0.2)
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    assert np.sum(a * np.cross(b, c)) / 6 == pytest.approx(0.4 * 3.0, rel=1e-12)  # a regular 12-gon has the area 3
    assert np.array_equal(outward(vertices, triangles), triangles)
    assert np.array_equal(outward(vertices, triangles[:, ::-1]), triangles)  # it was inside out
    assert outward(vertices, triangles[1:]) is None
    globe = of_world(standing(_ball())).solids
    assert all(solid.closed for solid in globe if solid.body == 0) and not any(solid.closed for solid in globe if solid.body < 0)


def _ball() -> carom.World:
    world = carom.World()
    world.fix(carom.shapes.HalfSpace())
    world.add(carom.shapes.Sphere(1.0), mass=1.0, position=(0, 0, 2))
    return world


def test_a_world_is_where_its_run_has_it():
    world = carom.World(gravity=(0, 0, -9.81))
    world.fix(carom.shapes.HalfSpace())
    world.add(carom.shapes.Box(0.2, 0.1, 0.1), density=1000, position=(0, 0, 0.3), spin=(3, 1, 2), velocity=(1, 0, 0), name="box")
    world.material(friction=0.3, restitution=0.2)
    run = world.solve(dt=2e-3, num_steps=150)
    footage = of_world(run)
    solid = next(s for s in footage.solids if s.name == "box")
    reel = world.film(run)
    box = next(i for i, part in enumerate(reel.parts) if not part.fixed)
    for k in (0, len(reel.t) // 2, len(reel.t) - 1):
        place, turn = footage.pose(solid, float(reel.t[k]))
        assert np.allclose(_turned(turn, solid.vertices) + place, reel.part(k, box), atol=1e-9)
    assert len(footage.forces.t) and len(footage.hits) and footage.bodies == ("box",)
    pushes = footage.forces.ends - footage.forces.points
    assert np.all(pushes[:, 2] > 0)  # a floor pushes upwards


def test_footage_cut_and_joined_is_the_same(footage):
    k, m = 300, int(np.searchsorted(footage.hits, footage.t[300], side="right"))
    first, n = footage.until(float(footage.t[k])), [int(np.searchsorted(c.t, footage.t[k], side="right")) for c in footage.curves]
    rest = replace(
        footage,
        t=footage.t[k:],
        solids=tuple(replace(s, places=s.places[k:], turns=-s.turns[k:]) for s in footage.solids),  # −q is the same turn
        curves=tuple(
            Curves(c.title, c.t[a:], {x: y[a:] for x, y in c.lines.items()}) for c, a in zip(footage.curves, n, strict=True)
        ),
        hits=footage.hits[m:],
        hit_names=footage.hit_names[m:],
    )
    whole = first.followed_by(rest)
    assert np.array_equal(whole.t, footage.t) and np.array_equal(whole.solids[0].turns, footage.solids[0].turns)
    assert np.array_equal(whole.hits, footage.hits) and whole.hit_names == footage.hit_names
    assert np.array_equal(whole.curves[0].t, footage.curves[0].t)


# -- the player ----------------------------------------------------------------------------------------------------------


def test_time_passes_as_fast_as_asked_and_stops_at_the_end(footage):
    player = Player(footage)
    player.speed = 0.5
    player.tick(1.0)
    assert player.now == player.start  # it does not play by itself
    player.play()
    player.tick(1.0)
    assert player.now == pytest.approx(0.5) and player.playing
    player.tick(1e3)
    assert player.now == player.end and not player.playing
    player.play()
    assert player.now == player.start and player.playing  # from the start again


def test_steps_and_impacts(footage):
    player = Player(footage)
    player.step()
    assert player.now == footage.t[1]
    player.step(-1)
    player.step(-1)
    assert player.now == footage.t[0]
    player.next_impact()
    assert player.now == footage.hits[0] and player.struck and "impact 1 of" in player.words()
    player.next_impact(-1)
    assert player.now == player.start and not player.struck
    player.scrub(1e9)
    assert player.now == player.end
    player.next_impact()
    assert player.now == player.end


def test_an_impact_between_two_frames_is_seen(footage):
    player = Player(footage)
    player.play()
    player.scrub(float(footage.hits[0]) - 1e-3)
    player.play()
    player.tick(2e-2)
    assert player.now != footage.hits[0] and player.struck
    player.tick(1.0)
    player.scrub(player.now)
    assert not player.struck


def test_footage_that_grows_is_waited_for(footage):
    player = Player(footage.until(0.5), growing=True)
    player.play()
    player.tick(10.0)
    assert player.waiting and player.playing
    player.take(footage, growing=False)
    player.tick(0.1)
    assert not player.waiting and player.now > 0.5


def test_short_and_long_runs_have_a_speed_that_suits(footage):
    assert Player(footage).speed == 1.0 and 1.0 in SPEEDS
    assert Player(footage.until(0.1)).speed < 0.2


def test_a_run_without_a_picture_says_what_to_do():
    def free(v):
        return 0.5 * v @ v

    run = carom.solve(carom.System(free), carom.Variational(), [0.0], [1.0], dt=0.1, num_steps=3)
    with pytest.raises(carom.InputError, match="shape="):
        of_solution(run)


def test_elastic_bodies_are_drawn_point_by_point():
    t = np.linspace(0, 1, 4)
    faces = [[0, 1, 2]]
    reel = film(lambda q: [mesh([[0, 0, 0], [1, 0, 0], [0, 1 + q[0], 0]], faces)], t, t[:, None], None)
    solids, loose = pieces(reel)
    assert not solids and loose[0].kind == "mesh" and loose[0].points.shape == (4, 3, 3)


# -- pace ----------------------------------------------------------------------------------------------------------------


def test_a_slow_page_is_sent_fewer_frames_and_a_quick_one_more():
    pace = Pace()
    for frame in range(20):
        pace.sent(frame, now=float(frame))
        pace.seen("slow", frame, now=frame + 2 * LATE)
    slow = pace.rate
    assert slow < 10
    for frame in range(20, 60):
        pace.sent(frame, now=float(frame))
        pace.seen("slow", frame, now=frame + 0.5 * EARLY)
    assert pace.rate == 60.0
    pace.seen("slow", 59, now=59.2, gap=0.05)  # it draws twenty pictures a second
    assert pace.rate == pytest.approx(25.0)
    pace.seen("slow", 59, now=59.2, gap=1 / 60)
    pace.sent(60, now=60.0)
    assert not pace.waiting(60, now=60.1) and pace.waiting(60, now=62.0) and not pace.waiting(60, now=90.0)  # it has gone by then


def test_impacts_that_come_too_often_do_not_flash(footage):
    """At most three flashes in a second of watching, as WCAG 2.3.1 asks; slower, the same impacts are seen."""
    crowd = replace(footage, hits=np.array([0.1, 0.2, 0.3, 0.4, 0.5]), hit_names=("floor",) * 5)
    seen = {}
    for speed in (1.0, 0.1):
        player = Player(crowd, growing=True)
        player.speed = speed
        player.play(True)
        lit = []
        while player.now < 0.45:
            before = player.now
            player.tick(0.04)
            if np.any((crowd.hits > before) & (crowd.hits <= player.now)):
                lit.append(player.struck)
            else:
                player._glow = 0.0  # the next one by itself
        seen[speed] = lit
    assert seen[1.0] == [True, True, True, False] and seen[0.1] == [True] * 4


def test_who_goes_along_with_a_body_looks_at_where_it_goes_up_and_down():
    """A star that travels for a hundred sizes was a dot in the first look at it."""
    footage = of_solution(carom.models.star().solve(num_steps=2000))
    whole, beside = (np.subtract(*footage.box(follow)[::-1]) for follow in (None, 0))
    assert whole[0] > 5 * beside[0] and beside[2] == whole[2]  # all of its height, and its own width
    size = 2 * max(np.max(np.abs(solid.vertices)) for solid in footage.solids if solid.body >= 0)
    assert beside[0] == pytest.approx(size, rel=1e-5)  # footage is in single precision
    assert np.array_equal(footage.box(), footage.box(None))


def test_the_first_look_shows_what_there_is_to_meet():
    """The first moments of a ball on a sphere are a dot that hardly moves, and the page was white; that of a piston, too."""
    sphere, piston = (of_solution(model.solve(num_steps=3)) for model in (carom.models.sphere(), carom.models.piston()))
    for footage, wanted in ((sphere, [(-1, 1), (-1, 1)]), (piston, [(0, 1), (-0.02, 0.02)])):  # its sphere; its walls, and no more
        low, high = footage.box(0)
        found = [(low[i], high[i]) for i in (0, 2)]
        np.testing.assert_allclose(found, wanted, atol=0.05)  # walls are as thick as 0.03 of it
        moving = [piece.points for piece in footage.loose if piece.body >= 0]
        assert np.ptp(np.concatenate([p.reshape(-1, 3) for p in moving]), axis=0).max() < 0.1  # control: the body alone


def test_sixty_frames_a_second_are_sixty_though_every_one_of_them_comes_late():
    late, rate = 0.4e-3, 60.0

    def beats(next_due) -> int:
        due, count = 0.0, 0
        while due < 10.0:
            count, due = count + 1, next_due(due, due + late)
        return count

    assert beats(lambda due, now: next_beat(due, now, rate)) == pytest.approx(600, abs=1)
    assert beats(lambda due, now: now + 1 / rate) < 590  # control: counted from when they came, 58.6 a second
    assert next_beat(1.0, 3.0, rate) == 3.0  # after a pause it goes on, and does not run after what it missed

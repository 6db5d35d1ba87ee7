"""Contacts against brute force and closed forms: distance, depth, normals, manifolds, names that last."""

import numpy as np
import pytest
from scipy.optimize import minimize

from carom.bodies import quaternions, shapes
from carom.bodies.detection import broad, manifold, support
from carom.bodies.detection.broad import near_pairs
from carom.bodies.detection.detect import detect, guards
from carom.bodies.detection.geometry import build, place
from carom.bodies.scene import State
from carom.bodies.world import World
from carom.numerics.friction import compiled

CUBE = shapes.Box(1, 1, 1)


def _contacts(*things, margin=0.5):
    """Contacts of the surfaces of shapes at (position, orientation)."""
    bodies = [([shapes.Placed(shape)], np.zeros(3)) for shape, _, _ in things]
    x = np.array([[*p, *[0.0] * (3 - len(p))] for _, p, _ in things], float)
    q = np.array([quaternions.IDENTITY if turn is None else turn for _, _, turn in things])
    placement = place(build(things[0][0].dim, bodies), x, quaternions.matrix(q))
    movable = np.array([not shape.fixed_only for shape, _, _ in things])
    found = detect(placement, movable, np.full(len(things), margin))
    return found.take(np.flatnonzero(~guards(found.key)))


def _rock(rng, corners=14):
    points = rng.normal(size=(corners, 3))
    return shapes.ConvexPolyhedron(0.5 * points / np.linalg.norm(points, axis=1)[:, None])


def _distance(a, xa, Ra, b, xb, Rb):
    """The distance of two polytopes as a convex program over points of both."""
    cores = [(s.core.normals @ R.T, np.sum(s.core.normals * s.core.points[s.core.loops[:, 0]], axis=1) + (s.core.normals @ R.T) @ x)
             for s, x, R in ((a, xa, Ra), (b, xb, Rb))]  # fmt: skip
    limits = [{"type": "ineq", "fun": lambda z, n=n, c=c, i=i: c - n @ z[3 * i : 3 * i + 3]} for i, (n, c) in enumerate(cores)]
    found = minimize(lambda z: np.sum((z[:3] - z[3:]) ** 2), np.concatenate([xa, xb]), constraints=limits, tol=1e-14)
    return np.sqrt(found.fun)


@pytest.mark.parametrize("seed", range(12))
def test_polytopes_that_are_apart_have_their_distance(seed):
    rng = np.random.default_rng(seed)
    a, b = (CUBE, _rock(rng)) if seed % 3 == 0 else (CUBE, shapes.Box(0.4, 1.2, 0.7)) if seed % 3 == 1 else (_rock(rng), _rock(rng))
    turns = quaternions.normalise(rng.normal(size=(2, 4)))
    away = rng.normal(size=3)
    away *= 1.6 / np.linalg.norm(away)
    found = _contacts((a, (0, 0, 0), turns[0]), (b, away, turns[1]), margin=2.0)
    R = quaternions.matrix(turns)
    exact = _distance(a, np.zeros(3), R[0], b, away, R[1])
    assert exact > 0.01
    assert np.min(found.gap) == pytest.approx(exact, rel=2e-6)  # a lean of 1e-3 counts as flat: its cosine


def test_control_centres_do_not_tell_the_distance():
    found = _contacts((CUBE, (0, 0, 0), None), (CUBE, (1.4, 1.4, 0), None), margin=2.0)
    assert np.min(found.gap) == pytest.approx(0.4 * np.sqrt(2), abs=1e-15)  # edge to edge
    assert abs(np.min(found.gap) - (1.4 * np.sqrt(2) - 1)) > 0.3


@pytest.mark.parametrize("depth", [0.0, 1e-12, 1e-4, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_boxes_that_overlap_have_their_depth_and_four_corners(seed, depth):
    rng = np.random.default_rng(seed)
    turn = quaternions.normalise(rng.normal(size=4))
    R = quaternions.matrix(turn)
    place_b = R @ np.array([0.2, -0.1, 1.0 - depth])
    found = _contacts((CUBE, (0, 0, 0), turn), (CUBE, place_b, turn), margin=1e-3)
    assert len(found) == 4
    assert np.allclose(found.gap, -depth, atol=1e-15)  # rounding
    assert np.allclose(found.normal, R[:, 2], atol=1e-14)
    local = found.point @ R
    assert np.allclose(sorted(local[:, 0]), [-0.3, -0.3, 0.5, 0.5], atol=1e-12)
    assert np.allclose(sorted(local[:, 1]), [-0.5, -0.5, 0.4, 0.4], atol=1e-12)


KEEL = [(0, 0, 0), (1, 0, 0.1), (2, 0.1, 0.32), (2, -0.1, 0.32), (0, 0.1, 1), (0, -0.1, 1), (2, 0.1, 1), (2, -0.1, 1)]


def test_the_lowest_corner_of_a_hull_is_among_its_contacts(monkeypatch):
    """A ship with its stern 0.05 deep in a plate: the face that looks down most is that of its bow, which lies higher."""
    things = (shapes.Box(8, 8, 1), (0, 0, -0.5), None), (shapes.ConvexPolyhedron(KEEL), (0, 0, -0.05), None)
    found = _contacts(*things)
    assert np.allclose(found.normal, [0, 0, 1]) and found.gap.min() == pytest.approx(-0.05, abs=1e-12)
    steep = lambda normals, points, loops, n: np.vecdot(normals, -n[:, None]).argmax(axis=1)  # noqa: E731
    monkeypatch.setattr(compiled, "available", lambda: False)  # loops do not go through it
    assert _contacts(*things).gap.min() == pytest.approx(-0.05, abs=1e-12)
    monkeypatch.setattr(manifold, "_lowest_face", steep)  # control
    assert _contacts(*things).gap.min() > 0.04


def test_a_turned_box_on_a_box_meets_in_eight_points():
    turn = quaternions.exponential(np.array([0.0, 0.0, np.pi / 4]))
    found = _contacts((CUBE, (0, 0, 0), None), (CUBE, (0, 0, 1), turn), margin=1e-3)
    across = np.sort(np.abs(found.point[:, :2]), axis=1)
    assert len(found) == 8
    assert np.allclose(across, [np.sqrt(2) / 2 - 0.5, 0.5], atol=1e-12)  # the corners of a regular octagon


def test_crossed_planks_meet_where_their_edges_cross():
    found = _contacts((shapes.Box(1, 0.2, 0.1), (0, 0, 0), None), (shapes.Box(0.2, 1, 0.1), (0, 0, 0.1), None), margin=1e-3)
    assert np.allclose(
        sorted(map(tuple, np.round(found.point, 12))), [(-0.1, -0.1, 0.05), (-0.1, 0.1, 0.05), (0.1, -0.1, 0.05), (0.1, 0.1, 0.05)]
    )


@pytest.mark.parametrize(
    ("where", "gap", "normal"),
    [
        ((0.1, 0.2, 0.9), 0.1, (0, 0, 1)),
        ((0.9, 0, 0.9), np.sqrt(0.32) - 0.3, (1, 0, 1)),
        ((0.9, 0.9, 0.9), np.sqrt(0.48) - 0.3, (1, 1, 1)),
        ((0.0, 0.0, 0.3), -0.5, (0, 0, 1)),
    ],
    ids=["face", "edge", "corner", "inside"],
)
def test_a_ball_at_a_box(where, gap, normal):
    found = _contacts((CUBE, (0, 0, 0), None), (shapes.Sphere(0.3), where, None), margin=1.0)
    assert len(found) == 1
    assert found.gap[0] == pytest.approx(gap, abs=1e-14)
    assert np.allclose(found.normal[0], np.array(normal) / np.linalg.norm(normal), atol=1e-14)


def test_capsules_in_line_and_crossed():
    lying = quaternions.exponential(np.array([0.0, np.pi / 2, 0.0]))
    capsule = shapes.Capsule(0.1, 1.0)
    in_line = _contacts((capsule, (0, 0, 0), None), (capsule, (0, 0, 1.25), None), margin=0.2)
    crossed = _contacts((capsule, (0, 0, 0), None), (capsule, (0, 0.25, 0), lying), margin=0.2)
    assert in_line.gap == pytest.approx([0.05], abs=1e-14) and crossed.gap == pytest.approx([0.05], abs=1e-14)
    on_box = _contacts((CUBE, (0, 0, 0), None), (capsule, (0, 0, 0.61), lying), margin=0.2)
    assert len(on_box) == 2 and np.allclose(on_box.gap, 0.01)


@pytest.mark.parametrize("kinds", ["Capsule Capsule", "Cylinder Cylinder", "Capsule Cylinder"])
def test_rods_side_by_side_meet_in_two_points_and_crossed_ones_in_one(kinds):
    """The rods of lengths 1 and 0.6 share the stretch from 0.1 to 0.5 of the first one."""
    first, second = (getattr(shapes, kind) for kind in kinds.split())
    a, b = (first(0.1, 1.0), (0, 0, 0), None), second(0.2, 0.6)
    beside = _contacts(a, (b, (0.35, 0, 0.4), None), margin=0.2)
    assert beside.gap == pytest.approx([0.05, 0.05], abs=1e-9) and np.allclose(beside.normal, [1, 0, 0], atol=1e-6)
    assert np.allclose(np.sort(beside.point[:, 2]), [0.1, 0.5], atol=1e-9) and len(set(beside.key)) == 2
    crossed = quaternions.exponential(np.array([0.3, 0.0, 0.0]))
    assert len(_contacts(a, (b, (0.35, 0, 0.4), crossed), margin=0.2)) == 1  # control


def test_a_cylinder_that_lies_on_a_box_has_both_its_ends():
    for angle in (0.0, 0.3, 1.1):
        lying = quaternions.multiply(
            quaternions.exponential(np.array([0.0, np.pi / 2, 0.0])), quaternions.exponential(np.array([0.0, 0.0, angle]))
        )
        found = _contacts((CUBE, (0, 0, 0), None), (shapes.Cylinder(0.1, 0.6), (0.1, 0, 0.6), lying), margin=0.05)
        low = found.gap < 1e-6
        assert np.allclose(np.sort(found.point[low, 0]), [-0.2, 0.4], atol=1e-6) and np.allclose(found.gap[low], 0, atol=1e-9)


@pytest.mark.parametrize("gap", [0.2, 1e-3, -1e-3, -0.05])
def test_ellipsoids_that_are_balls_and_a_ball_against_a_cylinder(gap):
    direction = np.array([2.0, -1.0, 2.0]) / 3
    balls = _contacts(
        (shapes.Ellipsoid(0.3, 0.3, 0.3), (0, 0, 0), None), (shapes.Ellipsoid(0.5, 0.5, 0.5), (0.8 + gap) * direction, None)
    )
    assert balls.gap == pytest.approx([gap], abs=1e-15)
    assert np.allclose(balls.normal[0], direction, atol=1e-14)
    side = _contacts((shapes.Cylinder(0.4, 2.0), (0, 0, 0), None), (shapes.Sphere(0.3), (0.7 + gap, 0, 0.2), None))
    assert np.min(side.gap) == pytest.approx(gap, abs=1e-15)


def _lean_of_ellipsoids(seed, gap):
    """How far a contact of two ellipsoids is from what it must be: its points lie on both, at right angles to the surfaces."""
    rng = np.random.default_rng(seed)
    first, second = (shapes.Ellipsoid(*rng.uniform(0.2, 0.6, 3)) for _ in range(2))
    turns, way = quaternions.normalise(rng.normal(size=(2, 4))), quaternions.normalise(rng.normal(size=3))
    reach, found = 1.0, None
    for _ in range(8):  # where the gap is what was asked for, nearly
        found = _contacts((first, (0, 0, 0), turns[0]), (second, reach * way, turns[1]), margin=5.0)
        reach += (gap - found.gap[0]) / max(0.2, found.normal[0] @ way)
    wrong = [abs(found.gap[0] - gap)]
    for shape, turn, middle, side in ((first, turns[0], 0 * way, 1.0), (second, turns[1], reach * way, -1.0)):
        R, n = quaternions.matrix(turn), side * found.normal[0]
        local = R.T @ (found.point[0] - 0.5 * found.gap[0] * n - middle) / shape.axes
        outward = R @ (local / shape.axes)
        wrong += [abs(local @ local - 1), float(np.linalg.norm(outward / np.linalg.norm(outward) - n))]
    return max(wrong)


@pytest.mark.parametrize("gap", [0.1, 1e-4, -0.02])
def test_normals_of_smooth_shapes_are_known_to_rounding(gap, monkeypatch):
    assert max(_lean_of_ellipsoids(seed, gap) for seed in range(4)) < 1e-12  # rounding, times how flat they are
    monkeypatch.setattr(support, "sharpen", lambda a, b, *found: found)
    assert max(_lean_of_ellipsoids(seed, gap) for seed in range(4)) > 1e-7  # control: the search alone


@pytest.mark.parametrize("gap", [0.05, 0.0, -0.03])
def test_sides_and_rims_of_cylinders_have_exact_normals(gap):
    """Side by side, crossed, the side and a rim against a ball: each by hand."""
    rod, lying = shapes.Cylinder(0.1, 1.0), quaternions.exponential(np.array([np.pi / 2, 0.0, 0.0]))
    beside = _contacts((rod, (0, 0, 0), None), (rod, (0.2 + gap, 0, 0.3), None), margin=0.2)
    crossed = _contacts((rod, (0, 0, 0), None), (rod, (0.2 + gap, 0.1, 0.3), lying), margin=0.2)
    assert len(beside) == 2 and len(crossed) == 1 and np.allclose(crossed.point, [[0.1 + gap / 2, 0, 0.3]], atol=1e-15)
    for found in (beside, crossed):
        assert np.allclose(found.gap, gap, atol=1e-15) and np.allclose(found.normal, [1, 0, 0], atol=1e-15)
    ball, way = shapes.Sphere(0.2), np.array([0.6, 0.0, 0.8])
    rim = _contacts((rod, (0, 0, 0), None), (ball, np.array([0.1, 0, 0.5]) + (0.2 + gap) * way, None), margin=0.2)
    side = _contacts((rod, (0, 0, 0), None), (ball, (0, 0.3 + gap, -0.2), None), margin=0.2)
    assert rim.gap == pytest.approx([gap], abs=1e-15) and np.allclose(rim.normal, [way], atol=1e-14)
    assert side.gap == pytest.approx([gap], abs=1e-15) and np.allclose(side.normal, [[0, 1, 0]], atol=1e-14)
    assert np.allclose(side.point, [[0, 0.1 + gap / 2, -0.2]], atol=1e-14)


def test_a_cylinder_stands_and_lies_on_a_half_space():
    cylinder, lying = shapes.Cylinder(0.4, 1.0), quaternions.exponential(np.array([0.0, np.pi / 2, 0.0]))
    stands = _contacts((shapes.HalfSpace(), (0, 0, 0), None), (cylinder, (1, 2, 0.5), None), margin=0.01)
    lies = _contacts((shapes.HalfSpace(), (0, 0, 0), None), (cylinder, (1, 2, 0.4), lying), margin=0.01)
    assert len(stands) == 4 and np.allclose(stands.gap, 0, atol=1e-15)
    assert len(lies) == 2 and np.allclose(lies.gap, 0, atol=1e-15) and np.allclose(sorted(lies.point[:, 0]), [0.5, 1.5])


def test_an_ellipsoid_over_a_tilted_half_space():
    n = np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])
    axes, x = np.array([0.3, 0.5, 0.2]), np.array([0.1, 0.2, 0.9])
    found = _contacts((shapes.HalfSpace(n, 0.1), (0, 0, 0), None), (shapes.Ellipsoid(*axes), x, None), margin=0.15)
    assert found.gap == pytest.approx([n @ x - 0.1 - np.linalg.norm(axes * n)], abs=1e-14)  # the support function of an ellipsoid


def test_a_plate_is_met_from_both_sides():
    for side in (1, -1):
        found = _contacts((shapes.Plate((0, 0, 1), 0.2), (0, 0, 0), None), (shapes.Sphere(0.3), (0, 0, 0.5 * side), None))
        assert found.gap == pytest.approx([0.1]) and np.allclose(found.normal[0], [0, 0, side])


def test_triangles_and_height_fields():
    ground = shapes.HeightField(np.zeros((3, 3)), 1.0)
    found = _contacts((ground, (0, 0, 0), None), (shapes.Sphere(0.3), (0.7, 0.2, 0.35), None), margin=0.05)
    assert np.min(found.gap) == pytest.approx(0.05, abs=1e-15)
    box = _contacts((ground, (0, 0, 0), None), (shapes.Box(0.2, 0.2, 0.2), (0.7, 0.2, 0.1), None), margin=1e-3)
    assert len(box) == 4 and np.allclose(box.gap, 0, atol=1e-15)


def test_shapes_of_the_plane():
    square, disc = shapes.Polygon.box(1, 1), shapes.Disc(0.5)
    stack = _contacts(
        (shapes.HalfPlane(), (0, 0), None),
        (square, (0, 0.5), None),
        (square, (0.3, 1.5), None),
        (disc, (0.3, 2.5), None),
        margin=1e-3,
    )
    assert len(stack) == 5 and np.allclose(stack.gap, 0, atol=1e-15) and np.allclose(stack.normal, [0, 1, 0])
    corner = _contacts((square, (0, 0), None), (disc, (0.5 + 0.6, 0.5 + 0.8), None), margin=1.0)
    assert corner.gap == pytest.approx([0.5]) and np.allclose(corner.normal[0], [0.6, 0.8, 0])
    segment = shapes.Segment((-1, 0), (1, 0), 0.1)
    assert _contacts((segment, (0, 0), None), (disc, (0.2, 0.7), None), margin=1.0).gap == pytest.approx([0.1])
    assert _contacts((segment, (0, 0), None), (disc, (1.7, 0.0), None), margin=1.0).gap == pytest.approx([0.1])
    flat = _contacts((segment, (0, 0), None), (square, (0.2, 0.65), None), margin=0.2)
    assert len(flat) == 2 and np.allclose(flat.gap, 0.05)


@pytest.mark.parametrize("sizes", ["alike", "six decades", "flat"])
@pytest.mark.parametrize("way", ["sorted", "in cells"])
def test_near_pairs_are_those_of_brute_force(way, sizes, monkeypatch):
    monkeypatch.setattr(broad, "FEW", 1000 if way == "sorted" else 0)
    rng = np.random.default_rng(0)
    low = rng.uniform(-2, 3, (120, 3))
    decades = 10 ** rng.uniform(-5, 1, (120, 1))
    high = low + {"alike": 1.0, "six decades": decades, "flat": np.array([3.0, 3.0, 0.1])}[sizes] * rng.uniform(0, 1, (120, 3))
    owner, movable = rng.integers(0, 60, 120), rng.random(120) < 0.8
    i, j = near_pairs(low, high, owner, movable)
    brute = [
        (a, b)
        for a in range(120)
        for b in range(a + 1, 120)
        if owner[a] != owner[b] and (movable[a] or movable[b]) and np.all(low[a] <= high[b]) and np.all(low[b] <= high[a])
    ]
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == brute and len(brute) > 10


def test_cells_look_at_few_more_pairs_than_there_are():
    """Near-linear: the candidates per box do not grow with their number; sorted along an axis they do."""
    rng = np.random.default_rng(1)
    looked = {}
    for count in (500, 8000):
        low = rng.uniform(0, count ** (1 / 3), (count, 3))
        looked[count] = [len(way(low, low + 0.7)[0]) / count for way in (broad._in_cells, broad._sorted)]
    assert looked[8000][0] < 1.3 * looked[500][0] and looked[8000][1] > 4 * looked[500][1]  # control: a factor of 16^(2/3) = 6.3


def test_contacts_keep_their_names_while_a_box_slides():
    before = _contacts((shapes.Box(3, 3, 1), (0, 0, 0), None), (CUBE, (0.1, 0.2, 1.0), None), margin=1e-3)
    after = _contacts((shapes.Box(3, 3, 1), (0, 0, 0), None), (CUBE, (0.15, 0.18, 1.0), None), margin=1e-3)
    assert np.array_equal(before.key, after.key) and len(before) == 4


def test_a_hull_that_cannot_grow_is_made_afresh(monkeypatch):
    """Qhull refuses points that are nearly in one face: rare, so here it refuses every one."""
    from scipy import spatial

    from carom.bodies.detection.support import separate

    ball, rod = shapes.Ellipsoid(0.3, 0.2, 0.1), shapes.Cylinder(0.2, 0.4)
    shift = np.array([0.05, 0.1, 0.02])
    asked = (ball.support, lambda d: shift + rod.support(d), shift, 0.7)
    usual = separate(*asked)

    class Stubborn(spatial.ConvexHull):
        def add_points(self, points, restart=False):
            raise spatial.QhullError("wide facet")

    monkeypatch.setattr(spatial, "ConvexHull", Stubborn)
    afresh = separate(*asked)
    assert usual[1] < -0.1 and afresh[1] == pytest.approx(usual[1], abs=1e-9) and np.allclose(afresh[0], usual[0], atol=1e-4)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, -1e-6, -1e-3, -2e-2])
def test_edges_that_cross_meet_where_they_cross_whether_they_overlap_or_not(gap):
    """Two bars along x and y, turned by 45° about themselves, one over the other: edges cross at (0.3, 0), not near a corner."""
    eighth = lambda axis: np.array([np.cos(np.pi / 8), *(np.sin(np.pi / 8) * np.eye(3)[axis])])  # noqa: E731
    half = np.sqrt(0.5)
    along_x, along_y = shapes.Box(4, 1, 1), shapes.Box(1, 4, 1)
    found = _contacts((along_x, (1, 0, 0), eighth(0)), (along_y, (0.3, 1.2, 2 * half + gap), eighth(1)), margin=0.01)
    np.testing.assert_allclose(found.gap, [gap], atol=1e-14)
    np.testing.assert_allclose(found.normal, [[0, 0, 1]], atol=1e-9)
    np.testing.assert_allclose(found.point, [[0.3, 0, half + 0.5 * gap]], atol=1e-9)


def _lands_on_an_edge(seed, dt=2e-3):
    """How deep a box gets into another on which it lands with an edge, faces tilted by a tenth of a radian at most; and what its
    turn bends the way of its corners from straight in half a step, r(ωh/2)²/2."""
    rng = np.random.default_rng(seed)
    world = World(gravity=(0, 0, 0))
    world.material(friction=0.4)
    world.add(shapes.Box(0.1, 0.1, 0.1), density=1000)
    turn = quaternions.exponential(np.array([*rng.uniform(-0.1, 0.1, 2), rng.uniform(0, 1.5)]))
    world.add(
        shapes.Box(0.1, 0.1, 0.1),
        density=1000,
        position=(*rng.uniform(0.04, 0.06, 2), 0.112),
        orientation=turn,
        velocity=(0, 0, -2),
    )
    run = world.solve(dt, 20, progress=False)
    scene, states = run.scene, zip(run.x, run.q, run.v, run.L, strict=True)
    gaps = [detect(State(*state).placement(scene), scene.free, np.zeros(2)).gap.min(initial=0.0) for state in states]
    bends = 0.5 * np.max(scene.reach) * (0.5 * dt * np.max(np.linalg.norm(run.spins, axis=2))) ** 2
    assert run.status.ok
    return -min(gaps), float(bends)


def test_a_box_that_lands_on_an_edge_meets_with_its_other_corners_too(monkeypatch):
    """Control: with the crossing of the edges alone it tips over that, and its corners get in by what they move in a step."""
    seeds = range(8)
    assert all(depth <= bends for depth, bends in map(_lands_on_an_edge, seeds))
    monkeypatch.setattr(manifold, "STEEP", manifold.FLAT)
    deep = [depth > 20 * bends for depth, bends in map(_lands_on_an_edge, seeds)]
    assert sum(deep) > len(deep) / 3  # half of them: 0.2 to 2 mm, with hv = 4 mm

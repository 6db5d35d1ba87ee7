"""Volume, centre and inertia of shapes against closed forms and against sampling; shapes that cannot be are refused."""

import numpy as np
import pytest

import carom
from carom.bodies import quaternions, shapes
from carom.bodies.shapes.shape import Mass, together

ROUND = [shapes.Sphere(0.7), shapes.Capsule(0.3, 0.8), shapes.Cylinder(0.4, 0.9), shapes.Ellipsoid(0.3, 0.5, 0.8)]
SOLIDS = [*ROUND, shapes.Box(0.3, 0.7, 1.1), shapes.ConvexPolyhedron([(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 3), (0.6, 0.9, 0.8)])]
FLAT = [shapes.Disc(0.6), shapes.Polygon([(0, 0), (2, 0), (1.5, 1), (0.2, 0.8)]), shapes.Segment((-0.4, 0.1), (0.6, 0.3), 0.2)]
NAMES = lambda shape: type(shape).__name__  # noqa: E731


def _inside(shape, x):
    """Which points lie inside, from the definitions."""
    if isinstance(shape, shapes.Cylinder):
        return (np.hypot(x[:, 0], x[:, 1]) <= shape.radius) & (np.abs(x[:, 2]) <= shape.length / 2)
    if isinstance(shape, shapes.Ellipsoid):
        return np.sum((x / shape.axes) ** 2, axis=1) <= 1
    core = shape.core
    if core.radius == 0:
        return np.all(x @ core.normals.T <= np.sum(core.normals * core.points[core.loops[:, 0]], axis=1), axis=1)
    a, b = core.points[0], core.points[-1]
    along = np.clip((x - a) @ (b - a) / max((b - a) @ (b - a), 1e-300), 0, 1)
    return np.linalg.norm(x - a - along[:, None] * (b - a), axis=1) <= core.radius


def _sampled(shape, samples=400_000) -> tuple[Mass, float]:
    """Mass by sampling the cube around the shape, and the expected relative error."""
    r = shape.reach
    x = np.random.default_rng(3).uniform(-r, r, (samples, 3))
    box = (2 * r) ** 3
    if shape.dim == 2:
        x[:, 2], box = 0.0, (2 * r) ** 2
    x = x[_inside(shape, x)]
    center = x.mean(axis=0)
    d = x - center
    volume = box * len(x) / samples
    squares = d.T @ d / len(x) * volume
    return Mass(volume, center, np.trace(squares) * np.eye(3) - squares), 1 / np.sqrt(len(x))


@pytest.mark.parametrize("shape", [*SOLIDS, *FLAT], ids=NAMES)
def test_mass_is_what_sampling_finds(shape):
    found, error = _sampled(shape)
    scale = shape.mass.volume * shape.reach**2
    share = shape.volume / (2 * shape.reach) ** shape.dim
    assert abs(found.volume / shape.volume - 1) < 5 * error / np.sqrt(share)  # five standard deviations of a count, at most
    assert np.allclose(found.center, shape.mass.center, atol=5 * error * shape.reach)
    mine = shape.mass.inertia if shape.dim == 3 else shape.mass.inertia[2, 2]
    theirs = found.inertia if shape.dim == 3 else found.inertia[2, 2]
    assert np.allclose(mine, theirs, atol=10 * error / np.sqrt(share) * scale)


def test_control_a_wrong_inertia_is_found():
    found, error = _sampled(shapes.Box(0.3, 0.7, 1.1))
    wrong = shapes.Sphere(0.5).mass.inertia
    assert not np.allclose(found.inertia, wrong, atol=10 * error * shapes.Box(0.3, 0.7, 1.1).volume)


def test_a_hull_of_box_corners_has_the_mass_of_the_box():
    box = shapes.Box(0.3, 0.7, 1.1)
    shift = np.array([5.0, -2.0, 1.0])
    hull = shapes.ConvexPolyhedron(box.core.points + shift)
    assert np.isclose(hull.volume, box.volume, rtol=1e-14)  # exact sums: rounding
    assert np.allclose(hull.mass.center, shift, atol=1e-14)
    assert np.allclose(hull.mass.inertia, box.mass.inertia, rtol=1e-12, atol=1e-15)  # rounding of 5² against 0.3²
    assert len(hull.core.normals) == 6 and len(hull.core.edges) == 12 and len(hull.core.directions) == 3


def test_two_half_boxes_are_one_box():
    half = shapes.Box(1.0, 2.0, 1.5)
    turn = quaternions.exponential(np.array([0.0, 0.0, np.pi]))
    parts = [half.at((0, 0, -0.75)).mass, half.at((0, 0, 0.75), turn).mass]
    whole = together(parts)
    box = shapes.Box(1.0, 2.0, 3.0).mass
    assert np.isclose(whole.volume, box.volume) and np.allclose(whole.center, 0) and np.allclose(whole.inertia, box.inertia)


@pytest.mark.parametrize("shape", SOLIDS, ids=NAMES)
def test_the_support_point_lies_farthest(shape):
    rng = np.random.default_rng(1)
    x = rng.uniform(-shape.reach, shape.reach, (20_000, 3))
    x = x[_inside(shape, x)]
    for d in rng.normal(size=(20, 3)):
        assert np.max(x @ d) <= shape.support(d) @ d + 1e-12 <= shape.reach * np.linalg.norm(d) + 2e-12  # rounding


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: shapes.Sphere(-1), "radius must be a positive number"),
        (lambda: shapes.Box(1, 0, 1), "length y must be a positive number"),
        (lambda: shapes.Ellipsoid(1, float("nan"), 1), "half axis b"),
        (lambda: shapes.ConvexPolyhedron([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]), "no volume"),
        (lambda: shapes.ConvexPolyhedron(np.zeros((3, 2))), r"\[k, 3\]"),
        (lambda: shapes.ConvexPolyhedron("nowhere.stl"), "there is no mesh file"),
        (lambda: shapes.Polygon([(0, 0), (2, 0), (1, 0.1), (0, 2)]), "convex"),
        (lambda: shapes.Polygon([(0, 0), (1, 1), (2, 2)]), "no area"),
        (lambda: shapes.Segment((0, 0), (0, 0), 0.1), "same point"),
        (lambda: shapes.HalfSpace((0, 0, 0)), "must not be zero"),
        (lambda: shapes.TriangleMesh([(0, 0, 0), (1, 0, 0), (2, 0, 0)], [(0, 1, 2)]), "triangle 0 has no area"),
        (lambda: shapes.TriangleMesh([(0, 0, 0), (1, 0, 0)], [(0, 1, 2)]), "not there"),
        (lambda: shapes.HeightField([[1.0, 2.0]]), "two each way"),
        (lambda: shapes.Box(1, 1, 1).at((0, 0)), "3 finite numbers"),
        (lambda: shapes.Box(1, 1, 1).at(None, (1, 2)), "quaternion"),
        (lambda: shapes.HalfSpace().mass, "endless"),
    ],
)
def test_shapes_that_cannot_be_are_refused_with_a_reason(make, says):
    with pytest.raises(carom.InputError, match=says):
        make()


def test_mesh_files_are_read(tmp_path):
    core = shapes.Box(1, 2, 3).core
    square = [(0, 2, 3), (0, 3, 1)]
    triangles = [(loop[i], loop[j], loop[k]) for loop in core.loops for i, j, k in [(0, 1, 2), (0, 2, 3)]]
    assert len(triangles) == 12 and square
    text = "solid box\n"
    for t in triangles:
        text += (
            "facet normal 0 0 0\nouter loop\n"
            + "".join("vertex {} {} {}\n".format(*core.points[i]) for i in t)
            + "endloop\nendfacet\n"
        )
    (tmp_path / "box.stl").write_text(text + "endsolid\n")
    record = np.zeros(12, np.dtype([("n", "<f4", 3), ("c", "<f4", (3, 3)), ("e", "<u2")]))
    record["c"] = core.points[np.array(triangles)]
    (tmp_path / "binary.stl").write_bytes(bytes(80) + (12).to_bytes(4, "little") + record.tobytes())
    lines = ["v {} {} {}".format(*p) for p in core.points] + ["f " + " ".join(str(i + 1) for i in loop) for loop in core.loops]
    (tmp_path / "box.obj").write_text("\n".join(lines))
    for name in ("box.stl", "binary.stl", "box.obj"):
        assert np.isclose(shapes.ConvexPolyhedron(tmp_path / name).volume, 6.0)
        assert len(shapes.TriangleMesh(tmp_path / name).pieces) == 12
    (tmp_path / "open.obj").write_text("\n".join(lines[:-1]))
    with pytest.raises(carom.InputError, match="is open: 4 sides belong to one triangle only"):
        shapes.ConvexPolyhedron(tmp_path / "open.obj")
    assert len(shapes.TriangleMesh(tmp_path / "open.obj").pieces) == 10  # ground may be open
    assert np.isclose(shapes.ConvexPolyhedron(shapes.read_mesh(tmp_path / "open.obj")[0]).volume, 6.0)  # as the sentence says
    turned = [" ".join(["f", *reversed(line.split()[1:])]) if k == 9 else line for k, line in enumerate(lines)]
    (tmp_path / "turned.obj").write_text("\n".join(turned))  # control: closed, though one face looks inwards
    assert np.isclose(shapes.ConvexPolyhedron(tmp_path / "turned.obj").volume, 6.0)
    (tmp_path / "bad.stl").write_text("hello")
    with pytest.raises(carom.InputError, match="not an STL file"):
        shapes.read_mesh(tmp_path / "bad.stl")


def test_free_rotation_keeps_momentum_and_energy_and_has_order_four():
    inverse = np.linalg.inv(np.diag([1.0, 2.0, 4.0]))[None]
    q0, L = quaternions.normalise(np.array([[1.0, 0.2, -0.3, 0.4]])), np.array([[1.0, 2.0, -1.0]])

    def energy(q):
        body = quaternions.apply(np.swapaxes(quaternions.matrix(q), -1, -2), L)
        return 0.5 * float(np.sum(body * quaternions.apply(inverse, body)))

    def go(steps, parts=None):
        q = q0
        for _ in range(steps):
            q = quaternions.rotate_freely(q, L, inverse, 2.0 / steps, parts)
        return q

    coarse, fine, finest = go(20), go(40), go(640)
    assert abs(energy(coarse) / energy(q0) - 1) < 20 * 4e-16  # rounding of twenty steps
    order = lambda coarse, fine: np.log2(np.linalg.norm(coarse - finest) / np.linalg.norm(fine - finest))  # noqa: E731
    assert 3.9 < order(coarse, fine) < 4.1 and np.linalg.norm(fine - finest) < 1e-5
    middle, A, spread, trace, product = quaternions.principal(inverse)
    uncorrected = middle, A, spread, trace, 0 * product
    assert 1.9 < order(go(20, uncorrected), go(40, uncorrected)) < 2.1  # control: without the part of σ in (2)
    back = quaternions.rotate_freely(quaternions.rotate_freely(q0, L, inverse, 0.3), L, inverse, -0.3)
    assert np.allclose(back, q0, atol=1e-14)  # rounding


def test_free_rotation_of_a_symmetric_body_is_exact():
    """A body with moments 1, 1, 3: its axis turns about L at |L| / 1."""
    inverse = np.linalg.inv(np.diag([1.0, 1.0, 3.0]))[None]
    L = np.array([[0.3, 0.1, 2.0]])
    turned = quaternions.matrix(quaternions.rotate_freely(quaternions.IDENTITY[None], L, inverse, 1.7))[0, :, 2]
    exact = quaternions.matrix(quaternions.exponential(1.7 * L))[0, :, 2]
    assert np.allclose(turned, exact, atol=1e-14)  # rounding


@pytest.mark.parametrize("moments", [(1.0, 2.0, 2.5), (1.0, 1.001, 1.6), (1.0, 1.5, 1.501)])
def test_what_turns_a_thousand_times_in_a_step_goes_by_the_closed_form(moments, monkeypatch):
    """It agrees with many stretches about either axis, keeps the energy, and its cost does not grow with the turn."""
    rng, inverse = np.random.default_rng(3), np.diag(1 / np.array(moments))[None]
    q, apart = quaternions.normalise(rng.normal(size=(1, 4))), []
    body = quaternions.matrix(q[0])
    for L in rng.normal(size=(8, 1, 3)):
        monkeypatch.setattr(quaternions, "LONG", 0)
        jump = quaternions.rotate_freely(q, 3 * L, inverse, 5.0)[0]
        monkeypatch.setattr(quaternions, "LONG", np.inf)
        way = q
        for _ in range(500):
            way = quaternions.rotate_freely(way, 3 * L, inverse, 5.0 / 500)
        apart.append(1 - abs(jump @ way[0]))
        seen = [L[0] @ R @ inverse[0] @ R.T @ L[0] for R in (body, quaternions.matrix(jump))]
        assert seen[1] == pytest.approx(seen[0], rel=1e-14)  # rounding
    assert max(apart) < 1e-14  # half the square of (ωh)⁴/720 times 500 steps, ωh = 0.1
    monkeypatch.undo()
    counted = []
    monkeypatch.setattr(quaternions, "exponential", lambda angle, real=quaternions.exponential: (counted.append(1), real(angle))[1])
    quaternions.rotate_freely(q, np.array([[3e6, 1e6, 2e6]]), inverse, 5.0)
    assert len(counted) < 5
    monkeypatch.setattr(quaternions, "LONG", np.inf)  # control
    quaternions.rotate_freely(q, np.array([[3e2, 1e2, 2e2]]), inverse, 5.0)
    assert len(counted) > 1000

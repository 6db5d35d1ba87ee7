"""Corners against corners, §5 of [fetecau2003]: two convex polygons, two polyhedra, the normal cone where they meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.spatial.transform import Rotation

import carom

METHOD = carom.VariationalCollision(carom.Midpoint())
SQUARE = carom.Convex([[0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.5, -0.5]])
KITE = carom.Convex([[-1.0, 0.0], [0.5, -0.7], [0.8, 0.0], [0.5, 0.7], [0.1, 0.1]])  # the last one lies inside
CUBE = carom.Convex([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
MASSES, INERTIAS = (1.0, 2.0), (1 / 6, 0.7)


def test_faces_corners_and_edges():
    assert len(SQUARE.normals) == 4 and len(KITE.corners) == 4 and len(SQUARE.edges) == 0
    assert len(CUBE.normals) == 6 and len(CUBE.corners) == 8 and len(CUBE.edges) == 3
    tetrahedron = carom.Convex(np.vstack([np.zeros(3), np.eye(3)]))
    assert len(tetrahedron.normals) == 4 and len(tetrahedron.edges) == 6
    for wrong in (
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]],
        [[0.0, 0.0]],
        np.zeros((4, 4)),
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],
    ):
        with pytest.raises(carom.InputError, match="corners"):
            carom.Convex(wrong)


def between(one, other):
    """The distance of two sets of corners' hulls, by brute force: the smallest |a − b| with weights ≥ 0 that sum up to 1."""
    k, m = len(one), len(other)
    rows = np.vstack(
        [np.hstack([one.T, -other.T]), 1e4 * np.hstack([np.ones(k), np.zeros(m)]), 1e4 * np.hstack([np.zeros(k), np.ones(m)])]
    )
    weights, _ = nnls(rows, np.concatenate([np.zeros(one.shape[1]), [1e4, 1e4]]))
    return np.linalg.norm(one.T @ weights[:k] - other.T @ weights[k:])


def test_bodies_are_apart_where_one_plane_separates_them():
    """Against the distance by quadratic programming: positive together, and never more than the distance."""
    rng = np.random.default_rng(2)
    apart = jax.jit(lambda x, turn: jnp.max(carom.separations(CUBE, (jnp.zeros(3), jnp.eye(3)), CUBE, (x, turn))))
    seen = set()
    for _ in range(60):
        x, turn = rng.normal(size=3) * 0.8, Rotation.random(random_state=rng.integers(1 << 31)).as_matrix()
        found, distance = float(apart(x, turn)), between(CUBE.corners, np.asarray(CUBE.placed(x, turn)))
        assert (found > 0) == (distance > 1e-6) and found < distance + 1e-6
        seen.add(found > 0)
    assert seen == {True, False}


# -- two polygons -----------------------------------------------------------------------------------------------------------------


def lagrangian(v):
    return 0.5 * (MASSES[0] * (v[:2] @ v[:2]) + INERTIAS[0] * v[2] ** 2 + MASSES[1] * (v[3:5] @ v[3:5]) + INERTIAS[1] * v[5] ** 2)


def gap(q):
    return carom.separations(SQUARE, (q[:2], q[2]), KITE, (q[3:5], q[5]))


POLYGONS = carom.System(lagrangian, [carom.Contact(gap, obstacle=True, name="bodies")])
MASS = np.diag([MASSES[0], MASSES[0], INERTIAS[0], MASSES[1], MASSES[1], INERTIAS[1]])


def meeting(q0, v0):
    return carom.solve(POLYGONS, METHOD, q0, v0, dt=0.05, num_steps=60)


def at_point(q, point):
    """From the velocity of both bodies to that of the second relative to the first, at a point: [2, 6]."""
    one, other = point - q[:2], point - q[3:5]
    return np.array([[-1.0, 0.0, one[1], 1.0, 0.0, -other[1]], [0.0, -1.0, -one[0], 0.0, 1.0, other[0]]])


def in_the_cone(run, k=0):
    """(84): the jump of the momenta as a sum of the normals of all faces that are zero, with factors ≥ 0; and what is left."""
    q = run.impacts.q[k]
    rows = np.asarray(jax.jacobian(gap)(jnp.asarray(q)))[np.abs(np.asarray(gap(jnp.asarray(q)))) < 1e-9]
    factors, left = nnls(rows.T, run.impacts.p_after[k] - run.impacts.p_before[k])
    return left, rows, factors


def test_a_corner_on_a_side():
    """The law of impact of rigid bodies: λ = −2 s / (1/m₁ + 1/m₂ + (r₁ × n)²/I₁ + (r₂ × n)²/I₂), along the normal of the side."""
    run = meeting([-3.0, 0.12, 0.3, 0.0, 0.0, 0.4], [1.0, 0.1, 0.4, 0.0, 0.0, -0.2])
    q, before = run.impacts.q[0], np.linalg.solve(MASS, run.impacts.p_before[0])
    corners = np.asarray(SQUARE.placed(q[:2], q[2])), np.asarray(KITE.placed(q[3:5], q[5]))
    values = np.asarray(gap(jnp.asarray(q)))
    face = int(np.argmax(values))
    assert abs(values[face]) < 1e-12 and np.sort(values)[-2] < -1e-3  # one face
    own, turn = (SQUARE, q[2]) if face < 4 else (KITE, q[5])
    local = own.normals[face % 4]
    n = np.array([np.cos(turn) * local[0] - np.sin(turn) * local[1], np.sin(turn) * local[0] + np.cos(turn) * local[1]])
    n = n if face < 4 else -n  # from the first body to the second
    touching = corners[1] if face < 4 else corners[0]
    point = touching[np.argmin(touching @ (n if face < 4 else -n))]
    row = n @ at_point(q, point)
    jump = -2 * (row @ before) / (row @ np.linalg.solve(MASS, row)) * row
    np.testing.assert_allclose(run.impacts.p_after[0] - run.impacts.p_before[0], jump, atol=1e-11)
    assert in_the_cone(run)[0] < 1e-11


def test_a_corner_on_a_corner():
    """A square on its corner meets the tip of a kite, which is sharper: the normals of both sides of the square are the ends of
    the cone. Both are approached, and the velocity of the point of contact is reversed: P = −2 W⁻¹ u, W = J M⁻¹ Jᵀ."""
    v0 = np.array([1.0, 0.15, 0.0, 0.0, 0.0, 0.0])
    tip = np.sqrt(0.5)
    flight = 2.0 - tip  # from −3 to where the corner is at −1
    run = meeting([-3.0, -0.15 * flight, np.pi / 4, 0.0, 0.0, 0.0], v0)
    q = run.impacts.q[0]
    np.testing.assert_allclose(q[:2], [-1 - tip, 0.0], atol=1e-12)
    left, rows, factors = in_the_cone(run)
    assert len(rows) == 2 and left < 1e-9 and np.sum(factors > 1e-9) >= 2  # a node: several normals take part
    J = at_point(q, np.array([-1.0, 0.0]))
    P = -2 * np.linalg.solve(J @ np.linalg.solve(MASS, J.T), J @ v0)
    np.testing.assert_allclose(run.impacts.p_after[0] - MASS @ v0, J.T @ P, atol=1e-9)
    assert abs(P[1]) > 0.02  # a control: one normal alone, along the line of centres, has no such part
    before, after = 0.5 * v0 @ MASS @ v0, 0.5 * run.v[-1] @ MASS @ run.v[-1]
    assert after == pytest.approx(before, rel=1e-12)


# -- two polyhedra ---------------------------------------------------------------------------------------------------------------

TURN = Rotation.from_euler("xyz", [0.3, 0.5, 0.7]).as_matrix()
ON_EDGE = Rotation.from_euler("z", np.pi / 4).as_matrix()  # an edge along z looks along x
OTHER_EDGE = Rotation.from_euler("y", np.pi / 4).as_matrix()  # an edge along y looks along x


def cubes(turn_one, turn_other):
    """Two cubes that keep their directions: q holds both centres, and masses are 1."""
    apart = lambda q: carom.separations(CUBE, (q[:3], jnp.asarray(turn_one)), CUBE, (q[3:], jnp.asarray(turn_other)))  # noqa: E731
    return carom.System(lambda v: 0.5 * v @ v, [carom.Contact(apart, obstacle=True)])


@pytest.mark.stress
def test_an_edge_on_an_edge():
    """They cross at right angles: the common normal is x, and only the velocities along it are exchanged."""
    v0 = np.array([1.0, 0.05, -0.03, 0.0, 0.0, 0.0])
    run = carom.solve(cubes(ON_EDGE, OTHER_EDGE), METHOD, [-3.0, 0, 0, 0, 0, 0], v0, dt=0.05, num_steps=50)
    assert run.impacts.t[0] == pytest.approx(3.0 - np.sqrt(2), abs=1e-12)
    np.testing.assert_allclose(run.v[-1], [0.0, 0.05, -0.03, 1.0, 0.0, 0.0], atol=1e-12)


def test_a_corner_on_a_corner_in_space():
    """Two cubes with corners along the line of centres: three faces of each, and the relative velocity is reversed as a whole."""
    diagonal = Rotation.align_vectors([[1.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]])[0].as_matrix()  # corners at ±x
    reach = np.sqrt(3) / 2
    drift, flight = np.array([0.2, -0.1]), 3.0 - 2 * reach
    q0 = np.array([-3.0, *(-drift * flight), 0.0, 0.0, 0.0])
    run = carom.solve(cubes(diagonal, diagonal), METHOD, q0, [1.0, *drift, 0.0, 0.0, 0.0], dt=0.05, num_steps=50)
    assert run.impacts.t[0] == pytest.approx(flight, abs=1e-9)
    np.testing.assert_allclose(run.v[-1], [0.0, 0.0, 0.0, 1.0, *drift], atol=1e-8)
    aside = carom.solve(
        cubes(diagonal, diagonal), METHOD, q0 + np.array([0, 0.05, 0.02, 0, 0, 0]), [1.0, *drift, 0, 0, 0], dt=0.05, num_steps=50
    )
    assert np.max(np.abs(aside.v[-1] - run.v[-1])) > 0.1  # a control: beside it one face after the other is met


def matrix(q):
    """The rotation of a unit quaternion."""
    w, x, y, z = q
    return jnp.asarray(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@pytest.mark.stress
def test_two_cubes_that_turn_in_space():
    """An edge on an edge, off their middles: λ = −2 s / (1/m₁ + 1/m₂ + |r₁ × n|²/I₁ + |r₂ × n|²/I₂), n = x. With the balance of the
    discrete energy, which turning bodies do not keep exactly, the impulse would differ by O(h²): here it is the law's."""
    inertia = 1 / 6

    def lagrangian(v):  # of each: angular velocity, velocity
        return 0.5 * (inertia * (v[:3] @ v[:3] + v[6:9] @ v[6:9]) + v[3:6] @ v[3:6] + v[9:] @ v[9:])

    def apart(q):
        return carom.separations(CUBE, (q[4:7], matrix(q[:4])), CUBE, (q[11:], matrix(q[7:11])))

    space = carom.Product(carom.SE3(), carom.SE3())
    system = carom.System(lagrangian, [carom.Contact(apart, obstacle=True)], space=space)
    half = np.pi / 8
    one, other = [np.cos(half), 0, 0, np.sin(half)], [np.cos(half), 0, np.sin(half), 0]  # edges along z and y look along x
    q0 = np.array([*one, -2.0, 0.2, 0.1, *other, 0.0, 0.0, 0.0])
    turned = Rotation.from_quat([0, 0, np.sin(half), np.cos(half)]).as_matrix()
    v0 = np.concatenate([np.zeros(3), turned.T @ [1.0, 0.0, 0.0], np.zeros(6)])
    method = carom.VariationalCollision(carom.Midpoint(), elastic="reflection")
    run = carom.solve(system, method, q0, v0, dt=0.05, num_steps=30)
    assert len(run.impacts) == 1
    arms = np.array([0.0, -0.1]), np.array([0.2, 0.0])  # of the crossing: (y, z) from both centres
    n = np.array([1.0, 0.0, 0.0])
    inverse = 2.0 + sum(np.sum(np.cross([0.0, *arm], n) ** 2) for arm in arms) / inertia
    impulse = 2.0 / inverse
    velocity = np.asarray(matrix(run.q[-1, 7:11])) @ run.v[-1, 9:]
    np.testing.assert_allclose(velocity, [impulse, 0.0, 0.0], atol=1e-9)
    assert run.energy[-1] == pytest.approx(run.energy[0], rel=1e-10)

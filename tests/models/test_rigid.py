"""Rigid bodies in space: the same engine on ℝ³ × SO(3)."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ORDER_4, TRAPEZOIDAL

import carom
from carom.models import rigid_body, star_in_space
from carom.spaces.rotations import matrix


@pytest.fixture(scope="module")
def ellipsoid():
    return rigid_body().solve(ORDER_4, dt=3e-4, num_steps=10**6, max_impacts=60, stride=10)


@pytest.mark.sensitive
def test_an_ellipsoid_keeps_its_energy(ellipsoid):
    assert len(ellipsoid.impacts) == 60 and ellipsoid.fallbacks == 0
    assert np.abs(ellipsoid.energy_error).max() < 1e-10
    assert carom.diagnostics.penetration(ellipsoid) < 1e-12


def test_momentum_along_the_floor_and_spin_about_the_vertical_are_kept(ellipsoid):
    run = ellipsoid
    spin = np.einsum("nij,nj->ni", np.asarray(matrix(jnp.asarray(run.q[:, 3:]))), run.p[:, 3:])
    angular = spin + np.cross(run.q[:, :3], run.p[:, :3])
    assert np.ptp(run.p[:, :2], axis=0).max() < 1e-13  # a vertical impulse: nothing is ever added
    scale = np.abs(angular).max()
    assert np.ptp(angular[:, 2]) < 1e-11 * scale  # rounding walk of 1e5 steps
    assert np.ptp(run.p[:, 2]) > 1 and np.ptp(angular[:, 0]) > 0.1  # the control: the floor does push and tilt


def test_rotations_stay_orthogonal_over_a_million_steps():
    run = rigid_body(gravity=0.0, height=10.0, velocity=(0.0, 0.0, 0.0), spin=(3.0, 0.01, 2.0)).solve(
        ORDER_4, dt=0.01, num_steps=10**6, stride=5000
    )
    turns = np.asarray(matrix(jnp.asarray(run.q[:, 3:])))
    defect = np.abs(np.einsum("nji,njk->nik", turns, turns) - np.eye(3)).max()
    assert defect < 16 * np.finfo(float).eps  # no walk at all: the norm is corrected in every step
    spin = np.einsum("nij,nj->ni", turns, run.p[:, 3:])
    assert np.ptp(spin, axis=0).max() < 1e-10 * np.abs(spin).max()  # angular momentum in space: a rounding walk of 1e6 steps
    error = run.energy_error
    assert np.abs(error).max() < 1e-5 and abs(run.energy_drift) < 1e-7  # bounded, (hω)⁴ ≈ 1e-6, and no slope


@pytest.mark.sensitive
def test_a_star_that_turns_about_one_axis_is_the_star_of_the_plane():
    """Two corners hit at once in space (an exact tie) and one in the plane: the same motion, up to the order of the rule."""
    body = rigid_body(
        vertices=[(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)],
        inertia=[1 / 6, 29 / 192, 1 / 6],
        height=3.5,
        velocity=(-2.0, 0.0, 0.0),
        spin=(0.0, 5.0, 0.0),
    )
    late = []
    for dt in (5e-4, 2.8e-4):
        flat, space = (m.solve(TRAPEZOIDAL, dt=dt, num_steps=round(2.29 / dt)) for m in (carom.models.star(), body))
        assert len(flat.impacts) == len(space.impacts) == 2
        np.testing.assert_allclose(space.impacts.impulses.sum(axis=1), flat.impacts.impulse, rtol=5e-3)
        pairs = np.sort(space.impacts.impulses, axis=1)
        np.testing.assert_allclose(pairs[:, -1], pairs[:, -2], rtol=1e-9)  # two corners share the blow
        assert np.all(pairs[:, :-2] == 0)
        late.append(np.abs(space.impacts.t - flat.impacts.t)[1])
    assert late[0] < 1e-5 and late[0] / late[1] == pytest.approx((5 / 2.8) ** 2, rel=0.1)  # the Cayley map turns a little less: h²


@pytest.mark.sensitive
@pytest.mark.parametrize(("model", "dt"), [(rigid_body, 3e-4), pytest.param(star_in_space, 1.5e-4, marks=pytest.mark.stress)])
def test_a_thousand_impacts_at_1e_10(model, dt):
    run = model().solve(ORDER_4, dt=dt, num_steps=10**8, max_impacts=1000, stride=100)
    assert len(run.impacts) >= 1000 and run.fallbacks == 0
    assert np.abs(run.energy_error).max() < 1e-10


def test_inertia_of_convex_hulls():
    box = rigid_body(vertices=[(x, y, z) for x in (0, 1.0) for y in (2, 4.0) for z in (-3, 0.0)], mass=2.0)
    a, b, c = 1.0, 2.0, 3.0
    np.testing.assert_allclose(box.params["inertia"], 2 / 12 * np.array([b**2 + c**2, a**2 + c**2, a**2 + b**2]), rtol=1e-12)
    np.testing.assert_allclose(np.abs(box.params["vertices"]), np.tile([a / 2, b / 2, c / 2], (8, 1)), rtol=1e-12)
    tetrahedron = rigid_body(vertices=[(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
    np.testing.assert_allclose(np.sort(tetrahedron.params["inertia"]), [0.0625, 0.0625, 0.1], rtol=1e-12)
    tilted = rigid_body(vertices=[(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 1)], inertia=[[1.0, 0.2, 0], [0.2, 1.0, 0], [0, 0, 1.0]])
    np.testing.assert_allclose(np.sort(tilted.params["inertia"]), [0.8, 1.0, 1.2])
    turned = np.asarray(tilted.params["vertices"])
    np.testing.assert_allclose(
        turned @ turned.T, np.asarray([[1, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]), atol=1e-12
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mass": 0.0}, "mass must be a positive number"),
        ({"half_axes": (1.0, -1.0, 1.0)}, "a list of 3 positive numbers"),
        ({"inertia": (1.0, 1.0, 3.0)}, "no body has the moments"),
        ({"inertia": (1.0, 1.0)}, "three moments or a symmetric"),
        ({"vertices": [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]}, "lie in a plane"),
        ({"vertices": [(0, 0), (1, 0)]}, "rows of 3 finite numbers"),
        ({"vertices": [(0, 0, 0), (1, 0, 0)]}, "four points in space"),
    ],
)
def test_bad_bodies_are_refused(arguments, message):
    with pytest.raises(carom.InputError, match=message):
        rigid_body(**arguments)


def test_bad_states_are_refused():
    model = rigid_body()
    with pytest.raises(carom.InputError, match="velocities of the system's space have 6"):
        model.solve(TRAPEZOIDAL, v0=[0.0] * 7)
    with pytest.raises(carom.InputError, match=r"floor.*deep"):
        model.solve(TRAPEZOIDAL, q0=[0, 0, 0.1, 1, 0, 0, 0])
    with pytest.raises(carom.InputError, match="unit quaternion"):
        model.solve(TRAPEZOIDAL, q0=[0, 0, 5, 1, 1, 0, 0])
    with pytest.raises(carom.InputError, match="vectors of lengths 7 and 6"):
        carom.rollout(model.system, TRAPEZOIDAL, model.q0, [0.0] * 7, dt=0.01, num_steps=1, params=model.params)

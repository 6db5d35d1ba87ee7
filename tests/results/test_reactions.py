"""What constraints do: their multipliers against Newton's law, and the starts and pendulums of the nonholonomic papers."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ORDER_4, TRAPEZOIDAL

import carom
from carom.diagnostics import measured_order


@pytest.fixture(scope="module")
def disk():
    return carom.models.rolling_disk().solve(ORDER_4, dt=0.02, num_steps=1500)


def test_reactions_are_what_newtons_law_asks_for(disk):
    """A disk that rolls in circles: the floor pushes its centre with m R θ′ φ′ across the heading, λ of (1) in [rodriguez2024]."""
    found = disk.reactions
    params, (theta, phi) = disk.params, (disk.v[:, 2], disk.v[:, 3])
    push = params["mass"] * params["radius"] * theta * phi
    exact = np.stack([-push * np.sin(disk.q[:, 3]), push * np.cos(disk.q[:, 3])], axis=1)
    np.testing.assert_allclose(found.forces, exact, atol=1e-12 * np.abs(exact).max() + 1e-13)
    assert np.abs(exact).max() > 1e-2  # control: there is something to push


def test_impulses_of_the_constraints_at_impacts(disk):
    """p⁺ − p⁻ = Λ∇φ + Aᵀλ̃: Λ is the impulse of the wall, and λ̃ alone spins the disk, −R (λ̃_x cos φ + λ̃_y sin φ) = I Δθ′."""
    hits, found, params = disk.impacts, disk.reactions, disk.params
    assert len(hits) >= 1 and found.residual < 1e-13
    jump, phi = hits.p_after - hits.p_before, hits.q[:, 3]
    spun = -params["radius"] * (found.impulses[:, 0] * np.cos(phi) + found.impulses[:, 1] * np.sin(phi))
    np.testing.assert_allclose(spun, jump[:, 2], atol=1e-12)
    assert np.abs(jump[:, 2]).max() > 1e-3 and np.abs(found.impulses).max() > 1e-3
    np.testing.assert_allclose(found.impulses[:, 0], jump[:, 0], atol=1e-12)  # the wall does not push along itself
    free = carom.solve(carom.System(lambda v: 0.5 * v @ v), TRAPEZOIDAL, [0.0], [1.0], dt=0.1, num_steps=1)
    with pytest.raises(carom.InputError, match="nothing reacts"):
        _ = free.reactions


def test_a_pendulum_that_does_not_wind_is_a_pendulum():
    """f ≡ 0 of §4.3 in [rodriguez2025] against a system of one angle, with the same wall; and the wall on one side only."""
    model = carom.models.nonholonomic_pendulum(winding=lambda theta: 0.0)
    run = model.solve(TRAPEZOIDAL, dt=0.01, num_steps=400)

    def plane(q, v):
        return 0.5 * 4.0 * v[0] ** 2 - 9.8 * 2.0 * jnp.cos(q[0])

    def walls(q):
        return jnp.stack([1.5 - 2.0 * jnp.sin(q[0]), 1.5 + 2.0 * jnp.sin(q[0])])

    flat = carom.solve(carom.System(plane, [carom.Contact(walls)]), TRAPEZOIDAL, model.q0[:1], model.v0[:1], dt=0.01, num_steps=400)
    assert len(run.impacts) == len(flat.impacts) >= 2
    np.testing.assert_allclose(run.q[:, 0], flat.q[:, 0], atol=1e-10)
    assert np.ptp(run.q[:, 1]) == 0.0
    one_sided = carom.models.nonholonomic_pendulum(wall="printed").solve(TRAPEZOIDAL, dt=0.01, num_steps=400)
    assert np.min(1.5 + 2.0 * np.sin(one_sided.q[:, 0])) < 0 <= np.min(1.5 - 2.0 * np.sin(one_sided.q[:, 0])) + 1e-12
    assert np.abs(one_sided.q[:100, 0] - flat.q[:100, 0]).max() > 0.01  # control: winding has inertia, and changes θ
    with pytest.raises(carom.InputError, match="wall must be 'cylinder' or 'printed'"):
        carom.models.nonholonomic_pendulum(wall="left")


def test_the_staggered_start_is_of_second_order():
    """§4.1 of [rodriguez2025]: q(0) ∓ hv/2 as the first two points, against the exact motion; q(0), q(0) + hv has order 1."""
    system = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    L_d = carom.discrete_lagrangian(system, carom.Midpoint())
    method, steps, errors = carom.VariationalCollision(carom.Midpoint()), [0.1, 0.05, 0.025], {"staggered": [], "late": []}
    for h in steps:
        start = L_d.staggered([1.0], [0.5], h)
        late = L_d.legendre([1.0], [1.0 + 0.5 * h], h)
        for name, (t0, q0, p0) in {"staggered": start[:3], "late": (0.0, [1.0], late.p0)}.items():
            run = carom.solve(system, method, q0, p0=p0, dt=h, num_steps=round(2 / h), t0=float(t0))
            errors[name].append(abs(run.q[-1, 0] - np.cos(run.t[-1]) - 0.5 * np.sin(run.t[-1])))
    assert measured_order(steps, errors["staggered"]) == pytest.approx(2.0, abs=0.2)
    assert measured_order(steps, errors["late"]) == pytest.approx(1.0, abs=0.2)  # control

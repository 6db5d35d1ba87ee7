"""What classes declare is so, and defects that were found once stay mended."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.methods.status import Outcome


@pytest.mark.parametrize("method", [carom.MoreauJean(), carom.TimeDG(1), carom.EventDriven()])
def test_interfaces_that_transmit_are_not_reflected_at(method):
    """Silently wrong once: these methods took the interfaces of bars for walls."""
    with pytest.raises(carom.InputError, match=r"interfaces that the motion goes through; choose VariationalCollision\(\)"):
        carom.models.bars(elements=(4, 4)).solve(method, num_steps=10)


def test_rollout_refuses_what_solve_refuses():
    bars = carom.models.bars(elements=(4, 4))
    with pytest.raises(carom.InputError, match="choose VariationalCollision"):
        carom.rollout(bars.system, carom.MoreauJean(), bars.q0, bars.v0, dt=0.01, num_steps=2, params=bars.params)


def test_a_hamiltonian_has_checkpoints(tmp_path):
    system = carom.System(hamiltonian=lambda q, p: 0.5 * p @ p + q[0])
    run = lambda: carom.solve(  # noqa: E731
        system, TRAPEZOIDAL, [1.0], p0=[0.0], dt=0.1, num_steps=6, checkpoint=tmp_path / "run.zarr", every=2
    )
    first, again = run(), run()
    np.testing.assert_array_equal(first.q, again.q)
    assert first.q[-1, 0] == pytest.approx(1.0 - 0.5 * 0.6**2, abs=1e-12)


def test_massless_directions_are_kept_by_ensembles():
    """Once checked with, and run without: two springs in a row, with no mass where they meet."""
    system = carom.System(lambda q, v: 0.5 * v[1] ** 2 - 10.0 * (q[0] ** 2 + (q[1] - q[0]) ** 2))
    method = carom.VariationalCollision(carom.Midpoint())
    lanes = carom.ensemble(system, method, [[0.5, 1.0]], [[0.0, 0.0]] * 2, dt=0.01, num_steps=50)
    exact = np.cos(np.sqrt(10.0) * 0.5)
    np.testing.assert_allclose(lanes.q_end, [[0.5 * exact, exact]] * 2, atol=2e-4)  # (ωh)²/12 of the phase ωt, order 2


@pytest.mark.stress
def test_symplectic_is_declared_where_it_is_measured():
    def lagrangian(q, v):
        return 0.5 * v @ v - q[1] - 0.1 * q[1] ** 3 - 0.2 * q[0] ** 2

    system = carom.System(lagrangian, [carom.Contact(lambda q: q[1])])
    state = ([0.1, 0.02], [0.3, -1.0])
    for method in (TRAPEZOIDAL, carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")):
        defect = carom.diagnostics.symplectic_defect(system, method, *state, 0.1)
        assert ("symplectic" in method.also_preserves(system)) == (defect < 1e-12), defect
    lossy = carom.System(lagrangian, [carom.Contact(lambda q: q[1], 0.5)])
    assert TRAPEZOIDAL.also_preserves(lossy) == ()
    assert carom.diagnostics.symplectic_defect(lossy, TRAPEZOIDAL, *state, 0.1) > 1e-3


def test_codes_are_sentences():
    assert Outcome.OK == 0 and all(outcome.sentence for outcome in Outcome)


def test_a_step_with_more_impacts_than_the_table_has_rows_is_taken_again():
    """Mass ratio 1000²: 3141 elastic impacts, nearly all of them in one step."""
    system = carom.System(
        lambda v: 0.5 * (v[0] ** 2 + 1e6 * v[1] ** 2), [carom.Contact(lambda q: q[0]), carom.Contact(lambda q: q[1] - q[0])]
    )
    run = carom.solve(system, TRAPEZOIDAL, [1.0, 2.0], [0.0, -1.0], dt=1.0, num_steps=10)
    assert len(run.impacts) == 3141


def test_a_loss_that_accumulates_still_ends_the_run():
    ball = carom.models.particle(restitution=0.5)
    with pytest.raises(carom.SolveError, match="coming to rest"):
        ball.solve(TRAPEZOIDAL, num_steps=2000)
    rest = carom.System(lambda q, v: 0.5 * v @ v - q[0], [carom.Contact(lambda q: q[0])])
    with pytest.raises(carom.SolveError, match="rest"):
        carom.solve(rest, TRAPEZOIDAL, [0.0], [0.0], dt=0.1, num_steps=3)


def test_forces_on_masses_at_nodes():
    """A damped and driven chain of two masses, against the same system written by its Lagrangian."""
    force = lambda q, v, t: -0.5 * v + jnp.array([jnp.sin(t), 0.0])  # noqa: E731
    potential = lambda q: 2.0 * (q[0] ** 2 + (q[1] - q[0]) ** 2)  # noqa: E731
    lumped = carom.LumpedSystem(lambda: jnp.array([1.0, 2.0]), potential, carom.Euclidean(2), external=force)
    plain = carom.System(lambda q, v: 0.5 * (v[0] ** 2 + 2 * v[1] ** 2) - potential(q), force=force)
    start = {"q0": [0.3, -0.2], "v0": [0.0, 0.5], "num_steps": 200}
    ends = {dt: carom.solve(lumped, TRAPEZOIDAL, dt=dt, **{**start, "num_steps": round(2 / dt)}).q[-1] for dt in (0.02, 0.01)}
    exact = carom.solve(plain, carom.EventDriven(), dt=0.1, **{**start, "num_steps": 20}).q[-1]
    errors = [np.abs(end - exact).max() for end in ends.values()]
    assert errors[1] < 1e-4 and errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)  # order 2
    gradient = jax.grad(lambda x: carom.rollout(lumped, TRAPEZOIDAL, [x, -0.2], [0.0, 0.5], dt=0.02, num_steps=20).q[-1, 0])(0.3)
    assert jnp.isfinite(gradient)

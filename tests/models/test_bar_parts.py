"""Bars that are held, driven, pushed, damped and rubbed, against exact answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.diagnostics import action_gradient, symplectic_defect
from carom.models import bars

ONE = {"lengths": (1.0,), "densities": (1.0,), "moduli": (1.0,), "speeds": (0.0,), "gaps": ()}


def _pulse(t):
    """Twice differentiable, and over at t = 0.4."""
    return 0.01 * jnp.where((t > 0) & (t < 0.4), jnp.sin(jnp.pi * t / 0.4) ** 4, 0.0)


def test_a_driven_end_sends_the_exact_wave():
    """At Δt = Δs/c the lumped bar is exact at its nodes: d'Alembert's u = f(t − s) + f(t + s − 2), the end s = 1 free."""
    model = bars(**ONE, elements=(40,), ends=(_pulse, "free"))
    run = model.solve(TRAPEZOIDAL, dt=1 / 40, num_steps=76)  # the wave is back at the driven end at t = 2
    s, t = np.arange(41) / 40, run.t[:, None]
    exact = np.asarray(_pulse(t - s) + _pulse(t + s - 2))
    np.testing.assert_allclose(run.q - s, exact, atol=1e-13)  # of displacements up to 0.02, after 76 steps of rounding
    assert np.abs(run.q - s).max() > 0.0199  # doubled at the free end
    np.testing.assert_allclose(run.v[:, 0], np.asarray(jax.vmap(jax.grad(_pulse))(jnp.asarray(run.t))), atol=1e-14)
    held = bars(**ONE, elements=(40,), ends=(_pulse, "fixed")).solve(TRAPEZOIDAL, dt=1 / 40, num_steps=76)
    np.testing.assert_allclose(held.q - s, np.asarray(_pulse(t - s) - _pulse(t + s - 2)), atol=1e-13)  # turned over
    assert np.abs(held.q - run.q).max() > 0.019  # control: the ends are not the same


def test_a_horn_has_the_exact_frequencies():
    """S = exp(2as): ω² = c² ((nπ/L)² + a²) between fixed ends, by elements with (1) of bar_parts.py, of order 2."""
    a, modes = 1.5, np.arange(1, 4)

    def frequencies(elements, a):
        horn = lambda s: np.exp(2 * a * s)  # noqa: E731
        model = bars(**(ONE | {"densities": (horn,)}), section=horn, elements=(elements,), ends=("fixed", "fixed"))
        m = model.system.bind(model.params, 0)
        stiffness = -np.asarray(jax.jit(jax.jacfwd(m.force))(jnp.asarray(model.q0)))[1:-1, 1:-1]
        root = 1 / np.sqrt(np.asarray(m.masses)[1:-1])
        return np.sqrt(np.linalg.eigvalsh(root[:, None] * stiffness * root)[:3])

    exact = np.sqrt((modes * np.pi) ** 2 + a**2)
    coarse, fine = (np.abs(frequencies(n, a) / exact - 1) for n in (12, 24))
    assert fine.max() < 0.01
    np.testing.assert_allclose(coarse / fine, 4.0, rtol=0.05)  # order 2
    straight = frequencies(24, 0.0)
    np.testing.assert_allclose(straight, 48 * np.sin(modes * np.pi / 48), rtol=1e-12)  # of equal masses and springs, exact
    assert (np.abs(straight / exact - 1) > 0.01).all()  # control


def test_free_vibrations_decay_as_they_must():
    """The first mode of a bar, fixed and free, with Rayleigh's damping: one damped oscillator, by a rule of order 2."""
    n, alpha, beta = 8, 0.3, 0.02
    model = bars(**ONE, elements=(n,), ends=("fixed", "free"), damping=(alpha, beta))
    s, size = np.arange(n + 1) / n, 1e-3
    omega = 2 * n * np.sin(np.pi / (4 * n))
    rate = 0.5 * (alpha + beta * omega**2)
    damped = np.sqrt(omega**2 - rate**2)
    errors = []
    for steps in (200, 400):
        run = model.solve(TRAPEZOIDAL, q0=s + size * np.sin(0.5 * np.pi * s), dt=10.0 / steps, num_steps=steps)
        t = run.t
        exact = np.exp(-rate * t) * (np.cos(damped * t) + rate / damped * np.sin(damped * t))
        shape = size * exact[:, None] * np.sin(0.5 * np.pi * s)
        errors.append(np.abs(run.q - s - shape).max() / size)
    assert errors[1] < 2e-3 and errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)
    assert np.exp(-rate * 10.0) < 0.2  # control: without damping the error would be 0.8
    assert run.energy[-1] < 0.05 * run.energy[0] and np.all(np.diff(run.energy) < 1e-12)


def test_a_force_of_ones_own_in_time():
    """The momentum of a free bar is the sum of its impulses, ½h at both ends of each step, to rounding; and the integral."""

    def shake(t, params):
        return params["mass"] * jnp.cos(3 * t)

    model = bars(**ONE, elements=(4,), force=shake)
    run = model.solve(TRAPEZOIDAL, dt=0.01, num_steps=200)
    f = np.cos(3 * run.t)
    impulses = np.concatenate([[0.0], np.cumsum(0.5 * 0.01 * (f[1:] + f[:-1]))])
    np.testing.assert_allclose(run.p.sum(axis=1), impulses, atol=1e-14)
    np.testing.assert_allclose(impulses, np.sin(3 * run.t) / 3, atol=0.01**2)
    np.testing.assert_allclose(run.q - run.q[:, :1], np.broadcast_to(np.arange(5) / 4, (201, 5)), atol=1e-14)  # rigid


@pytest.mark.parametrize("steps", [64, 60.7])
def test_a_sliding_bar_stops_where_it_must(steps):
    """v²/(2μg) after v/(μg): exactly where the last step ends there, else within what one step may miss."""
    model = bars(**ONE | {"speeds": (1.0,)}, elements=(3,), friction=0.5)
    dt = 2.0 / steps
    run = model.solve(dt=dt, num_steps=100)
    stopped = run.t > 2.0 + dt
    distance = run.q[-1] - run.q[0]
    np.testing.assert_allclose(distance, 1.0, atol=1e-14 if steps == 64 else 0.5 * 0.5 * dt**2)
    assert np.all(run.p[stopped] == 0) and np.all(np.ptp(run.q[stopped], axis=0) == 0)  # and rests, to the last bit
    sliding = run.t < 2.0 - dt
    np.testing.assert_allclose(run.v[sliding, 0], 1 - 0.5 * run.t[sliding], atol=1e-13)
    assert model.solve(dt=dt, num_steps=100, params={"friction": 0.25}).q[-1, 0] > 1.2  # control


def test_friction_holds_what_pulls_less():
    """A bar stretched by less than friction can hold stays as it is, to the last bit; by more it moves."""
    model = bars(**ONE, elements=(3,), friction=0.5)
    most = 0.5 * np.asarray(model.params["mass"])[[0, -1]].min() / model.params["stiffness"][0]
    for share, still in ((0.99, True), (1.01, False)):
        q0 = np.array(model.q0)
        q0[-1] += share * most
        run = model.solve(q0=q0, dt=0.02, num_steps=20)
        assert bool(np.all(run.q == q0)) == still
    with pytest.raises(carom.InputError, match="goes back in time"):
        model.solve(carom.VariationalCollision())
    with pytest.raises(carom.InputError, match="dry friction"):
        model.solve(carom.EventDriven())


@pytest.mark.parametrize("held", ["wall", "end"])
def test_what_moves_steadily_is_what_rests_seen_from_a_train(held):
    """A wall that moves at w, or an end that is driven at w, is one that rests for who moves along: impacts, their sizes from the
    balance of energy, and all nodes agree. It would not be so without the work of wall and support in that balance."""
    w, end = 0.2, held == "end"
    shape = {"lengths": (1.0, 1.0), "densities": (1.0, 2.0), "moduli": (1.0, 1.0), "elements": (3, 2), "integrator": 1}
    wall = {} if end else {"wall": lambda t: w * t}
    moves = bars(**shape, gaps=(0.01,) if end else (0.01, 0.02), speeds=(0.5, w) if end else (0.0, 0.0), **wall,
                 ends=("free", (lambda t: w * t) if end else "free"))  # fmt: skip
    rests = bars(**shape, gaps=(0.01,) if end else (0.01, 0.02), speeds=(0.5 - w, 0.0) if end else (-w, -w), wall=int(not end),
                 ends=("free", "fixed" if end else "free"))  # fmt: skip
    one, other = (model.solve(TRAPEZOIDAL, dt=0.02, num_steps=60) for model in (moves, rests))
    assert len(one.impacts) == len(other.impacts) >= 3
    np.testing.assert_allclose(one.impacts.t, other.impacts.t, rtol=1e-10)
    np.testing.assert_allclose(one.impacts.scale, other.impacts.scale, rtol=1e-8)
    assert np.abs(one.impacts.scale - 1).max() > 1e-5  # the balance did something
    np.testing.assert_allclose(one.q - w * one.t[:, None], other.q, atol=1e-10)
    assert np.abs(one.q - other.q).max() > 0.2  # control: they are not the same run
    assert action_gradient(other).in_roundings < 50  # also with an end that is held, whose variation is none
    if end:
        with pytest.raises(carom.InputError, match="supports that move have no action"):
            action_gradient(one)


def test_the_balance_is_symplectic_and_the_reflection_is_not():
    """Over a step with an impact of stretched bars: why the balance is the default."""
    model = bars(lengths=(1.0, 1.0), elements=(2, 2), integrator=1, gaps=(0.004,))
    q = np.asarray(model.q0) + np.array([0.0, 0.01, 0.0, -0.005, 0.0, 0.0])
    p = np.asarray(model.params["mass"]) * np.asarray(model.v0)
    reflection = carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")
    defects = [symplectic_defect(model.system, way, q, p, 0.05, params=model.params) for way in (TRAPEZOIDAL, reflection)]
    assert defects[0] < 1e-14 and defects[1] > 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ends": "fixed"}, "ends are two"),
        ({"ends": ("free", "loose")}, "'free', 'fixed' or a function of t"),
        ({"ends": ("fixed", "free"), "wall": 1, "gaps": (0.1, 0.1)}, "left end must be free"),
        ({"wall": lambda t: 0.0, "gaps": (0.1, 0.1)}, "integrator=1"),
        ({"friction": -1.0}, "a number that is not negative"),
        ({"densities": (lambda s: s - 1.0, 1.0)}, "not positive and finite"),
        ({"section": (1.0, -1.0)}, "section must be a positive"),
    ],
)
def test_bad_bars_are_refused(changes, message):
    with pytest.raises(carom.InputError, match=message):
        bars(**changes)


def test_a_start_that_its_support_does_not_allow_is_refused():
    model = bars(**ONE, elements=(2,), ends=("fixed", lambda t: 0.1 * t))
    with pytest.raises(carom.InputError, match="asks for the velocity 0 of entry 0"):
        model.solve(v0=[1.0, 0.0, 0.1])
    with pytest.raises(carom.InputError, match="asks for the place 1 of entry 2"):
        model.solve(q0=[0.0, 0.5, 1.2])
    with pytest.raises(carom.InputError, match="every direction is held"):
        bars(**ONE, elements=(1,), ends=("fixed", "fixed"))

"""Time-discontinuous Galerkin methods: the numbers, the orders, rest, lift-off, friction."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import carom
from carom import models
from carom.methods.timestepping.time_dg import tableau
from carom.models.balls import lift_off_angle, zeno
from carom.models.blocks import slide_acceleration, stopping_distance
from carom.papers import studies

PROBLEMS = {problem.key: problem for problem in studies.problems()}


@pytest.mark.parametrize("degree", range(1, 9))
def test_the_numbers_have_their_closed_forms(degree):
    minus, plus = tableau(degree, "-"), tableau(degree, "+")
    end = 1 / (2 * degree**2) if degree % 2 else 1 / (2 * (degree**2 - 1))
    assert minus.weights[[0, -1]] == pytest.approx([end, end], abs=1e-15)
    sign = (-1.0) ** np.arange(degree + 1)
    first = minus.weights[0] * np.concatenate([[1.0], 2 * sign[1:-1], [sign[-1]]])
    np.testing.assert_allclose(plus.velocities[0], first, atol=1e-13)  # (69): v₀ of D+, condensed
    assert plus.kicks[0] == pytest.approx(sign[-1], abs=1e-12) and plus.kicks[-1] == pytest.approx(1.0, abs=1e-12)
    for numbers in (minus, plus):
        assert numbers.weights @ numbers.kicks == pytest.approx(0.0, abs=1e-13)  # q₁ does not feel p
        powers = numbers.nodes[:, None] ** np.arange(degree)
        inner = numbers.nodes[:, None] ** np.arange(1, degree + 1) / np.arange(1, degree + 1)
        np.testing.assert_allclose(numbers.velocities @ powers, inner, atol=1e-12)  # exact for accelerations of degree M − 1
    at_end = minus.velocities[-1] + minus.weights[-1] * (np.eye(degree + 1)[-1] - _last_of_pruned(minus.nodes))
    np.testing.assert_allclose(at_end, minus.weights, atol=1e-12)  # (75): v₁ of D− has the weights of Clenshaw and Curtis


def _last_of_pruned(nodes):
    """The pruned Lagrange basis at 1, with a zero for the node it leaves out."""
    inner = nodes[:-1]
    basis = [np.prod([(1 - inner[k]) / (inner[j] - inner[k]) for k in range(len(inner)) if k != j]) for j in range(len(inner))]
    return np.array([*basis, 0.0])


def check_orders(method, degree):
    """Velocity M + 1 in L1, position and interaction M + 1 or M + 2, as they are at the points of the grid."""
    nodal = degree + 1 + (degree % 2 == 0)
    swing = studies.measure("", method, PROBLEMS["swing"])
    assert swing.order("v") == pytest.approx(degree + 1, abs=0.15)
    assert swing.order("q") == pytest.approx(nodal, abs=0.3)  # four sizes, not all in the asymptotic range
    assert swing.order("end") == pytest.approx(nodal, abs=0.3)
    press = studies.measure("", method, PROBLEMS["press"])
    assert nodal - 0.5 < press.order("i") < degree + 2.3  # M + 2 within a step, the nodal order from step to step: both are seen
    assert method.order == nodal


@pytest.mark.parametrize(("degree", "side"), [(1, "-"), (2, "+"), (3, "-")])
def test_orders(degree, side):
    check_orders(carom.TimeDG(degree, side), degree)


@pytest.mark.stress
@pytest.mark.parametrize("side", ["-", "+"])
@pytest.mark.parametrize("degree", range(1, 6))
def test_all_orders(degree, side):
    method = carom.TimeDG(degree, side)
    check_orders(method, degree)
    combined = studies.measure("", method, PROBLEMS["4.4"])
    for what in "qvi":
        assert combined.order(what) == pytest.approx(1.0, abs=0.25)  # fluctuates with where impacts fall in a step


def test_the_papers_orders():
    """Moreau–Jean 1/1/1 and D− of degree 1 2/2/1: free flight, rest, both with accumulating impacts."""
    for method, smooth in ((carom.MoreauJean(1.0), 1), (carom.TimeDG(1), 2)):
        flight = studies.measure("", method, PROBLEMS["4.2"])
        assert flight.order("q") == pytest.approx(smooth, abs=0.12) and flight.order("v") == pytest.approx(smooth, abs=0.12)
        assert np.all(flight.errors["i"] == 0.0)
        rest = studies.measure("", method, PROBLEMS["4.3"])
        assert rest.order("i") == pytest.approx(smooth, abs=0.02)
        assert np.all(rest.errors["q"] == 0.0) and np.all(rest.errors["v"] == 0.0)
        # Errors fluctuate with where impacts fall in a step: means over step sizes around 4/180 and 4/1440.
        coarse, fine = (tuple(int(n * 1.07**i) | 1 for i in range(9)) for n in (135, 1080))
        combined = studies.measure("", method, dataclasses.replace(PROBLEMS["4.4"], steps=coarse + fine))
        for what in "qvi":
            means = combined.errors[what].reshape(2, 9).mean(axis=1)
            assert np.log(means[0] / means[1]) / np.log(8) == pytest.approx(1.0, abs=0.2)
    assert studies.measure("", carom.TimeDG(3), PROBLEMS["4.2"]).order("v") is None  # control: exact, so no order to measure


@pytest.mark.parametrize("side", ["-", "+"])
def test_accumulating_impacts_end_at_rest(side):
    run = models.zeno_ball().solve(carom.TimeDG(1, side))
    late = run.t > 3.2
    assert np.all(run.v[late] == 0.0) and np.all(np.abs(run.q[late]) < 1e-15)
    assert run.q.min() > -1e-15  # no penetration
    t = np.linspace(3.2, 5.0, 77)
    np.testing.assert_allclose(run.dense.interaction(t)[:, 0], 6 + 2 * (t - 3), atol=1e-12)  # momentum balances
    np.testing.assert_allclose(run.dense.force(t)[:, 0], 2.0, atol=1e-12)
    assert np.all(run.dense.v(t) == 0.0)
    q, v, _ = zeno(np.array([0.5]))
    assert run.dense.q(0.5)[0, 0] == pytest.approx(q[0], abs=1e-12) and run.dense.v(0.5)[0, 0] == pytest.approx(v[0], abs=1e-12)
    with pytest.raises(carom.InputError, match="reaches from"):
        run.dense.q(6.0)
    with pytest.raises(carom.InputError, match="dense output needs"):
        models.zeno_ball().solve(carom.TimeDG(1, side), num_steps=10, stride=2).dense.q(0.05)


def test_degree_zero_is_moreau_jean():
    for side, theta in (("-", 0.0), ("+", 1.0)):
        one, other = models.zeno_ball().solve(carom.TimeDG(0, side)), models.zeno_ball().solve(carom.MoreauJean(theta))
        assert np.array_equal(one.q, other.q) and np.array_equal(one.p, other.p)
    assert not np.array_equal(models.zeno_ball().solve(carom.MoreauJean(0.5)).q, other.q)  # control


def test_lift_off_from_a_sphere_at_the_exact_angle():
    """The contact force is linear in cos θ, and zero at lift-off."""
    run = models.sphere(angle=0.2).solve(carom.TimeDG(2))
    force, angle = run.record.forces[:, -1, 0], np.arctan2(run.q[1:, 0], run.q[1:, 1])
    last = int(np.flatnonzero(force > 0)[-1])
    exact = lift_off_angle(0.2)
    assert angle[last - 1] < exact < angle[last + 1]
    slope, offset = np.polyfit(np.cos(angle[last - 20 : last]), force[last - 20 : last], 1)
    assert np.arccos(-offset / slope) == pytest.approx(exact, abs=5e-6)  # forces at the nodes are of order 3, dt = 0.01
    held = np.hypot(*run.q[: last + 1].T)
    assert np.max(np.abs(held - 1)) < 1e-15 and np.all(np.diff(np.hypot(*run.q[last + 2 :].T)) > 0)
    assert abs(run.energy[last] / run.energy[0] - 1) < 1e-7  # order 4


def test_curved_contact_keeps_the_order():
    model = models.bowl(angle=1.0)
    errors = []
    for steps in (50, 100, 200):
        run = model.solve(carom.TimeDG(2), dt=1.0 / steps, num_steps=steps)
        assert np.max(np.abs(np.hypot(*run.q.T) - 1)) < 1e-15
        errors.append(abs(run.energy[-1] - run.energy[0]))
    assert carom.diagnostics.measured_order([1 / 50, 1 / 100, 1 / 200], errors) > 3.8  # 4, from above


@pytest.fixture(scope="module")
def method():
    return carom.TimeDG(2)


def test_a_block_sticks_slides_stops_and_tips(method):
    slope = 0.3
    for excess in (-1e-6, 1e-6):
        mu = np.tan(slope) / (1 + excess)
        run = models.block(slope=slope, friction=mu).solve(method)
        assert run.v[-1, 0] == pytest.approx(slide_acceleration(slope, mu) * run.t[-1], abs=1e-13)  # 6e-6 or 0
    exact, errors = stopping_distance(2.0, 0.1, 0.4), []
    for dt in (0.02, 0.005):
        run = models.block(slope=0.1, friction=0.4, speed=2.0).solve(method, dt=dt, num_steps=int(1.0 / dt))
        assert abs(run.v[-1, 0]) < 1e-15
        errors.append(abs(run.q[-1, 0] - exact))
    assert errors[0] < 4 * 0.02**2 and errors[1] < 4 * 0.005**2  # only the step in which it stops is of second order: a = 2.9
    for excess, tips in ((1e-3, False), (-1e-3, True)):
        run = models.block(slope=0.6, width=(1 + excess) * np.tan(0.6), height=1.0, friction=5.0).solve(method, num_steps=100)
        assert (abs(run.q[-1, 2]) > 1e-3) == tips


@pytest.mark.parametrize(("law", "expected"), [("impulse", [-1 / 3, 2 / 3, 2 / 3]), ("reflections", [0, 0, 1])])
def test_the_cradle_by_each_law(law, expected):
    run = models.cradle(3).solve(carom.TimeDG(1, simultaneous=law))
    np.testing.assert_allclose(run.v[-1], expected, atol=1e-13)


def _turning_points(start, friction, gravity=9.81):
    """Where a body that slides in a bowl of radius 1 turns round, until it sticks: w = θ′² obeys
    w′ = −2g sin θ − 2μ s (g cos θ + w) while θ′ has the sign s."""
    angles, sign = [start], -np.sign(start)
    while abs(np.tan(angles[-1])) > friction:
        slope = lambda x, w, s=sign: -2 * gravity * np.sin(x) - 2 * friction * s * (gravity * np.cos(x) + w)  # noqa: E731
        # θ′ is not known at a turning point; a little below it w is the slope times the way
        x0 = angles[-1] + sign * 1e-7
        stop = lambda x, w: w[0]  # noqa: E731
        stop.terminal = True
        found = solve_ivp(slope, (x0, x0 + sign * 3), [slope(x0, 0.0) * sign * 1e-7], events=stop, rtol=1e-11, atol=1e-13)
        angles.append(float(found.t_events[0][0]))
        sign = -sign
    return np.array(angles)


@pytest.mark.parametrize(("method", "accuracy"), [(carom.TimeDG(2), 1e-4), (carom.MoreauJean(), 1e-2)], ids=["time_dg", "moreau"])
def test_a_body_slides_to_rest_in_a_bowl(method, accuracy):
    """Friction on curved ground: each turning point, and the angle where it sticks. A step is 0.005: its square, and itself."""
    run = models.bowl(angle=1.0, friction=0.2).solve(method, dt=0.005, num_steps=800)
    angle = np.arctan2(run.q[:, 0], -run.q[:, 1])
    exact = _turning_points(1.0, 0.2)
    turns = np.flatnonzero(np.diff(angle)[1:] * np.diff(angle)[:-1] < 0) + 1
    assert len(exact) == 3
    np.testing.assert_allclose(angle[turns][: len(exact) - 2], exact[1:-1], atol=accuracy)
    assert angle[-1] == pytest.approx(exact[-1], abs=accuracy) and np.max(np.abs(run.v[-50:])) < 1e-12
    free = models.bowl(angle=1.0).solve(method, dt=0.005, num_steps=800)
    assert np.ptp(np.arctan2(free.q[-300:, 0], -free.q[-300:, 1])) > 1.5  # control: without friction it goes on


def _amplification(degree, side, spring, damper):
    """The spectral radius of one step of length 1 for v̇ = −spring q − damper v."""
    numbers, one = tableau(degree, side), np.ones(degree + 1)
    stages = np.eye(degree + 1) + spring * numbers.velocities @ numbers.positions + damper * numbers.velocities
    columns = []
    for q, v in ((1.0, 0.0), (0.0, 1.0)):
        speeds = np.linalg.solve(stages, v * one - spring * q * numbers.velocities @ one)
        forces = -spring * (q + numbers.positions @ speeds) - damper * speeds
        columns.append([q + numbers.weights @ speeds, v + numbers.weights @ forces])
    return np.abs(np.linalg.eigvals(np.array(columns).T)).max()


@pytest.mark.parametrize(
    ("degree", "side", "limit"),
    [(1, "-", 2.0), (1, "+", 2.0), (2, "-", 2.8), (2, "+", 2.8), (3, "+", 3.0), (4, "+", 3.1), (5, "-", 5.0)],
)
def test_stability_limits_of_the_docstring(degree, side, limit):
    """Stable up to ωh = limit, and not a tenth beyond. At the limit the eigenvalues meet: their rounding is the root of 1e-16."""
    assert max(_amplification(degree, side, w**2, 0.0) for w in np.linspace(0.05, limit, 200)) < 1 + 1e-7
    assert max(_amplification(degree, side, w**2, 0.0) for w in np.linspace(limit, limit + 0.1, 50)) > 1 + 1e-6


@pytest.mark.parametrize(("degree", "limit"), [(1, 2.0), (2, 5.4), (3, 14.0), (4, 21.0), (5, 34.0)])
def test_dampers_decay_as_the_docstring_says(degree, limit):
    sizes = np.logspace(-2, 6, 200)
    assert max(_amplification(degree, "+", 0.0, x) for x in sizes) <= 1 + 1e-12  # q itself stays: an eigenvalue of 1
    assert max(_amplification(degree, "-", 0.0, x) for x in np.linspace(0.01, limit, 200)) <= 1 + 1e-12
    assert _amplification(degree, "-", 0.0, 1.05 * limit) > 1.01


def test_stiff_dampers_are_implicit():
    """λh = 10⁴: side + decays onto the slow motion q̇ = −q/λ, also while a contact presses; side − cannot, and says so."""
    system = carom.System(
        lambda q, v: 0.5 * v @ v - 0.5 * q[0] ** 2 - 9.81 * q[1], [carom.Contact(lambda q: q[1])], force=lambda v: -1e6 * v
    )
    arguments = {"q0": [1.0, 0.0], "v0": [1.0, 0.0], "dt": 0.01, "num_steps": 50}
    run = carom.solve(system, carom.TimeDG(2, "+"), **arguments)
    assert run.v[-1, 0] == pytest.approx(-1e-6, rel=1e-5) and np.all(run.q[:, 1] == 0.0)
    assert run.q[-1, 0] == pytest.approx(1 + 1e-6 - 0.5e-6, abs=1e-11)  # v₀/λ, and the slow motion
    assert run.dense.interaction(0.5)[0, 0] == pytest.approx(9.81 * 0.5, abs=1e-12)
    explicit = carom.solve(system, carom.TimeDG(2, "-"), **arguments, throw=False)
    assert explicit.status.name == "not_finite"  # control


def test_bad_input_is_an_error():
    for arguments in ({"degree": -1}, {"degree": 1.5}, {"side": "left"}, {"simultaneous": "newton"}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            carom.TimeDG(**arguments)

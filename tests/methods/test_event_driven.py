"""EventDriven: impact times, missed events, corners, moving walls, accumulation, and how it fails."""

import sys

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import carom
from carom.methods.event_driven import EventDriven
from carom.numerics.sequences import accumulation_time

G = 9.81


def falling(q, v, params):
    return 0.5 * jnp.sum(v**2) - params["gravity"] * q[1] - params["cubic"] * q[1] ** 3


def floor(q, params):
    return q[1] - params["floor"]


BALL = carom.System(falling, [carom.Contact(floor, lambda params: params["restitution"])])


def ball(restitution=1.0, gravity=G, cubic=0.0, floor=0.0, y=1.0, v=(1.0, 0.0), dt=0.05, num_steps=200, method=None, **more):
    params = {"gravity": gravity, "cubic": cubic, "restitution": restitution, "floor": floor}
    method = EventDriven() if method is None else method
    return carom.solve(BALL, method, [0.0, y], list(v), dt=dt, num_steps=num_steps, params=params, **more)


# -- accuracy ------------------------------------------------------------------------------------------------------------


def test_bounces_of_a_ball_are_those_of_the_parabola():
    solution = ball()
    k = np.arange(len(solution.impacts))
    exact = np.sqrt(2 / G) * (2 * k + 1)
    assert len(k) == 11
    assert np.max(np.abs(solution.impacts.t - exact)) < 1e-13  # 10 seconds of rounding: every step is exact for a parabola
    assert np.max(np.abs(solution.energy_error)) < 1e-13  # likewise
    assert np.all(solution.impacts.scale == 1) and not np.any(solution.impacts.fallback)
    wrong = np.sqrt(2 / (G * 1.0001)) * (2 * k + 1)
    assert np.max(np.abs(solution.impacts.t - wrong)) > 1e-4  # control: times at another gravity


def test_the_tolerance_sets_the_error():
    errors = []
    for rtol in (1e-4, 1e-7, 1e-10):
        solution = ball(cubic=5.0, method=EventDriven(rtol=rtol, atol=rtol / 100), dt=5.0, num_steps=8)
        errors.append(np.max(np.abs(solution.energy_error)))
    assert errors[2] < 1e-8  # a hundred steps of 1e-10
    assert errors[0] > 1e3 * errors[2]  # control: a loose tolerance is visible


def test_the_output_grid_does_not_matter():
    fine, coarse = ball(cubic=5.0, num_steps=200), ball(cubic=5.0, dt=2.5, num_steps=4)
    assert np.max(np.abs(fine.impacts.t - coarse.impacts.t)) < 1e-9  # about 30 steps of 1e-10 each between impacts of order 1


def star(dt=0.04, num_steps=200, raised=0.0):
    model = carom.models.star()
    return model.solve(EventDriven(), dt=dt, num_steps=num_steps, q0=[0.0, 3.5 + raised, 0.0])


@pytest.mark.sensitive
def test_the_star_agrees_with_the_variational_method_until_chaos():
    count, nudge = 6, 1e-11
    reference = carom.models.star().solve(carom.VariationalCollision(), dt=0.004, num_steps=2000).impacts
    here, moved = star().impacts, star(raised=nudge).impacts
    difference = np.abs(here.t[:count] - reference.t[:count])
    growth = np.maximum.accumulate(np.abs(here.t[:count] - moved.t[:count])) / nudge  # of errors, from impact to impact
    assert np.array_equal(here.contact[:count], reference.contact[:count])
    assert np.all(difference < 1e-12 * (1 + growth))  # rounding of 2000 steps, and what the impacts make of it
    assert np.max(difference[:4]) < 1e-8  # the same as a number, while the growth is still below 1e4
    assert np.any(np.abs(here.t[:count] - moved.t[:count]) > 1e-12 * (1 + growth))  # control: a start 1e-11 higher


def test_long_steps_resolve_a_spinning_body():
    """Free fall and a steady spin allow the solver any step; the gaps in the error control keep it from spinning past a contact."""
    fine, coarse = star().impacts, star(dt=8.0, num_steps=1)
    assert np.max(np.abs(fine.t[:3] - coarse.impacts.t[:3])) < 1e-9  # tolerance of a few steps, grown by two impacts
    falls = 3.5 + 0.5 * np.sqrt(2) - 0.5 * G * coarse.t[-1] ** 2
    assert falls < 0 < coarse.q[-1, 1]  # control: without its impacts the star would be far below the floor


def double_pendulum(q, v):
    a, b = q
    cross = v[0] * v[1] * jnp.cos(a - b)
    return v[0] ** 2 + 0.5 * v[1] ** 2 + cross + G * (2 * jnp.cos(a) + jnp.cos(b))


def test_mass_that_depends_on_the_configuration():
    wall = carom.Contact(lambda q: 0.2 + jnp.sin(q[0]) + jnp.sin(q[1]), name="wall")
    system = carom.System(double_pendulum, [wall])

    def run(method, dt, num_steps):
        return carom.solve(system, method, [0.9, 0.6], [0.0, 0.0], dt=dt, num_steps=num_steps)

    rule = carom.VariationalCollision(carom.Galerkin(3))
    here, fine, coarse = run(EventDriven(), 0.05, 60), run(rule, 0.0125, 240), run(rule, 0.1, 30)
    assert len(here.impacts) == len(fine.impacts) == 2
    assert np.max(np.abs(here.impacts.t - fine.impacts.t)) < 1e-11  # 60 steps of 1e-13, and order 6 at 0.0125
    assert np.max(np.abs(here.energy_error)) < 1e-10  # the same in the energy
    assert np.max(np.abs(coarse.impacts.t - fine.impacts.t)) > 1e-8  # control: the comparison sees a long step


# -- which contact, and when ---------------------------------------------------------------------------------------------

ROD = carom.System(
    lambda v: 0.5 * v @ v,
    [carom.Contact(lambda q, params: q[0] ** 2 - params["depth"], name="rod"), carom.Contact(lambda q: q[0] + 7, name="wall")],
)


def rod(depth, dt, num_steps):
    return carom.solve(ROD, EventDriven(), [-5.0], [1.0], dt=dt, num_steps=num_steps, params={"depth": depth})


def test_a_thin_obstacle_inside_one_long_step_is_found_and_so_is_the_next_contact():
    radius = 1e-3
    found = rod(radius**2, dt=20.0, num_steps=2)
    exact = 5 - radius + (7 - radius) * np.arange(6)
    assert np.array_equal(found.impacts.contact, [0, 1] * 3)
    assert np.max(np.abs(found.impacts.t - exact)) < 1e-10  # the gap closes at 2e-3: its rounding 1e-14 over that

    def gap(t, y):
        return y[0] ** 2 - radius**2

    missed = solve_ivp(lambda t, y: [y[1], 0.0], (0, 10), [-5.0, 1.0], events=gap, first_step=10.0)
    assert len(missed.t_events[0]) == 0  # control: an event function looked at only at the ends of steps


def test_a_near_miss_is_no_impact():
    assert len(rod(-1e-9, dt=20.0, num_steps=1).impacts) == 0
    hit = rod(1e-9, dt=10.0, num_steps=1)
    assert len(hit.impacts) == 1  # control: as far to the other side
    assert abs(hit.impacts.t[0] - (5 - np.sqrt(1e-9))) < 1e-9  # gap rounding 1e-14 over a rate of 6e-5, with room


BOX = carom.System(
    lambda v: 0.5 * v @ v,
    [carom.Contact(lambda q: q[0], name="left"), carom.Contact(lambda q: q[1], name="bottom")],
)


def box(q0, v0):
    return carom.solve(BOX, EventDriven(), q0, v0, dt=5.0, num_steps=1)


def test_the_earlier_of_two_contacts_comes_first():
    first = box([1.0, 0.5], [-1.0, -1.0])
    assert np.array_equal(first.impacts.contact, [1, 0])
    assert np.allclose(first.impacts.t, [0.5, 1.0], rtol=0, atol=1e-14)  # straight lines
    assert np.array_equal(box([0.5, 1.0], [-1.0, -1.0]).impacts.contact, [0, 1])  # control: mirrored


def test_a_corner_is_one_impact_of_two_contacts():
    corner = box([1.0, 1.0], [-1.0, -1.0])
    assert len(corner.impacts) == 1
    assert np.allclose(corner.impacts.impulses, [[2, 2]], rtol=0, atol=1e-13)  # rounding
    assert np.allclose(corner.q[-1], [4, 4], rtol=0, atol=1e-13)  # back along the way it came
    assert len(box([1.0, 1.0 + 1e-6], [-1.0, -1.0]).impacts) == 2  # control: beside the corner


PISTON = carom.System(
    lambda q, v, t, params: 0.5 * v @ v + params["drive"] * jnp.cos(t) * q[0],
    [carom.Contact(lambda q, t, params: q[0] - params["speed"] * t, name="piston"), carom.Contact(lambda q: 1 - q[0], name="end")],
)


def piston(drive, speed, v0, num_steps, q0=0.5):
    return carom.solve(PISTON, EventDriven(), [q0], [v0], dt=0.25, num_steps=num_steps, params={"drive": drive, "speed": speed})


def test_a_moving_wall_gives_back_twice_its_speed():
    u = 0.1
    run = piston(drive=0.0, speed=u, v0=-0.7, num_steps=24)
    t, x, v, times, speeds = 0.0, 0.5, -0.7, [], []
    while True:  # the exact map: to the piston, v → 2u − v; to the end, v → −v
        wait = (x - u * t) / (u - v) if v < 0 else (1 - x) / v
        if t + wait > run.t[-1]:
            break
        t, x, v = t + wait, x + wait * v, (2 * u - v if v < 0 else -v)
        times.append(t)
        speeds.append(v)
    assert len(times) > 5
    assert np.allclose(run.impacts.t, times, rtol=0, atol=1e-12)  # rounding, grown by the bounces
    assert np.allclose(run.impacts.p_after[:, 0], speeds, rtol=0, atol=1e-12)
    assert not np.allclose(np.abs(speeds), 0.7)  # control: a wall at rest would keep the speed


def test_impacts_on_the_points_of_the_grid_are_not_mistaken_for_rest():
    run = piston(drive=0.0, speed=0.0, v0=1.0, num_steps=120)
    assert np.array_equal(run.impacts.t, 0.5 + np.arange(30))  # all of these numbers are exact in binary


def test_a_lagrangian_that_depends_on_time():
    run = piston(drive=0.1, speed=-10.0, v0=0.02, num_steps=24, q0=0.0)
    exact = 0.02 * run.t + 0.1 * (1 - np.cos(run.t))
    assert len(run.impacts) == 0
    assert np.max(np.abs(run.q[:, 0] - exact)) < 1e-10  # 24 steps of 1e-12
    assert np.max(np.abs(0.02 * run.t - exact)) > 0.1  # control: without the drive


def test_friction_at_the_impact():
    floor = carom.Contact(lambda q: q[1], 0.5, friction=0.2, slip=lambda q: q[0], name="floor")
    run = carom.solve(carom.System(lambda v: 0.5 * v @ v, [floor]), EventDriven(), [0.0, 1.0], [1.0, -1.0], dt=1.5, num_steps=1)
    assert np.allclose(run.p[-1], [1 - 0.2 * 1.5, 0.5], rtol=0, atol=1e-12)  # Coulomb: μ times the normal impulse, 1 + e


# -- where it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("restitution", "floor"), [(0.5, 0.0), (0.5, 3.0), (0.9, 0.0), (0.9, 3.0)])
def test_accumulating_impacts_stop_with_a_status_and_a_time(restitution, floor):
    run = ball(restitution, floor=floor, y=floor + 1, v=(0.0, 0.0), throw=False)
    exact = np.sqrt(2 / G) * (1 + restitution) / (1 - restitution)
    assert run.status.name in ("resting", "too_many_impacts")
    assert f"accumulate at t = {exact:.6g}"[:22] in run.status.message
    assert run.t[-1] <= exact < run.t[-1] + run.dt  # it stops in the very step
    assert abs(accumulation_time(run.impacts.t) - exact) < 1e-7  # a geometric series; at y = 3 a flight is known to 1e-8
    assert np.max(np.abs(run.impacts.q[:, 1] - floor)) < 1e-14 * (1 + floor)  # rounding: it does not sink into the floor
    early = run.impacts.t[:8]
    assert abs(accumulation_time(early) - exact) < 1e-6  # known long before
    assert abs(early[-1] - exact) > 1e-3  # control: the last impact alone is far from it


def test_impacts_that_do_not_accumulate_have_no_such_time():
    assert accumulation_time(ball().impacts.t) is None
    assert accumulation_time([]) is None and accumulation_time([0.1, 0.2]) is None
    assert accumulation_time(np.cumsum([1.0, 0.9, 0.2, 0.19, 0.04])) is None  # shrinking, not geometrically
    assert accumulation_time(np.cumsum(0.5 ** np.arange(30))) == pytest.approx(2.0, abs=1e-12)  # control


def test_resting_contact_stops_with_a_status():
    started = ball(restitution=1.0, y=0.0, throw=False)
    assert started.status.name == "resting" and started.num_steps == 0
    plastic = ball(restitution=0.0, throw=False)
    assert plastic.status.name == "resting"
    assert abs(plastic.impacts.t[-1] - np.sqrt(2 / G)) < 1e-9  # at the first touch, not later
    sliding = ball(restitution=0.0, y=0.0, gravity=0.0)
    assert sliding.status.ok and len(sliding.impacts) == 0  # control: nothing presses it on the floor
    thrown = ball(y=0.0, v=(0.0, 1.0), num_steps=4)
    assert thrown.status.ok and abs(thrown.t[-1] - 0.2) < 1e-12


def test_a_start_in_contact_that_moves_in_is_an_impact():
    run = ball(y=0.0, v=(0.0, -1.0), num_steps=3)
    assert run.impacts.t[0] == 0.0 and run.impacts.p_after[0, 1] == pytest.approx(1.0, abs=1e-14)
    assert len(run.impacts) == 1


def test_failures_are_named_and_end():
    system = carom.System(lambda q, v, params: 0.5 * v @ v + params["pull"] * q[0] ** 3 + params["edge"] * jnp.sqrt(1 - q[0]))

    def run(pull, edge, method):
        return carom.solve(system, method, [0.5], [1.0], dt=0.5, num_steps=8, params={"pull": pull, "edge": edge}, throw=False)

    assert run(0.0, -1.0, EventDriven()).status.name in ("not_finite", "not_converged")  # reaches q = 1: no root beyond
    assert run(-1.0, 0.0, EventDriven()).status.name in ("not_finite", "not_converged")  # runs off to −∞ in finite time
    assert run(0.0, 1.0, EventDriven()).status.ok  # control: turns back before q = 1
    assert run(0.0, 1.0, EventDriven(max_solver_steps=2, max_step=0.01)).status.name == "not_converged"


def test_an_implicit_solver_steps_over_what_is_stiff():
    """A spring before a wall, and beside it a damper 10⁴ times as fast: q₀ = cos 2t until t = π/3, then mirrored, and q₁ creeps. An
    explicit solver, the control, must take hundreds of steps from one grid point to the next."""
    wall = carom.Contact(lambda q: q[0] + 0.5)
    spring = lambda q, v: 0.5 * v @ v - 0.5 * 4.0 * q @ q  # noqa: E731
    system = carom.System(spring, [wall], force=lambda q, v: -1e4 * v * jnp.array([0.0, 1.0]))
    grid = {"q0": [1.0, 1.0], "v0": [0.0, 0.0], "dt": 0.1, "num_steps": 50}
    run = carom.solve(system, EventDriven(diffrax.Kvaerno5(), 1e-7, 1e-9, max_solver_steps=60), **grid)
    assert run.status.ok and run.impacts.t == pytest.approx([np.pi / 3, np.pi], abs=1e-6)  # ten times rtol
    slow = 0.5 * (1e4 - np.sqrt(1e8 - 16))  # λ² − 10⁴λ + 4 = 0
    assert run.q[-1, 1] == pytest.approx(np.exp(-5 * slow), abs=1e-6)
    explicit = EventDriven(diffrax.Tsit5(), 1e-7, 1e-9, max_solver_steps=60)
    assert not carom.solve(system, explicit, **grid, throw=False).status.ok


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="solver"):
        EventDriven(solver=3)
    with pytest.raises(ValueError, match="positive"):
        EventDriven(rtol=0.0)
    with pytest.raises(ValueError, match="reflections"):
        EventDriven(simultaneous="nonsense")
    assert EventDriven().order == 8 and "non-penetration" in EventDriven().preserves


def test_a_full_table_and_a_limit_of_impacts_do_not_change_the_run(monkeypatch):
    whole = ball(num_steps=100, cubic=5.0)
    monkeypatch.setattr(sys.modules["carom.running.chunked_run"], "ROWS", 3)
    parts = ball(num_steps=100, cubic=5.0)
    assert len(parts.impacts) == len(whole.impacts) > 6
    assert np.allclose(parts.impacts.t, whole.impacts.t, rtol=0, atol=1e-9)  # the pace of the solver starts anew in each part
    few = ball(num_steps=100, cubic=5.0, max_impacts=4)
    assert few.status.name == "impacts_reached" and len(few.impacts) == 4


def test_a_degenerate_hamiltonian_with_impacts():
    """H without p₂, [rodriguez2024]: q₂ stands still, p₂ follows −∂H/∂q₂ = −q₁ through the impacts, all in closed form."""
    hamiltonian = lambda q, p: 0.5 * p[0] ** 2 + (9.81 + q[1]) * q[0]  # noqa: E731
    system = carom.System(hamiltonian=hamiltonian, contacts=[carom.Contact(lambda q: q[0])])
    run = carom.solve(system, carom.EventDriven(), [1.0, 0.5], p0=[0.0, 0.2], dt=0.05, num_steps=40)
    g = 9.81 + 0.5
    fall = np.sqrt(2 / g)
    np.testing.assert_allclose(run.impacts.t, fall * (2 * np.arange(len(run.impacts)) + 1), atol=1e-13)
    since = (run.t + fall) % (2 * fall) - fall  # the time since the last turning point
    area = lambda s: s - g * s**3 / 6  # noqa: E731  # of one arc, from its top
    arcs = np.round((run.t - since) / (2 * fall))
    np.testing.assert_allclose(run.p[:, 1], 0.2 - 2 * arcs * area(fall) - area(since), atol=1e-13)
    assert len(run.impacts) == 2 and np.ptp(run.q[:, 1]) == 0.0
    assert np.ptp(run.p[:, 1]) > 0.5  # control: it moves

"""Moreau–Jean: rest, accumulating impacts, friction, many contacts."""

import jax.numpy as jnp
import numpy as np
import pytest

import carom
from carom import models
from carom.models.blocks import slide_acceleration, stack_force, stopping_distance

METHOD = carom.MoreauJean()


@pytest.fixture(scope="module")
def resting_stack():
    return models.stack().solve(METHOD)


@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_accumulating_impacts_end_at_rest(theta):
    run = models.zeno_ball().solve(carom.MoreauJean(theta))
    assert run.status.ok and run.v[-1, 0] == 0.0
    after = run.t >= 3.2
    assert np.all(run.v[after] == 0.0)
    total = np.cumsum(run.record.impulses[:, 0])
    np.testing.assert_allclose(total[after[1:]], 6 + 2 * (run.t[after] - 3), atol=1e-12)  # i(t), exact: momentum balances
    assert run.q.min() > -0.02  # penetration: at most a step at speed 2
    with pytest.raises(carom.SolveError, match="choose MoreauJean"):  # control: a collision integrator has to stop
        models.zeno_ball().solve(carom.VariationalCollision())


@pytest.mark.parametrize(("law", "expected"), [("impulse", [-1 / 3, 2 / 3, 2 / 3]), ("reflections", [0, 0, 1])])
def test_the_cradle_by_each_law(law, expected):
    run = models.cradle(3).solve(carom.MoreauJean(simultaneous=law))
    np.testing.assert_allclose(run.v[-1], expected, atol=1e-13)
    assert run.energy[-1] == pytest.approx(0.5, abs=1e-13)


def _box(q, v, params):
    return 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.1 * v[2] ** 2) - 9.81 * q[1]


def _corners(q):
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    body = jnp.array([[-0.5, -0.25], [0.5, -0.25], [0.5, 0.25], [-0.5, 0.25]])
    return q[:2] + body @ jnp.array([[c, s], [-s, c]])


def _floor_and_wall(q, params):
    """Each corner of the box above the floor and left of a wall, in the order that the matrix `order` puts them."""
    x, y = _corners(q).T
    return params["order"] @ jnp.concatenate([y, 1.0 - x])


def _along_floor_and_wall(q, params):
    x, y = _corners(q).T
    return params["order"] @ jnp.concatenate([x, y])


_BOX = carom.System(_box, [carom.Contact(_floor_and_wall, 0.4, friction=0.5, slip=_along_floor_and_wall)])


@pytest.mark.parametrize("method", [METHOD, pytest.param(carom.TimeDG(1), marks=pytest.mark.stress)], ids=["moreau", "time_dg"])
def test_the_order_of_contacts_changes_nothing(method):
    """A box thrown into a corner, eight contacts with friction: it lands askew, hits the wall and slides to rest."""
    rng, ends = np.random.default_rng(5), []
    for order in [np.arange(8), np.arange(8)[::-1], rng.permutation(8), rng.permutation(8)]:
        arguments = {"dt": 0.01, "num_steps": 150, "params": {"order": np.eye(8)[order]}}
        run = carom.solve(_BOX, method, [0.0, 0.8, 0.3], [2.0, -1.0, 2.0], **arguments)
        assert len(run.impacts) > 4 and set(order[run.impacts.contact]) == {0, 1, 5}
        ends.append(np.concatenate([run.q[-1], run.v[-1], [run.energy.sum()]]))
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], atol=1e-9)  # rounding, which each of a dozen impacts may multiply
    other = carom.solve(_BOX, method, [0.0, 0.8, 0.3 + 1e-6], [2.0, -1.0, 2.0], **arguments)
    assert np.max(np.abs(other.q[-1] - ends[0][:3])) > 1e-8  # control: another start is another end


def test_a_block_sticks_and_slides_at_the_angle_of_friction():
    slope = 0.3
    for excess in (-1e-6, 1e-6):
        mu = np.tan(slope) / (1 + excess)
        run = models.block(slope=slope, friction=mu).solve(METHOD)
        expected = slide_acceleration(slope, mu) * run.t[-1]
        assert run.v[-1, 0] == pytest.approx(expected, abs=1e-13)  # 6e-6 or 0: rounding of 200 steps
        assert (expected > 0) == (excess > 0)


def test_a_block_that_sticks_does_so_for_good():
    """Its velocity is zero to rounding, and that adds up: after five seconds its foot was open by 4e-15, and it fell for a step."""
    way = lambda run: np.abs(run.q - run.q[0]).max()  # noqa: E731
    block, dt, steps = models.block(), 0.01, 3000
    assert (
        way(block.solve(METHOD, dt=dt, num_steps=steps)) <= steps * dt * 1e-13 * 9.81 * dt
    )  # to 1e-13 of what forces do in a step
    lifted = [0.0, block.q0[1] + 1e-4 * 9.81 * dt**2, 0.0]  # control: more than (4) takes for closed falls on its feet
    assert way(carom.solve(block.system, METHOD, lifted, block.v0, dt=dt, num_steps=20, params=block.params)) > 1e-4


def test_a_sliding_block_stops_where_it_should():
    exact = stopping_distance(2.0, 0.1, 0.4)
    errors = []
    for dt in (0.01, 0.0025):
        run = models.block(slope=0.1, friction=0.4, speed=2.0).solve(METHOD, dt=dt, num_steps=int(1.0 / dt))
        assert abs(run.v[-1, 0]) < 1e-15
        errors.append(abs(run.q[-1, 0] - exact))
    a = 9.81 * (0.4 * np.cos(0.1) - np.sin(0.1))
    assert (
        errors[0] < a * 0.01**2 / 8 * 1.01 and errors[1] < a * 0.0025**2 / 8 * 1.01
    )  # the last step, shorter than dt, is averaged


def test_a_block_tips_over_its_lower_foot_at_width_over_height():
    slope = 0.6
    for excess, tips in ((1e-3, False), (-1e-3, True)):
        run = models.block(slope=slope, width=(1 + excess) * np.tan(slope), height=1.0, friction=5.0).solve(METHOD, num_steps=100)
        assert (abs(run.q[-1, 2]) > 1e-3) == tips
        assert abs(run.q[-1, 2]) < 1e-15 or run.q[-1, 2] < 0  # over the lower foot: clockwise


def test_a_stack_of_ten_rests_for_ten_seconds(resting_stack):
    run = resting_stack
    assert run.t[-1] == pytest.approx(10.0) and len(run.impacts) == 0
    assert np.max(np.abs(run.q - run.q[0])) < 1e-9
    force = run.record.impulses[-1, :20].reshape(10, 2).sum(axis=1) / run.dt
    np.testing.assert_allclose(force, stack_force(10), rtol=1e-9)
    control = models.stack(3, friction=0.05).solve(METHOD, v0=[0, 0, 0, 0, 0, 0, 1.0, 0, 0], num_steps=20)
    assert np.max(np.abs(control.q - control.q[0])) > 0.05  # control: a push moves it


def scenes(count, seed=0):
    """A wedge of two rough walls in space, and a particle thrown into it: slip in two directions on each."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        normals = rng.normal(size=(2, 3))
        normals /= np.linalg.norm(normals, axis=1)[:, None]
        other = np.stack([np.linalg.svd(n[None])[2][1:] for n in normals])
        yield {
            "normals": normals, "tangents": other, "friction": rng.uniform(0, 1.5), "restitution": 0.0,
            "gravity": rng.normal(size=3) * 5, "masses": rng.uniform(0.5, 3, 3),
        }, rng.normal(size=3), rng.normal(size=3) * 3  # fmt: skip


def wedge(theta):
    contact = carom.Contact(
        lambda q, params: params["normals"] @ q + 1.0,
        lambda params: params["restitution"],
        friction=lambda params: params["friction"],
        slip=lambda q, params: params["tangents"] @ q,
    )
    system = carom.System(lambda q, v, params: 0.5 * jnp.sum(params["masses"] * v**2) + params["gravity"] @ q, [contact])
    return system, carom.MoreauJean(theta)


def largest_gain(theta, restitution=0.0, count=40):
    system, method = wedge(theta)
    worst, touched = -np.inf, 0
    for params, q0, v0 in scenes(count):
        q0 = q0 * min(1.0, 0.9 / max(1e-9, -np.min(params["normals"] @ q0)))  # inside
        run = carom.solve(system, method, q0, v0, dt=0.02, num_steps=100, params={**params, "restitution": restitution})
        touched += int(np.any(run.record.impulses > 0))
        scale = np.max(np.abs(run.energy)) + np.max(np.sum(run.p * run.v, axis=1))
        worst = max(worst, float(np.max(np.diff(run.energy)) / scale))
    assert touched > count // 2
    return worst


def test_friction_never_adds_energy():
    assert largest_gain(1.0) < 1e-14  # rounding
    assert largest_gain(0.0) > 1e-4  # control: the explicit rule adds h²f²/2m in every step of free flight


def test_restitution_with_friction_adds_no_energy_beyond_a_closing_step():
    """θ = 1/2, where smooth motion keeps the energy: what a contact can add is h²f²/8m, where it closes as it opens."""
    gain = largest_gain(0.5, restitution=0.6)
    assert gain < (0.02 * 15) ** 2 / 8 / 0.5  # |f| < 15, m > 0.5, energies of order 1 or more


def test_two_walls_that_close_in_are_a_status():
    walls = [carom.Contact(lambda q, t: q[0] + 0.1 - t, 0.0, name="left"), carom.Contact(lambda q, t: 0.1 - t - q[0], 0.0)]
    run = carom.solve(carom.System(lambda v: 0.5 * v @ v, walls), METHOD, [0.0], [0.0], dt=0.01, num_steps=50, throw=False)
    assert run.status.name == "contact_unsolved" and "contradict" in run.status.message
    assert run.status.t == pytest.approx(0.1, abs=0.011) and np.all(np.isfinite(run.q))


def test_stiff_forces_are_implicit():
    """A spring with ωh = 50: the trapezoidal rule keeps its energy, the explicit rule explodes."""
    spring = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * 5000**2 * q @ q)
    run = carom.solve(spring, METHOD, [1.0], [0.0], dt=0.01, num_steps=100)
    assert np.max(np.abs(run.energy_error)) < 1e-10  # condition 50² times rounding, over 100 steps
    control = carom.solve(spring, carom.MoreauJean(0.0), [1.0], [0.0], dt=0.01, num_steps=20)
    assert control.energy[-1] > 1e10 * control.energy[0]  # control


def test_bad_input_is_an_error():
    with pytest.raises(ValueError, match="theta"):
        carom.MoreauJean(1.5)
    with pytest.raises(ValueError, match="simultaneous"):
        carom.MoreauJean(simultaneous="newton")
    massless = carom.System(lambda q, v: 0.5 * v[0] ** 2 - 0.5 * q @ q)
    with pytest.raises(carom.InputError, match=r"theta=1.*choose VariationalCollision"):
        carom.solve(massless, METHOD, [1.0, 0.0], [0.0, 0.0], dt=0.1, num_steps=3)


def test_parameters_of_joints_are_read():
    system = carom.System(lambda v: 0.5 * v @ v, joints=[carom.Joint(lambda q, params: q @ q - params["length"] ** 2)])
    run = carom.solve(system, carom.MoreauJean(0.5), [1.0, 0.0], [0.0, 1.0], dt=0.01, num_steps=1, params={"length": 1.0})
    assert run.status.ok
    with pytest.raises(carom.InputError, match="joint reads params"):
        carom.solve(system, carom.MoreauJean(0.5), [1.0, 0.0], [0.0, 1.0], dt=0.01, num_steps=1, params={"size": 1.0})


def test_what_has_no_mass_hands_nothing_on():
    """Wherever a run is stopped and gone on with, it is the same run: also where the wall holds the point without mass."""

    def lagrangian(q, v):
        return 0.5 * v[1] ** 2 - 10 * (q[0] ** 2 + (q[1] - q[0]) ** 2)

    wall = carom.Contact(lambda q: q[0] + 0.2, 0.0)
    system, start = carom.System(lagrangian, [wall]), ([0.5, 1.0], [0.0, 0.0])
    whole = carom.solve(system, carom.MoreauJean(1.0), *start, dt=0.01, num_steps=80)
    held = np.flatnonzero(whole.record.impulses[:, 0] > 0)
    first = held[0] + 1
    assert 60 < first < 70  # x/2 = cos(√10 t)/2 is at −0.2 after 0.627
    parts = carom.solve(system, carom.MoreauJean(1.0), *start, dt=0.01, num_steps=int(first)).extend(int(80 - first))
    np.testing.assert_allclose(parts.q, whole.q, rtol=0, atol=1e-13)
    assert whole.gaps.min() > -0.5 * 0.03  # a step at half the speed of the mass, which is below 3

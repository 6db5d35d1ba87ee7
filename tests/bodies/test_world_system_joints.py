"""Worlds with joints, springs and forces as Systems: the motion of world.solve, of other methods, and of the equations by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import carom
from carom.bodies import quaternions, shapes
from carom.bodies.world import World

G, LENGTH = 9.81, 0.5


def _double_pendulum(dim=2, angles=(1.2, 0.4)):
    """Two rods of one kilogram, in the plane by hinges, in space by a ball and a hinge."""
    world = World(gravity=(0, -G) if dim == 2 else (0, 0, -G))
    end, before = np.zeros(2), None
    for i, angle in enumerate(angles):
        along = np.array([np.sin(angle), -np.cos(angle)])
        middle = end + 0.5 * LENGTH * along
        if dim == 2:
            rod = shapes.Segment((0, -0.5 * LENGTH), (0, 0.5 * LENGTH), 0.01)
            said = {"position": middle, "orientation": angle, "inertia": LENGTH**2 / 12}
            body = world.add(rod, mass=1.0, **said)
            world.joint("hinge", body, before, at=end)
        else:
            turn = quaternions.exponential(np.array([0.0, -angle, 0.0]))
            inertia = np.diag([LENGTH**2 / 12, LENGTH**2 / 12, 1e-3])
            where = (middle[0], 0, middle[1])
            body = world.add(shapes.Capsule(0.01, LENGTH - 0.02), mass=1.0, inertia=inertia, position=where, orientation=turn)
            kind = {"kind": "ball"} if i == 0 else {"kind": "hinge", "axis": (0, 1, 0)}
            world.joint(kind.pop("kind"), body, before, at=(end[0], 0, end[1]), **kind)
        end, before = end + LENGTH * along, body
    return world


def _by_hand(angles, t_end):
    """The two angles, from Lagrange's equations of two rods, to 1e-12."""
    a, b, c = 4 / 3 * LENGTH**2, 0.5 * LENGTH**2, LENGTH**2 / 3

    def rate(_, y):
        turn = y[0] - y[1]
        mass = np.array([[a, b * np.cos(turn)], [b * np.cos(turn), c]])
        push = [-b * np.sin(turn) * y[3] ** 2 - 1.5 * G * LENGTH * np.sin(y[0])]
        push += [b * np.sin(turn) * y[2] ** 2 - 0.5 * G * LENGTH * np.sin(y[1])]
        return [*y[2:], *np.linalg.solve(mass, push)]

    return solve_ivp(rate, (0, t_end), [*angles, 0, 0], rtol=1e-12, atol=1e-12).y[:2, -1]


def test_a_double_pendulum_of_the_plane_is_that_of_lagranges_equations():
    """world.solve has order 2 and keeps the energy, VariationalCollision has order 4, EventDriven is as good as its tolerance."""
    angles, t_end = (1.2, 0.4), 0.5
    exact = _by_hand(angles, t_end)
    world = _double_pendulum()
    system, start = world.system, world.start
    assert len(system.joints) == 2 and start["q0"].shape == (6,)
    errors = {"world": [], "variational": [], "its energy": []}
    for n in (50, 100):
        run = world.solve(t_end / n, n)
        errors["world"].append(np.max(np.abs([run.body(f"body {i}").orientation[-1] for i in (0, 2)] - exact)))
        assert np.ptp(run.energy) < 1e-11
        found = carom.solve(system, carom.VariationalCollision(), **start, dt=t_end / n, num_steps=n)
        errors["variational"].append(np.max(np.abs(found.q[-1, [2, 5]] - exact)))
        errors["its energy"].append(np.max(np.abs(found.energy_error)))
        assert found.status.ok
    ratios = {name: coarse / fine for name, (coarse, fine) in errors.items()}
    assert 3.5 < ratios["world"] < 4.5 and 13 < ratios["variational"] < 19 and 11 < ratios["its energy"] < 21, errors
    driven = carom.solve(system, carom.EventDriven(), **start, dt=t_end / 50, num_steps=50)
    assert driven.status.ok and np.max(np.abs(driven.q[-1, [2, 5]] - exact)) < 1e-6
    loose = _by_hand((1.2, 0.41), t_end)  # control: another pendulum is somewhere else
    assert np.max(np.abs(loose - exact)) > 1e-3


@pytest.mark.stress
def test_a_double_pendulum_of_space_by_a_ball_and_a_hinge():
    """It is the one of the plane."""
    angles, t_end, n = (1.2, 0.4), 0.3, 60
    exact = _by_hand(angles, t_end)
    world = _double_pendulum(dim=3)
    system, start = world.system, world.start
    found = carom.solve(system, carom.VariationalCollision(), **start, dt=t_end / n, num_steps=n)
    turn = found.q[-1, 6:].reshape(2, 4)
    assert found.status.ok and np.max(np.abs(-2 * np.arctan2(turn[:, 2], turn[:, 0]) - exact)) < 2e-3
    gaps = [np.max(np.abs(np.asarray(joint.g(q=found.q[-1], t=0.0, params={})))) for joint in system.joints]
    assert max(gaps) < 1e-9


JOINTS = {
    "ball": {},
    "hinge": {"axis": (0, 0, 1)},
    "fixed": {},
    "slider": {"axis": (1, 0, 0)},
    "universal": {"axis": (0, 1, 0), "second": (0, 0, 1)},
    "distance": {},
}


@pytest.mark.parametrize("kind", JOINTS)
def test_joints_of_the_system_have_the_rows_of_the_world(kind):
    """The slopes of g span what the rows of world.solve span, at a place that is turned anyhow; and g is zero at the start."""
    rng = np.random.default_rng(3)
    world = World(gravity=(0, 0, 0))
    turns = [quaternions.normalise(rng.normal(size=4)) for _ in range(2)]
    inertia = np.array([[0.3, 0.05, 0.0], [0.05, 0.4, 0.02], [0.0, 0.02, 0.5]])
    a = world.add(shapes.Sphere(0.1), mass=1.0, inertia=inertia, orientation=turns[0], name="a")
    b = world.add(shapes.Sphere(0.1), mass=2.0, position=(1, 0, 0), orientation=turns[1], name="b")
    at = ((0.2, 0.1, 0), (0.8, 0, 0)) if kind == "distance" else (0.5, 0.1, 0)
    world.joint(kind, a, b, at=at, **JOINTS[kind])
    system, start = world.system, world.start
    mechanics = system.bind(start["params"], 12)
    slopes = np.asarray(mechanics.constraints(jnp.asarray(start["q0"]), 0.0))
    assert np.max(np.abs(np.asarray(system.joints[0].g(q=jnp.asarray(start["q0"]), t=0.0, params={})))) < 1e-12
    scene, state = world.scene()
    from carom.bodies.as_system import frame_of
    from carom.bodies.joints import joint_rows

    rows, frame = joint_rows(scene.joints, state.x, state.R, 3), frame_of(scene, state)
    own = np.zeros((len(rows), 12))
    for r in range(len(rows)):
        for body, sign, turn in ((rows.a[r], -1, rows.turn_a[r]), (rows.b[r], 1, rows.turn_b[r])):
            own[r, 3 * body : 3 * body + 3] = sign * rows.linear[r]
            own[r, 6 + 3 * body : 9 + 3 * body] = sign * frame.axes[body].T @ state.R[body].T @ turn
    assert slopes.shape == own.shape and np.linalg.matrix_rank(own, 1e-9) == len(own)
    assert np.linalg.matrix_rank(np.concatenate([slopes, own]), 1e-9) == len(own)
    own[0, 0] += 0.1  # control: another row is not among them
    assert np.linalg.matrix_rank(np.concatenate([slopes, own]), 1e-9) > len(own)


def test_forces_springs_and_dampers_are_those_of_the_world():
    """Accelerations of the system against the forces of the world, with bodies whose frames are neither centred nor principal."""
    world = World(gravity=(0, 0, -G))
    inertia = np.array([[0.3, 0.05, 0.0], [0.05, 0.4, 0.02], [0.0, 0.02, 0.5]])
    turn = quaternions.normalise(np.array([0.3, 0.5, -0.2, 0.7]))
    a = world.add(shapes.Sphere(0.1), mass=1.0, inertia=inertia, orientation=turn, velocity=(1, 2, 3), spin=(0.3, -0.2, 0.5))
    b = world.add([shapes.Sphere(0.1), shapes.Sphere(0.05).at((0.3, 0, 0))], mass=2.0, position=(2, 0, 1), spin=(0, 1, 2))
    world.spring(a, b, 30.0, at=((0.05, 0, 0), (2.1, 0, 1)), length=0.7, damping=0.4)
    world.spring(b, None, 10.0, at=((2, 0.1, 1), (3, 3, 3)), length=1.0)
    world.force(b, lambda position, orientation, velocity, spin, t: (
        jnp.array([1.0, t, 2.0]) - 0.3 * velocity + 0.1 * position,
        0.2 * spin + orientation[1:] * orientation[0],
    ))  # fmt: skip
    scene, state = world.scene()
    from carom.bodies.as_system import frame_of
    from carom.bodies.scene import accelerations

    force, torque = accelerations(scene, state, 0.7)
    frame, system, start = frame_of(scene, state), world.system, world.start
    mechanics = system.bind(start["params"], 12, general=True)
    q, v = jnp.asarray(start["q0"]), jnp.asarray(start["v0"])
    import jax

    def lifted(step):
        return system.potential(q=system.space.retract(q, step), params=start["params"])

    covector = -np.asarray(jax.grad(lifted)(jnp.zeros(12))) + np.asarray(mechanics.functions.force(q, v, 0.7))
    wanted = [force[i] for i in frame.free] + [frame.axes[k].T @ state.R[i].T @ torque[i] for k, i in enumerate(frame.free)]
    assert np.max(np.abs(covector - np.concatenate(wanted))) < 1e-12 * np.max(np.abs(covector)) + 1e-12
    assert np.max(np.abs(mechanics.functions.force(q, v, 1.7) - mechanics.functions.force(q, v, 0.7))) > 0.5  # control: of time


def test_what_works_in_a_joint_and_forces_of_numpy_are_refused_with_a_sentence():
    world = _double_pendulum()
    world.joints[0].speed = 1.0
    with pytest.raises(carom.InputError, match=r"'hinge 0' has a motor.*world\.solve"):
        _ = world.system
    world = World(gravity=(0, -G))
    disc = world.add(shapes.Disc(0.1), mass=1.0, name="disc")
    world.force(disc, lambda position: np.sin(position))
    with pytest.raises(carom.InputError, match=r"force on 'disc'.*jax\.numpy"):
        carom.solve(world.system, carom.VariationalCollision(), **world.start, dt=0.01, num_steps=2)

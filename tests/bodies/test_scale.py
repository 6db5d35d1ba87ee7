"""Many bodies: every step is solved to its certificate, and what a contact costs does not grow with their number."""

import time

import numpy as np
import pytest

from carom.bodies import islands, shapes
from carom.bodies.contact_rows import problem
from carom.bodies.stepping import Stepper
from carom.bodies.velocity import certificate, rates_after
from carom.bodies.world import World
from carom.numerics.blas_threads import one_thread
from carom.numerics.friction.stages import solve_friction


def _lattice(k, friction=0.5):
    """k³ balls in a box, each resting on the one below."""
    world = World()
    world.fix(shapes.HalfSpace())
    for normal in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)):
        world.fix(shapes.HalfSpace(normal, offset=-0.05 * k))
    for x, y, z in np.ndindex(k, k, k):
        world.add(shapes.Sphere(0.05), density=1000, position=(0.1 * x - 0.05 * (k - 1), 0.1 * y - 0.05 * (k - 1), 0.05 + 0.1 * z))
    world.material(friction=friction)
    return world


def _steps(world, count):
    """Seconds of the processor, and the record, of the last of some steps."""
    scene, state = world.scene()
    stepper = Stepper(scene, 1e-8)
    stepper.begin(state, 1e-3)
    with one_thread():  # as all runs do: the time of other threads that wait for this one counts too
        for i in range(count):
            clock = time.process_time()
            state, record = stepper.step(state, 1e-3 * i, 1e-3)
        return time.process_time() - clock, record, state


def test_a_lattice_of_balls_rests_and_each_column_carries_its_weight():
    k = 5
    _, record, state = _steps(_lattice(k), 2)
    assert record.converged and record.residual < 1e-12 and np.all(state.v == 0)
    table = record.tables[-1]
    weight = 1000 * 4 / 3 * np.pi * 0.05**3 * 9.81 * 1e-3
    floor = table.contacts.a == 0
    assert np.sum(floor) == k * k and np.allclose(table.impulse[floor, 2], k * weight, rtol=1e-9)


def test_islands_are_what_touches():
    world = _lattice(3)
    scene, state = world.scene()
    stepper = Stepper(scene, 1e-8)
    posed = stepper._look(state, state.v, state.L, 1e-3, 1.0)
    found = list(islands.bunches(scene, posed.rows))
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(len(posed.rows.a)))  # each row once


def test_few_and_many_contacts_have_the_same_islands(monkeypatch):
    rng = np.random.default_rng(0)
    for bodies, pairs in ((4, 0), (5, 3), (60, 40), (60, 90), (60, 250)):
        a, b = rng.integers(0, bodies, (2, pairs))
        few = islands.parts_of(a, b, bodies)  # the number of each is that of its first body
        with monkeypatch.context() as patch:
            patch.setattr(islands, "EDGES", -1)
            many = islands.parts_of.__wrapped__(a, b, bodies)  # numbered one after the other
        assert np.array_equal(np.unique(few, return_inverse=True)[1], many)
        assert np.array_equal(few, few[few]) and np.all(few[a] == few[b])
    assert len(np.unique(few)) < len(np.unique(islands.parts_of(a[:20], b[:20], bodies)))  # control: fewer pairs connect less


def test_the_certificate_without_matrices_is_that_of_the_solver():
    world = _lattice(3)
    scene, state = world.scene()
    stepper = Stepper(scene, 1e-8)
    posed = stepper._look(state, state.v, state.L, 1e-3, 1.0)
    rng = np.random.default_rng(0)
    moving = np.where(scene.free[:, None], 1.0, 0.0)  # rates of a motion: such a problem has an answer
    q = posed.rates(moving * rng.normal(size=state.v.shape), moving * rng.normal(size=state.L.shape))
    asked = problem(scene, posed.rows, posed.inverse, posed.inertia, q, posed.friction)
    r = np.abs(rng.normal(size=len(q)))
    assert np.allclose(rates_after(posed, q, r), asked.velocities(r), rtol=1e-12)
    assert certificate(posed, q, r) == pytest.approx(asked.residual(r), rel=1e-12)
    answer = solve_friction(asked, None, 1e-10).impulses
    assert certificate(posed, q, answer) <= 1e-10 < certificate(posed, q, r)  # control: any impulses do not solve it


@pytest.mark.stress
def test_the_time_of_a_contact_does_not_grow_with_their_number():
    """Of the fourth step, which begins where the third ended. The first, which knows nothing, closes a stack from below, one layer
    after the other: its time for a contact grows with the layers, by 2.9 from 5 to 15."""
    each = {}
    for k in (5, 15):
        tries = [_steps(_lattice(k), 4) for _ in range(2)]
        assert all(record.residual <= 1e-8 for _, record, _ in tries)
        each[k] = min(seconds for seconds, _, _ in tries) / len(tries[0][1].tables[-1].contacts)
    assert each[15] < 2 * each[5], each  # 375 and 8325 contacts

"""Contacts that are open cost their gap alone: the table of those that take part, its growth, and what it leaves out."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom
from benchmarks.open_contacts import discs
from carom.methods.loop import Grid, advance
from carom.methods.method import State
from carom.system.contacts import Contacts
from carom.system.contacts_in_step import Near, NearContacts, near_contacts, pick

PEGS = 44
ANGLES = 2 * np.pi * np.arange(PEGS) / PEGS
PLACES = 2.0 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
RADIUS = 0.3


def pegs(friction: float = 0.4, restitution: float = 0.5) -> carom.System:
    """A disc that rolls about in a ring of pegs, of which two touch it at most."""

    def lagrangian(q, v):
        return 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.25 * RADIUS**2 * v[2] ** 2 - 20.0 * q[1]

    def gap(q):
        return jnp.sqrt(jnp.sum((q[:2] - PLACES) ** 2, axis=1)) - RADIUS

    def slip(q, v):
        normal = (q[:2] - PLACES) / jnp.sqrt(jnp.sum((q[:2] - PLACES) ** 2, axis=1))[:, None]
        return (-normal[:, 1] * v[0] + normal[:, 0] * v[1] - RADIUS * v[2])[:, None]

    return carom.System(lagrangian, [carom.Contact(gap, restitution, friction=friction, slip=slip if friction else None)])


def test_pick_takes_what_is_wanted_in_order_and_says_when_it_is_full():
    wanted = jnp.asarray([False, True, False, True, True])
    near = pick(wanted, 4)
    assert list(near.index[:3]) == [1, 3, 4] and list(near.live) == [True, True, True, False] and not near.full
    assert pick(wanted, 2).full and not pick(wanted, 3).full
    values = jnp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    expected = np.zeros((5, 2))
    expected[[1, 3, 4]] = values[:3]
    assert np.array_equal(near.spread(values, 5), expected)
    large = near.spread(values, 5000)  # by another way
    assert np.array_equal(large[:5], expected) and not np.any(large[5:])


def test_rows_of_the_table_are_those_of_the_contacts():
    system = pegs()
    q, v, t = jnp.asarray([0.9, -1.0, 0.2]), jnp.asarray([0.3, -0.5, 1.0]), jnp.asarray(0.0)
    mechanics = system.bind({}, 3)
    everyone = mechanics.contacts
    index = jnp.asarray([3, 17, 40], jnp.int32)
    some = NearContacts(everyone, Near(index, jnp.ones(3, bool), jnp.asarray(False)))
    assert np.allclose(some.faces(q, t), everyone.faces(q, t)[index], rtol=0, atol=0)
    tangents, slides = everyone.tangents(q, v, t)
    for ours, theirs in zip(some.tangents(q, v, t), (tangents, slides), strict=True):
        assert np.allclose(ours, theirs[index], rtol=0, atol=1e-15)
    assert np.allclose(some.normals(q, t), everyone.normals(q, t)[index], rtol=0, atol=1e-15)
    assert np.allclose(some.gap_rounding(q, v, t, 0.1), everyone.gap_rounding(q, v, t, 0.1)[index], rtol=1e-14, atol=0)


def test_the_estimate_of_rounding_is_generous_enough():
    """A contact that counts as touching must be picked, whatever its slopes: two numbers out of a thousand derivatives."""
    system = pegs()
    functions = system.bind({}, 3).functions
    rng = np.random.default_rng(0)
    for _ in range(20):
        q, v, t = jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=3)), jnp.asarray(0.0)
        true, guess = functions.gap_rounding(q, v, t, 0.01), functions.gap_rounding_estimate(q, v, t, 0.01)
        assert np.all(np.asarray(true) <= 1000 * np.asarray(guess)) and np.all(np.asarray(guess) <= 3 * np.asarray(true))


@pytest.mark.parametrize(
    "method",
    [
        carom.MoreauJean(),
        pytest.param(carom.TimeDG(1), marks=pytest.mark.stress),
        pytest.param(carom.VariationalCollision(max_impacts_per_step=40), marks=pytest.mark.stress),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_run_with_the_table_is_the_run_with_all_contacts(method):
    """`solve` has room for 32 rows, `rollout` for all 88: the same contacts, impulses and motion, to rounding."""
    system = pegs()
    start = dict(q0=[0.1, -1.2, 0.0], v0=[0.6, -2.0, 2.0], dt=0.01, num_steps=60)
    with_table = carom.solve(system, method, **start)
    with_all = carom.rollout(system, method, **start, max_impacts=60)
    hits = len(with_table.impacts)
    assert hits >= 2 and hits == int(with_all.num_impacts)
    # Two impacts and 60 steps amplify rounding by far less than 10⁵.
    assert np.allclose(with_table.q, with_all.q, rtol=0, atol=1e-11) and np.allclose(with_table.p, with_all.p, rtol=0, atol=1e-10)
    assert np.allclose(with_table.impacts.impulses, with_all.impacts.impulse[:hits], rtol=0, atol=1e-10)
    assert np.count_nonzero(with_table.impacts.impulses) >= hits


def test_the_table_grows_when_more_contacts_close():
    """Forty beads on the floor: no program with room for 32 of them can take the first step."""
    beads = 40
    lagrangian = lambda q, v: 0.5 * v @ v - 9.81 * jnp.sum(q)  # noqa: E731
    system = carom.System(lagrangian, [carom.Contact(lambda q: q, 0.0, name="floor")])
    state = State(jnp.asarray(0.0), jnp.zeros(beads), jnp.zeros(beads))
    zero, one = jnp.asarray(0, jnp.int32), jnp.asarray(1, jnp.int32)
    grid = Grid(jnp.asarray(0.01), zero, one, jnp.asarray(9, jnp.int32), 1, 8, 32)
    chunk = advance(carom.MoreauJean(), system, {}, state, grid)
    assert int(chunk.status) == carom.methods.status.CONTACTS_FULL and int(chunk.steps) == 0
    rest = carom.solve(system, carom.MoreauJean(), np.zeros(beads), np.zeros(beads), dt=0.01, num_steps=5)
    assert rest.status.ok and np.max(np.abs(rest.q)) <= 1e-15
    assert np.allclose(rest.record.impulses, 9.81 * 0.01, rtol=1e-12)  # what carries each bead for a step


def _largest_square(jaxpr) -> int:
    """The smaller side of the largest matrix that a program makes."""
    sides = [sorted(v.aval.shape)[-2] for eqn in jaxpr.eqns for v in eqn.outvars if len(getattr(v.aval, "shape", ())) >= 2]
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    sides.append(_largest_square(inner))
    return max(sides, default=0)


@pytest.mark.parametrize("method", [carom.MoreauJean(), carom.TimeDG(1)], ids=lambda m: type(m).__name__)
def test_no_matrix_holds_all_contacts_twice(method):
    """The program of a step has no matrix with a row and a column per contact; with room for all it does (the control)."""
    system = pegs()
    state = State(jnp.asarray(0.0), jnp.zeros(3), jnp.zeros(3))
    zero = jnp.asarray(0, jnp.int32)

    def largest(rows):
        grid = Grid(jnp.asarray(0.01), zero, zero, zero, 1, 4, rows)
        return _largest_square(jax.make_jaxpr(lambda s: advance(method, system, {}, s, grid).state.q)(state).jaxpr)

    assert largest(32) <= 32 < PEGS < largest(10_000)


def test_where_there_is_room_nothing_is_gathered():
    contacts = Contacts(pegs().bind({}, 3).functions)
    q, t = jnp.zeros(3), jnp.asarray(0.0)
    assert near_contacts(contacts, q, q, t, 0.01) is None
    contacts.functions.contact_rows = 32
    assert contacts.room == 16
    assert near_contacts(contacts, q, q, t, 0.01) is not None


@pytest.mark.stress
def test_open_contacts_cost_their_gap_and_no_more():
    """Discs with friction that begin to fall: 8, 12 and 50 of them, with 52, 102 and 1375 gaps. Once a step of 12 cost 167 times
    that of 8, and one of 50 a hundred times more again. From 12 to 50 there are 13 times as many gaps; four times that is allowed,
    for what else a step does and for caches. Between 8 and 12 lies the change from rows for all contacts to a table of those that
    are near: 6 to 14 times, by the machine; 30 are allowed. From below: 50 discs cost more than 12, or nothing was measured."""
    took = {}
    for n, steps in ((8, 400), (12, 400), (50, 400)):  # 0.04 s: in free flight
        system, q0, v0 = discs(n)
        solve = lambda k, system=system, q0=q0, v0=v0: carom.solve(  # noqa: E731
            system, carom.MoreauJean(), q0, v0, dt=1e-4, num_steps=k, throw=False
        )
        solve(1), solve(steps)  # compiles, and lets tables grow
        clocks = {1: [], steps: []}
        for k in 9 * [1, steps]:
            before = time.perf_counter()  # not of the processors: on many cores, threads that wait for work count there as well
            solve(k)
            clocks[k].append(time.perf_counter() - before)
        took[n] = (min(clocks[steps]) - min(clocks[1])) / (steps - 1)  # the least: others may be busy
    assert took[12] < 30 * took[8]
    assert took[12] < took[50] < 4 * 13 * took[12]

"""The laws of impact: restitution, friction, simultaneous contacts, and independence of the listing order."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.contact import laws
from carom.contact.laws import RIDGE, Closed, _agreement, friction_impulses, impact_impulse, largest_share, law_without_gain
from carom.numerics.complementarity import normal_impulses
from carom.numerics.complementarity.derivatives import friction_derivative

IMPULSE = carom.VariationalCollision(carom.Trapezoidal(), simultaneous="impulse")


def row_of_balls(n, order=None, restitution=1.0):
    gaps = [lambda q, i=i: q[i + 1] - q[i] - 1.0 for i in range(n - 1)]
    gaps = [gaps[i] for i in order] if order else gaps
    return carom.System(lambda v: 0.5 * (v @ v), [carom.Contact(g, restitution) for g in gaps])


@pytest.mark.parametrize(
    ("method", "expected"), [(TRAPEZOIDAL, [0, 0, 1]), (IMPULSE, [-1 / 3, 2 / 3, 2 / 3])], ids=["reflections", "impulse"]
)
def test_three_ball_cradle(method, expected):
    for order in itertools.permutations(range(2)):
        run = carom.solve(row_of_balls(3, order), method, [-0.5, 1.0, 2.0], [1.0, 0.0, 0.0], dt=0.3, num_steps=4)
        assert np.max(np.abs(run.v[-1] - expected)) < 1e-13


@pytest.mark.stress
def test_ten_ball_cradle_and_a_symmetric_hit():
    run = carom.solve(row_of_balls(10), TRAPEZOIDAL, [-0.5, *range(1, 10)], [1.0] + [0.0] * 9, dt=0.3, num_steps=4)
    assert np.max(np.abs(run.v[-1] - np.eye(10)[9])) < 1e-12
    both = carom.solve(row_of_balls(5), TRAPEZOIDAL, [-0.5, 1, 2, 3, 4.5], [1.0, 0, 0, 0, -1.0], dt=0.3, num_steps=4)
    assert np.max(np.abs(both.v[-1] + both.v[-1][::-1])) < 1e-13  # stays symmetric
    assert 0.5 * np.sum(both.v[-1] ** 2) == pytest.approx(1.0, abs=1e-13)


def test_the_order_of_contacts_changes_nothing():
    """Three gaps close at once in a corner of the box that is not a right angle."""
    normals = np.array([[1.0, 0.2, 0.0], [-0.3, 1.0, 0.1], [0.1, -0.2, 1.0]])
    contacts = [carom.Contact(lambda q, n=n: n @ q) for n in normals]
    into = np.linalg.solve(normals, [0.3, 0.3, 0.3])  # from here all three are reached together
    finals = []
    for order in ((0, 1, 2), (2, 0, 1), (1, 0, 2)):
        system = carom.System(lambda v: 0.5 * (v @ v), [contacts[i] for i in order])
        run = carom.solve(system, TRAPEZOIDAL, into, -into, dt=0.4, num_steps=4)
        finals.append(run.v[-1])
        assert np.min(normals @ run.q[-1]) > -1e-14
    assert np.ptp(np.array(finals), axis=0).max() < 1e-13
    assert np.sum(finals[0] ** 2) == pytest.approx(np.sum(into**2), rel=1e-13)


def test_listing_order_matters_for_a_naive_sequence():
    """Control for the test above: one contact after the other, in list order, gives different outcomes."""
    normals = np.array([[1.0, 0.2, 0.0], [-0.3, 1.0, 0.1], [0.1, -0.2, 1.0]])
    into = np.linalg.solve(normals, [0.3, 0.3, 0.3])
    finals = []
    for order in itertools.permutations(range(3)):
        v = -into
        for i in order:
            n = normals[i]
            v = v - 2 * min(n @ v, 0.0) / (n @ n) * n
        finals.append(v)
    assert np.ptp(np.array(finals), axis=0).max() > 0.1


def test_corner_of_a_box_sends_a_particle_straight_back():
    walls = [carom.Contact(lambda q: q[0], name="left"), carom.Contact(lambda q: q[1], name="floor")]
    system = carom.System(lambda v: 0.5 * (v @ v), walls)
    run = carom.solve(system, TRAPEZOIDAL, [0.3, 0.3], [-1.0, -1.0], dt=0.1, num_steps=10)
    assert len(run.impacts) == 1
    assert run.impacts.impulses[0] == pytest.approx([2.0, 2.0], abs=1e-12)
    assert run.q[-1] == pytest.approx([0.7, 0.7], abs=1e-12)


def test_exterior_corner_is_a_closest_point_projection():
    """§5: the impulse at a corner of a convex obstacle is the projection of the momentum onto the normal cone, (86); and q̃
    is the closest point of the obstacle to the chord point (1 − α)q_{i−1} + αq_i, (90), in the kinetic metric."""

    def faces(q):  # the quadrant x < 0, y < 0 is solid
        return q

    system = carom.System(lambda v: 0.5 * (v @ v), [carom.Contact(faces, obstacle=True, name="edge")])
    run = carom.solve(system, TRAPEZOIDAL, [0.3, 0.2], [-0.9, -0.6], dt=0.5, num_steps=1)
    hit = run.impacts.q[0]
    assert hit == pytest.approx([0.0, 0.0], abs=1e-14)
    assert run.v[-1] == pytest.approx([0.9, 0.6], abs=1e-12)  # the momentum lies inside the cone: straight back
    alpha = run.impacts.t[0] / run.dt
    chord = (1 - alpha) * run.q[0] + alpha * run.q[1]
    assert np.minimum(chord, 0.0) == pytest.approx(hit, abs=1e-14)  # the closest point of the quadrant
    slide = carom.solve(system, TRAPEZOIDAL, [0.3, -0.5], [-0.9, -0.6], dt=0.5, num_steps=1)
    assert slide.v[-1] == pytest.approx([0.9, -0.6], abs=1e-12)  # one face only
    over = carom.solve(system, TRAPEZOIDAL, [0.3, 0.1], [-0.9, 0.3], dt=0.5, num_steps=1)
    assert len(over.impacts) == 0  # passes above the corner


@pytest.mark.parametrize("e", [0.0, 0.3, 0.8, 1.0])
def test_restitution(e):
    system = carom.System(lambda q, v: 0.5 * (v @ v) - 9.81 * q[0], [carom.Contact(lambda q: q[0], e)])
    run = carom.solve(system, TRAPEZOIDAL, [1.0], [0.0], dt=0.01, num_steps=46, throw=False)
    before, after = run.impacts.p_before[0, 0], run.impacts.p_after[0, 0]
    tolerance = 3e-4 if e == 1.0 else 1e-13  # the elastic size comes from the discrete energy: (dt g)²/8 / |v| off the law at most
    assert after == pytest.approx(-e * before, abs=tolerance)
    assert before == pytest.approx(-np.sqrt(2 * 9.81), rel=1e-12)


def bouncing_disc(friction, r=0.5, restitution=1.0):
    def kinetic(q, v, params):
        return 0.5 * (v[0] ** 2 + v[1] ** 2 + params["inertia"] * v[2] ** 2)

    contact = carom.Contact(
        lambda q: q[1] - r, restitution, friction=friction, slip=lambda q: q[0] + r * q[2], name="floor"
    )  # θ counter-clockwise: the lowest point moves with ẋ + rθ̇
    return carom.System(kinetic, [contact])


@pytest.mark.parametrize("mu", [0.0, 0.1, 0.2, 5.0])
def test_coulomb_friction_on_a_disc(mu):
    r, inertia, vx, vy = 0.5, 0.125, 1.0, -1.0
    system = bouncing_disc(mu)
    run = carom.solve(system, TRAPEZOIDAL, [0, 1.0, 0], [vx, vy, 0], dt=0.1, num_steps=8, params={"inertia": inertia})
    normal = 2.0
    stick = vx / (1 + r**2 / inertia)  # tangential impulse that stops the slip
    tangential = -min(mu * normal, stick)
    assert run.v[-1] == pytest.approx([vx + tangential, -vy, r * tangential / inertia], abs=1e-12)
    assert run.energy[-1] <= run.energy[0] + 1e-14


def test_friction_in_two_tangential_directions_opposes_the_slip():
    contact = carom.Contact(lambda q: q[2], 0.5, friction=0.25, slip=lambda q: q[:2])
    system = carom.System(lambda v: 0.5 * (v @ v), [contact])
    run = carom.solve(system, TRAPEZOIDAL, [0, 0, 1.0], [3.0, 4.0, -2.0], dt=0.1, num_steps=8)
    speed = 5.0 - 0.25 * 3.0  # μ(1 + e)|v_z|
    assert run.v[-1] == pytest.approx([0.6 * speed, 0.8 * speed, 1.0], abs=1e-12)


def random_closed(rng, k, m, n=6):
    rows = rng.normal(size=(k * (1 + m), n))
    inverse_mass = np.diag(rng.uniform(0.3, 3.0, n))
    v = rng.normal(size=n)
    z = rows @ v
    return Closed(
        normals=jnp.asarray(rows[:k]),
        tangents=jnp.asarray(rows[k:].reshape(k, m, n)),
        rates=jnp.asarray(z[:k]),
        slides=jnp.asarray(z[k:].reshape(k, m)),
        delassus=jnp.asarray(rows @ inverse_mass @ rows.T),
        touching=jnp.ones(k, bool),
        restitution=jnp.asarray(rng.uniform(0, 1, k)),
        friction=jnp.asarray(rng.uniform(0, 1, k)),
        rate_rounding=jnp.asarray(1e-9),  # ten times what the friction solver promises
    )


@pytest.mark.parametrize("m", [0, 1, 2])
def test_no_law_adds_energy(m):
    rng = np.random.default_rng(m)
    law = jax.jit(lambda closed: impact_impulse(closed, "reflections"))
    gains, unsettled = [], 0
    for _ in range(150):
        closed = random_closed(rng, 3, m)
        out = law(closed)
        if not bool(out.settled):  # Newton's law and strong friction together can have no solution; then it says so
            unsettled += 1
            continue
        z = np.concatenate([closed.rates, np.ravel(closed.slides)])
        impulse = np.concatenate([out.normal, np.ravel(out.tangential)])
        gains.append(float(impulse @ (z + 0.5 * np.asarray(closed.delassus) @ impulse)))
        after = z + np.asarray(closed.delassus) @ impulse
        assert np.min(after[:3]) > -2e-9
    assert unsettled <= (0 if m == 0 else 3)
    assert max(gains) < 1e-9
    assert min(gains) < -0.1  # control: it does dissipate


def test_normal_impulses_against_enumeration():
    rng = np.random.default_rng(5)
    solve = jax.jit(normal_impulses)
    for _ in range(100):
        k = 4
        rows = rng.normal(size=(k, 3 if rng.uniform() < 0.3 else 6))  # 4 contacts in 3 dimensions: G is singular
        G, s = rows @ rows.T, rows @ rng.normal(size=rows.shape[1])
        lam = np.asarray(solve(jnp.asarray(G), jnp.asarray(s), jnp.ones(k, bool)).value)
        best = min(
            (np.sum((G @ x) * x) / 2 + s @ x for x in candidates(G, s)),
        )
        assert lam.min() >= 0 and (G @ lam + s).min() > -1e-9
        assert np.sum((G @ lam) * lam) / 2 + s @ lam == pytest.approx(best, abs=1e-9)


def candidates(G, s):
    """Every set of contacts that might carry the impulse, with the impulse that it would carry."""
    for size in range(len(s) + 1):
        for rows in itertools.combinations(range(len(s)), size):
            x = np.zeros(len(s))
            if rows:
                x[list(rows)] = np.linalg.lstsq(G[np.ix_(rows, rows)], -s[list(rows)], rcond=None)[0]
            if x.min() >= -1e-12 and (G @ x + s).min() > -1e-9:
                yield x


def test_restitution_that_friction_limits_has_an_exact_derivative():
    """A rod that falls on its tip: Newton's law with Coulomb's would add energy, and the share of e that does not depends on all
    the data. Control: with the share frozen the derivative is another."""
    slant = np.radians(35.0)
    coupling = 3 * np.sin(slant) * np.cos(slant)
    G = jnp.array([[1 + 3 * np.cos(slant) ** 2, coupling], [coupling, 1 + 3 * np.sin(slant) ** 2]])
    members, friction = jnp.array([True]), jnp.array([0.6])

    def impulse(x, freeze=False):
        rates = jnp.array([-1.0, -0.12]) + x * jnp.array([0.3, -1.0])
        gain = lambda lam: lam @ (rates + 0.5 * G @ lam)  # noqa: E731
        if freeze:
            share, found = largest_share(lambda s: friction_impulses(G, rates, -s * rates[:1], friction, members), gain, 1e-14)
            target = -jax.lax.stop_gradient(share) * rates[:1]
            return friction_derivative(found.value, G, rates, target, friction, members)
        return law_without_gain(G, rates, -rates[:1], friction, members, gain, 1e-14, True).value

    lam = impulse(0.0)
    rates = jnp.array([-1.0, -0.12])
    assert 0.0 < (rates + G @ lam)[0] < 0.999  # less than e = 1 gives
    assert abs(lam @ (rates + 0.5 * G @ lam)) < 1e-11  # all of the energy is kept, to the last bisection
    exact = jax.jacfwd(impulse)(0.0)
    np.testing.assert_allclose(exact, (impulse(1e-5) - impulse(-1e-5)) / 2e-5, rtol=1e-6)  # 1e-12 of a bisection over 1e-5
    assert np.abs(jax.jacfwd(lambda x: impulse(x, freeze=True))(0.0) - exact).max() > 1e-2


def _face(tilt):
    """A cube of side 0.3 and mass 1 that falls flat with some spin: its face's four corners, of which two approach, and all are
    pulled down by the forces of the step. Rows: four normals, then two tangents for each. `tilt`: between the ends of an edge."""
    x, y = np.array([[-0.15, -0.15], [-0.15, 0.15], [0.15, -0.15], [0.15, 0.15]]).T
    one, none = np.ones(4), np.zeros(4)
    normals = np.stack([none, none, one, y, -x, none], axis=1)
    along = [np.stack([one, none, none, none, -0.15 * one, -y], axis=1), np.stack([none, one, none, 0.15 * one, none, x], axis=1)]
    rows = np.concatenate([normals, np.stack(along, axis=1).reshape(8, 6)])
    G = rows @ np.diag(1 / np.array([1, 1, 1, 0.015, 0.015, 0.015])) @ rows.T
    twist = np.array([0.12, 0.05, -0.034, tilt, 0.228, 0.3])
    before = rows @ twist
    pushed = normals @ np.array([0, 0, -0.0981, 0, 0, 0])
    return G, before + np.concatenate([pushed, np.zeros(8)]), 0.3 * np.maximum(-before[:4], 0.0)


def test_a_face_that_falls_flat():
    """Four corners of a rigid face, three rates. With a tilt of 1e-8 restitution asks for what three of them can have; the target
    is moved by a billionth, and all laws hold to a certificate that was out of reach."""
    friction, members = jnp.full(4, 0.6), jnp.ones(4, bool)

    @jax.jit
    def law(G, rates, target):
        return law_without_gain(G, rates, target, friction, members, lambda lam: lam @ (rates + 0.5 * G @ lam), 1e-14)

    for tilt in (0.0, 1e-8, -3e-8, 1e-7):
        G, rates, target = _face(tilt)
        found = law(*map(jnp.asarray, (G, rates, target)))
        lam, after = np.asarray(found.value), rates + G @ np.asarray(found.value)
        assert found.converged
        assert lam[:4].min() >= 0 and (after[:4] - target).min() > -1e-6 * np.abs(rates).max()
        assert np.abs(lam[:4] * (after[:4] - target)).max() < 1e-6 * np.abs(rates).max() * lam.max()
        assert np.all(np.linalg.norm(lam[4:].reshape(4, 2), axis=1) <= 0.6 * lam[:4] + 1e-12)


def test_targets_are_moved_by_what_contradicts_and_no_further():
    members = jnp.ones(4, bool)
    null = np.array([1.0, -1.0, -1.0, 1.0]) / 2
    G, rates, target = _face(1e-8)
    change = np.asarray(_agreement(*map(jnp.asarray, (G[:4, :4], rates, target)), members))
    np.testing.assert_allclose(change, -(target @ null) * null, atol=5 * RIDGE * target.max())  # what a rigid body cannot have
    assert 1e-10 < np.abs(change).max() < 1e-8
    G, rates, target = _face(1e-3)
    assert np.all(
        np.asarray(_agreement(*map(jnp.asarray, (G[:4, :4], rates, target)), members)) == 0
    )  # a contradiction, which stays
    three = jnp.asarray([True, True, True, False])
    kept = np.asarray(_agreement(*map(jnp.asarray, (G[:4, :4], rates, target)), three))
    assert np.abs(kept).max() <= 1e-7 * np.abs(target).max()  # three corners can have any rates


@pytest.mark.parametrize("contacts", [laws.FEW, laws.FEW + 2], ids=["few, the control", "more"])
def test_what_sweeps_miss_in_the_plane_an_interior_point_finds(contacts, monkeypatch):
    """Sweeps that say they failed, on problems that they can solve: where there are more than a few contacts the answer is theirs
    all the same, and where there are few the failure is told."""
    rng = np.random.default_rng(contacts)
    slopes = rng.normal(size=(2 * contacts, 3 * contacts))
    G, rates = slopes @ slopes.T, rng.normal(size=2 * contacts)
    friction, closed = rng.uniform(0.1, 0.8, contacts), rng.uniform(size=contacts) < 0.8
    problem = [jnp.asarray(x) for x in (G, rates, np.zeros(contacts), friction, closed)]
    right = friction_impulses(*problem)
    failed = right._replace(value=0 * right.value, converged=jnp.asarray(False))
    monkeypatch.setattr(laws.complementarity, "friction_impulses", lambda *_: failed)
    found = friction_impulses(*problem)
    assert bool(right.converged) and bool(found.converged) == (contacts > laws.FEW)
    if contacts > laws.FEW:  # G is regular, so that the impulses are the only ones, to the condition of G times the tolerance
        assert np.allclose(found.value, right.value, atol=1e-10 * np.linalg.cond(G) * np.abs(right.value).max())


def test_stacks_that_rock_are_solved_to_the_end():
    """Ten boxes pushed by 0.11 to 0.24 m/s: friction at the floor makes them rock, corners open and close, and of twenty contacts
    half would do. Thirteen of these forty ended with an unsolved contact problem, on one machine."""
    stack, lanes = carom.models.stack(10), 40
    v0s = np.zeros((lanes, 30))
    v0s[:, ::3] = np.linspace(0.11, 0.24, lanes)[:, None]
    q0s = np.tile(np.asarray(stack.q0, float), (lanes, 1))
    run = carom.ensemble(
        stack.system, carom.MoreauJean(), q0s, v0s, dt=stack.dt, num_steps=100, params=stack.params, progress=False
    )
    assert np.all(run.ok)
    pushed = 0.5 * 10 * v0s[:, 0] ** 2  # ten boxes of 1 kg
    assert np.all(run.energy[:, -1] - run.energy_start <= 1e-9 * pushed)  # friction takes energy, and nothing gives any

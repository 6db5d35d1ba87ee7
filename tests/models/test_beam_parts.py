"""Beams of one's own: sections, supports, loads, damping, obstacles and friction, against exact answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.models import Section, beam, beam_pair, momentum_maps
from carom.spaces.rotations import matrix

STRAIGHT = (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
AIR = {"obstacle": None, "gravity": 0.0, "strain": STRAIGHT}
REFLECTION = carom.VariationalCollision(carom.Trapezoidal(), elastic="reflection")


def places(run):
    return run.q.reshape(len(run.q), -1, 7)[:, :, 4:]


@pytest.mark.parametrize("far", ["free", pytest.param("guided", marks=pytest.mark.stress)])
def test_a_cantilever_sags_as_beam_theory_says(far):
    """F L³/(3 E I) + F L/(G S), and F L³/(12 E I) + F L/(G S) with an end that does not turn. Straight elements see the moment at
    their middles: the first is less by 1/(4n²), and the second by 1/n², exactly."""
    n, load, EI, GS = 4, 1e-4, 1e3 * 0.2**4 / 12, 1e3 / 2.7 * 0.2**2

    def tip(r):
        return jnp.zeros((n + 1, 3)).at[-1, 0].set(load)

    model = beam(n, side=0.2, **AIR, ends=("fixed", far), force=tip, damping=(2.0, 0.0))
    run = model.solve(TRAPEZOIDAL, num_steps=2000, stride=2000)
    bent = load * 0.5**3 / EI * ((1 - 1 / (4 * n**2)) / 3 if far == "free" else (1 - 1 / n**2) / 12)
    sag = places(run)[-1, -1, 0]
    assert np.abs(run.v[-1]).max() < 1e-12  # at rest
    assert sag == pytest.approx(bent + load * 0.5 / GS, rel=1e-7)  # the rest is of the order of (sag/L)², 5e-9
    assert np.abs(places(run)[-1, 0]).max() < 1e-12 and load * 0.5 / GS > 0.05 * sag  # control: shear counts
    turned = run.q[-1].reshape(-1, 7)[-1, 2]  # of the last section, about y
    assert turned == pytest.approx(0.0 if far == "guided" else load * 0.5**2 / (4 * EI), rel=1e-6, abs=1e-13)


def _frequencies(model, free):
    m = model.system.bind(jax.tree.map(jnp.asarray, model.params), 0)
    q0 = jnp.asarray(model.q0)
    slopes = jax.jit(jax.jacfwd(lambda x: m.force(m.space.retract(q0, x))))
    stiffness = -np.asarray(slopes(jnp.zeros(m.space.dim)))[np.ix_(free, free)]
    root = 1 / np.sqrt(np.asarray(m.masses)[free])
    return np.sqrt(np.linalg.eigvalsh(root[:, None] * 0.5 * (stiffness + stiffness.T) * root))


def test_a_section_of_ones_own_has_its_frequencies():
    """A thin clamped strip, 1 × 2: the first modes about both axes by Euler and Bernoulli, (1.87510407)² √(E I/ρS)/L², with the
    limit of elements of order 2."""
    strip, wanted = Section.rectangle(0.002, 0.004), 1.8751040687**2 * np.sqrt(1e3 / 1e3) / 0.5**2 / np.sqrt(12)
    found = []
    for n in (6, 12):
        model = beam(n, **AIR, section=strip, ends=("fixed", "free"))
        found.append(_frequencies(model, np.arange(6, 6 * (n + 1)))[:2])
    limit = found[1] + (found[1] - found[0]) / 3
    np.testing.assert_allclose(limit[0], wanted * 0.002, rtol=1e-3)
    assert limit[1] == pytest.approx(2 * limit[0], rel=1e-3)
    assert found[0][0] != pytest.approx(limit[0], rel=1e-3)  # control: six elements alone do not show it


def test_a_tapered_beam_is_made_of_its_pieces():
    """With a section that halves along the beam: masses add up to ∫ρS, a slow pull stretches it by ∫F ds/(E S)."""
    taper = lambda s: Section.circle(0.02 * (1 - s))  # noqa: E731  # from 0.02 to 0.01 over 0.5
    n, load = 6, 1e-3
    model = beam(n, **AIR, section=taper)
    mass = np.asarray(model.params["mass"]).reshape(-1, 6)[:, 5].sum()
    assert mass == pytest.approx(1e3 * np.pi * 0.02**2 * (1 - 0.5**3) / 3, rel=2e-3)  # midpoints of twelve half elements
    areas = np.pi * (0.02 * (1 - 0.5 * (np.arange(n) + 0.5) / n)) ** 2
    stretch = load / 1e3 / areas
    q = np.array(model.q0).reshape(-1, 7)
    q[1:, 6] = np.cumsum(0.5 / n * (1 + stretch))
    m = model.system.bind(jax.tree.map(jnp.asarray, model.params), 0)
    force = np.asarray(jax.jit(m.force)(jnp.asarray(q.reshape(-1)))).reshape(-1, 6)
    np.testing.assert_allclose(force[1:-1], 0.0, atol=1e-12 * load)  # at rest, pulled at its ends
    np.testing.assert_allclose(force[[0, -1], 5], [load, -load], rtol=1e-12)
    assert q[-1, 6] - 0.5 == pytest.approx(load / 1e3 / (np.pi * 0.02**2), rel=0.01)  # ∫ ds/(1 − s)² from 0 to ½ is 1
    assert q[-1, 6] - 0.5 != pytest.approx(load / 1e3 * 0.5 / (np.pi * 0.02**2), rel=0.5)  # control: the first section throughout


def test_a_base_that_accelerates_is_gravity():
    """Seen from a clamp that falls upwards by ½at², a beam sags as in a field −a. The rule on SE(3) agrees to its order."""
    a = 0.3
    base = beam(3, **AIR, turn=(0.0, np.pi / 2, 0.0), ends=(lambda t: jnp.array([0.0, 0.0, 0.5 * a * t**2]), "free"))
    field = beam(3, **AIR | {"gravity": a}, turn=(0.0, np.pi / 2, 0.0), ends=("fixed", "free"))
    apart = []
    for steps in (100, 200):
        one, other = (model.solve(TRAPEZOIDAL, dt=0.5 / steps, num_steps=steps) for model in (base, field))
        lift = np.stack([np.zeros_like(one.t), np.zeros_like(one.t), 0.5 * a * one.t**2], axis=1)[:, None]
        apart.append(np.abs(places(one) - lift - places(other)).max())
    assert np.ptp(places(other)[:, -1, 2]) > 0.02  # it sags
    assert apart[1] < 1e-6 and apart[0] / apart[1] == pytest.approx(4.0, rel=0.1)
    assert np.abs(places(one) - places(other)).max() > 0.03  # control


@pytest.mark.stress
def test_damping_leaves_rigid_motions_alone_where_it_must():
    """β damps strains: a straight beam that flies and vibrates keeps its momenta and comes to rest in itself; α stops all."""
    model = beam(3, **AIR | {"strain": (0.0, 0.5, 0.0, 0.0, 0.0, 1.02)}, velocity=(0.03, 0.01, -0.02), damping=(0.0, 0.02))
    run = model.solve(TRAPEZOIDAL, num_steps=1500, stride=500)
    maps = momentum_maps(run)
    np.testing.assert_allclose(maps, np.broadcast_to(maps[0], maps.shape), atol=1e-12 * np.abs(maps).max())
    mass = np.asarray(model.params["mass"]).reshape(-1, 6)[:, 5].sum()
    drift = 0.5 * mass * (0.03**2 + 0.01**2 + 0.02**2)
    assert run.energy[0] > 1.2 * drift and run.energy[-1] == pytest.approx(drift, rel=0.05)
    slowed = model.solve(TRAPEZOIDAL, num_steps=100, stride=100, params={"damping": np.array([2.0, 0.0])})
    left, half = momentum_maps(slowed)[-1, :3] / momentum_maps(slowed)[0, :3], 0.5 * model.dt * 2.0
    np.testing.assert_allclose(left, ((1 - half) / (1 + half)) ** 100, rtol=1e-6)  # p' = −α p by the trapezoidal rule


def _hit(**more):
    return beam(2, gravity=0.0, height=0.1, strain=STRAIGHT, turn=(0.0, 1.2, 0.0), **more)


def _at_impact(run, k):
    """The node that touches, and in space its place and its velocities before and after."""
    node = int(run.impacts.contact[k])
    q = run.impacts.q[k].reshape(-1, 7)[node]
    turn, mass = np.asarray(matrix(jnp.asarray(q[:4]))), np.asarray(run.params["mass"]).reshape(-1, 6)[node, 3]
    both = (turn @ p[k].reshape(-1, 6)[node, 3:] / mass for p in (run.impacts.p_before, run.impacts.p_after))
    return node, q[4:], *both


def test_a_ball_that_moves_as_an_obstacle():
    """Impulses point away from its centre and act on the node that touches alone; relative to the ball the normal velocity is
    turned back, to rounding."""
    centre, speed = np.array([0.05, 0.01, -0.3]), np.array([0.1, 0.0, 0.8])
    ball = lambda r, t: jnp.linalg.norm(r - jnp.asarray(centre) - jnp.asarray(speed) * t) - 0.3  # noqa: E731
    run = _hit(velocity=(0.0, 0.0, -3.0), obstacle=ball).solve(REFLECTION, dt=1e-3, num_steps=100)
    assert len(run.impacts) >= 2
    for k in range(len(run.impacts)):
        node, place, before, after = _at_impact(run, k)
        away = place - centre - speed * run.impacts.t[k]
        push = after - before
        assert np.linalg.norm(away) == pytest.approx(0.3, abs=1e-12)
        assert np.linalg.norm(np.cross(push, away)) < 1e-12 * np.linalg.norm(push) and push @ away > 0
        assert (after - speed) @ away == pytest.approx(-(before - speed) @ away, rel=1e-11)
        assert after @ away != pytest.approx(-before @ away, rel=0.1)  # control: as if it stood still
        jump = (run.impacts.p_after[k] - run.impacts.p_before[k]).reshape(-1, 6)
        assert np.abs(np.delete(jump, node, axis=0)).max() == 0


@pytest.mark.stress
def test_a_rough_floor():
    """Friction takes μ of the normal impulse against the sliding of the skin, or as much as stops it."""
    rough = {"velocity": (2.0, 0.5, -2.0), "restitution": 0.5, "radius": 1e-3}
    _, _, before, after = _at_impact(_hit(**rough, friction=0.1).solve(REFLECTION, dt=1e-3, num_steps=60), 0)
    push = after - before
    assert np.linalg.norm(push[:2]) == pytest.approx(0.1 * push[2], rel=1e-9)
    assert after[2] == pytest.approx(-0.5 * before[2], rel=1e-9)
    against = push[:2] @ before[:2] / np.linalg.norm(push[:2]) / np.linalg.norm(before[:2])
    assert against == pytest.approx(-1.0, abs=1e-6)  # but for what the node turns meanwhile
    _, _, before, after = _at_impact(_hit(**rough, friction=2.0).solve(REFLECTION, dt=1e-3, num_steps=60), 0)
    assert np.linalg.norm(after[:2] - before[:2]) < 2.0 * (after[2] - before[2])  # control: it sticks, with less than μ
    assert np.linalg.norm(after[:2]) < 0.1 * np.linalg.norm(before[:2])


def _jump(model, q, v, node):
    """What the law of impact does to the momenta where one contact is closed."""
    mechanics = model.system.bind(model.params, len(q))
    closed, width = jnp.arange(mechanics.contacts.num_contacts) == node, jnp.full(mechanics.contacts.num_contacts, 1e-12)
    law = jax.jit(lambda q, v: mechanics.impulse(q, v, jnp.zeros(()), closed, width, "reflections", False))
    impulse, change = law(q, v)
    return np.asarray(impulse.normal), np.asarray(change).reshape(-1, 6)


def test_a_rough_floor_that_moves():
    """Seen from the floor, it is the beam that moves: the same impulses. A belt slides along itself, a lift comes up."""
    rough = {"restitution": 0.5, "radius": 1e-3, "friction": 0.1}
    velocity, still = np.array([2.0, 0.5, -2.0]), _hit(velocity=(2.0, 0.5, -2.0), **rough)
    q = jnp.asarray(still.q0)
    _, wanted = _jump(still, q, jnp.asarray(still.v0), 0)
    for floor, belt in ((lambda r: r[2], (0.7, -1.0, 0.0)), (lambda r, t: r[2] - 0.4 * t, (0.0, 0.3, 0.4))):
        other = _hit(velocity=velocity + belt, obstacle=floor, obstacle_velocity=lambda r, belt=belt: jnp.asarray(belt), **rough)
        normal, found = _jump(other, q, jnp.asarray(other.v0), 0)
        assert normal[0] > 0
        np.testing.assert_allclose(found, wanted, atol=1e-12 * np.abs(wanted).max())
        at_rest = _hit(velocity=velocity + belt, **rough)  # control: a floor that stands still does otherwise
        assert np.abs(_jump(at_rest, q, jnp.asarray(at_rest.v0), 0)[1] - wanted).max() > 0.01 * np.abs(wanted).max()


def test_beams_that_rub_keep_all_six_momenta():
    """Crosswise, in the middles of elements, with their skins sliding: friction takes μ of the normal impulse, and what one beam
    has lost the other has; a rigid motion of both slides nowhere."""
    model = beam_pair(friction=0.02, velocities=((0.3, 0.0, 0.5), (0.0, -0.2, -0.5)))
    q = jnp.asarray(model.q0).reshape(-1, 7).at[4:, 6].add(-0.02).reshape(-1)  # the gap was 0.06 − 2 · 0.02
    mechanics = model.system.bind(model.params, q.size)
    gaps = np.asarray(mechanics.contacts.gaps(q, jnp.zeros(())))
    pair = int(np.argmin(gaps))
    assert abs(gaps[pair]) < 1e-12
    normal, change = _jump(model, q, jnp.asarray(model.v0), pair)
    nodes = np.asarray(q).reshape(-1, 7)
    turns = [np.asarray(matrix(jnp.asarray(node[:4]))) for node in nodes]
    force = np.array([turn @ jump[3:] for turn, jump in zip(turns, change, strict=True)])
    moment = np.array(
        [turn @ jump[:3] + np.cross(node[4:], f) for turn, jump, node, f in zip(turns, change, nodes, force, strict=True)]
    )
    first = force[:4].sum(axis=0)  # on the first beam, whose normal is −z
    assert first[2] == pytest.approx(-normal[pair], rel=1e-9)
    np.testing.assert_allclose(first[:2], -0.02 * normal[pair] * np.array([0.3, 0.2]) / np.hypot(0.3, 0.2), rtol=0.05)  # nodes turn
    assert np.hypot(*first[:2]) == pytest.approx(0.02 * normal[pair], rel=1e-9)
    assert np.abs(force.sum(axis=0)).max() < 1e-12 * normal[pair]
    assert np.abs(moment.sum(axis=0)).max() < 1e-12 * normal[pair]
    assert np.abs(moment[:4].sum(axis=0)).max() > 1e-3 * normal[pair]  # control: of one beam alone
    spin, shift = np.array([0.4, -1.0, 0.7]), np.array([1.0, 2.0, 3.0])
    v = [np.concatenate([R.T @ spin, R.T @ (shift + np.cross(spin, node[4:]))]) for R, node in zip(turns, nodes, strict=True)]
    slides = jax.jit(lambda v: mechanics.contacts.slides(q, v, jnp.zeros(())))(jnp.asarray(np.concatenate(v)))
    assert np.abs(slides[pair]).max() < 1e-12


def test_two_beams_that_hit_keep_all_six_momenta():
    """Crosswise, in the middles of their elements: what one loses the other has, to rounding; nothing passes through."""
    model = beam_pair()
    run = model.solve(TRAPEZOIDAL, num_steps=100)
    assert len(run.impacts) >= 1
    maps = momentum_maps(run)
    half = run.q.shape[1] // 14
    parts = run.p.reshape(len(run.p), -1, 6)
    size = np.abs(parts[:, :, 3:]).sum(axis=1).max()
    np.testing.assert_allclose(maps, np.broadcast_to(maps[0], maps.shape), atol=1e-13 * size)
    turn = np.asarray(matrix(jnp.asarray(run.q.reshape(len(run.q), -1, 7)[:, :half, :4])))
    first = np.einsum("tnij,tnj->ti", turn, parts[:, :half, 3:])
    assert first[0, 2] > 0 > first[-1, 2] - 0.5 * first[0, 2]  # control: the first beam alone has lost more than half of it
    assert np.abs(run.energy_error).max() < 1e-3 and run.gaps.min() > -1e-12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ends": ("free", "welded")}, "'pinned'"),
        ({"ends": "fixed"}, "ends are two"),
        ({"obstacle": "sea"}, "signed distance"),
        ({"obstacle": lambda r, t: r[2] - t, "friction": 0.1, "radius": 0.01}, "friction on an obstacle that moves"),
        ({"section": lambda s: Section.circle(0.1 - s)}, "radius above that of its hole"),
        ({"damping": (-1.0, 0.0)}, "numbers that are not negative"),
        ({"friction": 0.1}, "asks for a radius"),
    ],
)
def test_bad_parts_are_refused(changes, message):
    with pytest.raises(carom.InputError, match=message):
        beam(**changes)
    with pytest.raises(carom.InputError, match="row of 3 or 6"):
        beam(2, force=lambda r: r[0]).solve(num_steps=1)

"""What beams are made of beside a square section above a plane: sections, supports, loads, damping, obstacles.

At each node a section with area S, second moments I₁, I₂ about its axes and torsion constant T has masses and stiffnesses

    ρΔs diag(I₁, I₂, I₁ + I₂, S, S, S),        C = diag(E I₁, E I₂, G T, G S κ₁, G S κ₂, E S),                         (1)

half of the masses at the ends. Rayleigh's damping slows the sections and the rates of strain,

    f = −α M v − β Bᵀ Δs C η̇,        η̇ = B v:                                                                      (2)

its second part is zero for rigid motions.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.contact.contact import Contact
from carom.errors import InputError
from carom.named import Named
from carom.spaces.groups import SE3
from carom.spaces.rotations import exponential, join, multiply, rotate, split, unrotate
from carom.spaces.sliding import rigid_velocity, sliding_velocity
from carom.system.supports import Supports

HELD = {"free": (), "fixed": range(6), "pinned": range(3, 6), "guided": range(3)}  # of the six directions of a node


class Section(NamedTuple):
    """A cross-section in its principal axes: `area`, the second moments `bending` about the two axes, the `torsion` constant
    (I₁ + I₂ where it is not given, which is right for circles) and the factors of the `shear` areas."""

    area: float
    bending: tuple[float, float]
    torsion: float | None = None
    shear: tuple[float, float] = (1.0, 1.0)

    @staticmethod
    def rectangle(width: float, height: float) -> "Section":
        """`width` along the first axis, `height` along the second: bending about the first axis has width·height³/12."""
        return Section(width * height, (width * height**3 / 12, width**3 * height / 12))

    @staticmethod
    def circle(radius: float, hole: float = 0.0) -> "Section":
        """A round rod, or a tube with a hole of that radius."""
        if not radius > hole >= 0:
            raise InputError(f"a round section has a radius above that of its hole; got {radius} and {hole}")
        second = np.pi * (radius**4 - hole**4) / 4
        return Section(np.pi * (radius**2 - hole**2), (second, second))

    @property
    def inertia(self) -> np.ndarray:
        """(1), per density and length."""
        first, second = self.bending
        return np.array([first, second, first + second, *[self.area] * 3])

    def stiffness(self, modulus: float, shear: float) -> np.ndarray:
        """C of (1)."""
        first, second = self.bending
        twist = first + second if self.torsion is None else self.torsion
        areas = [shear * self.area * factor for factor in self.shear]
        return np.array([modulus * first, modulus * second, shear * twist, *areas, modulus * self.area])


class BeamExtras(NamedTuple):
    """What a beam has beside its nodes; hashable, so that one system is compiled once."""

    ends: tuple[Any, Any] = ("free", "free")
    obstacle: Any = "plane"
    restitution: float = 1.0
    rough: bool = False
    radius: float = 0.0
    force: Callable[..., Any] | None = None
    damped: bool = False
    obstacle_velocity: Callable[..., Any] | None = None


def at(profile: Any, s: float) -> Any:
    """A value, or a function of the place along the beam."""
    return profile(s) if callable(profile) else profile


def masses_and_stiffness(elements: int, spacing: float, section: Any, density: Any, modulus: Any, poisson: float):
    """(1) at the nodes and in the elements: half elements beside a node give it their mass. One stiffness where it is uniform."""
    if callable(section) or callable(density):
        quarters = spacing * (np.arange(2 * elements) + 0.5) / 2
        masses = np.zeros((elements + 1, 6))
        for i, s in enumerate(quarters):
            masses[(i + 1) // 2] += 0.5 * spacing * at(density, s) * at(section, s).inertia
    else:
        masses = np.tile(density * spacing * section.inertia, (elements + 1, 1))
        masses[[0, -1]] *= 0.5
    middles = spacing * (np.arange(elements) + 0.5)
    rows = np.array([at(section, s).stiffness(at(modulus, s), at(modulus, s) / (2 * (1 + poisson))) for s in middles])
    if not (np.all(masses > 0) and np.all(rows > 0) and np.all(np.isfinite(masses)) and np.all(np.isfinite(rows))):
        raise InputError("beam: density, modulus, area and second moments must be positive and finite everywhere along the beam")
    return masses, rows if any(map(callable, (section, modulus))) else rows[0]


def own_start(nodes: int, spacing: float, height: float, strain: Any, turn: Any, velocity: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of constant strain from a first section that is turned, and one velocity for all of them."""
    space, step = SE3(), spacing * jnp.asarray((0.0, 0.0, 0.0, 0.0, 0.0, 1.0) if strain is None else strain, float)
    first = exponential(tuple(jnp.asarray((0.0, 0.0, 0.0) if turn is None else turn, float)))
    node = jnp.concatenate([jnp.stack(first), jnp.array([0.0, 0.0, height])])
    _, others = jax.lax.scan(lambda node, _: (space.retract(node, step),) * 2, node, None, length=nodes - 1)
    q = jnp.concatenate([node[None], others])
    speed = tuple(jnp.broadcast_to(x, nodes) for x in jnp.asarray((0.0, 0.0, 0.0) if velocity is None else velocity, float))
    v = join(tuple(jnp.zeros(nodes) for _ in range(3)), unrotate(split(q)[:4], speed))
    return np.array(q), np.array(v)


def _moved(end: Callable[[Any], Any], start: Any, t: Any) -> Any:
    """The section that starts at `start`, displaced by the first three of what a function returns and turned by the rest."""
    value = jnp.asarray(end(t), float).reshape(-1)
    parts = split(jnp.asarray(start, float))
    place = tuple(parts[4 + i] + value[i] for i in range(3))
    turn = parts[:4] if value.shape[0] == 3 else multiply(exponential(tuple(value[3:])), parts[:4])
    return join(turn, place)


def beam_supports(ends: Sequence[Any], nodes: int) -> Supports | None:
    """Of the first and the last section; params["held_at"] has the starts of those that are moved."""
    both = [(0, ends[0]), (nodes - 1, ends[1])]
    held = [6 * node + i for node, end in both for i in (range(6) if callable(end) else HELD[end])]
    driven = [(node, end) for node, end in both if callable(end)]
    if not held or not driven:
        return Supports(held) if held else None

    def motion(t, params):
        return jnp.concatenate([_moved(end, params["held_at"][i], t) for i, (_, end) in enumerate(driven)])

    return Supports(held, [7 * node + i for node, _ in driven for i in range(7)], motion)


def settle_ends(ends: Sequence[Any], q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Stop what is held, put what is driven where it starts with its speed; the sections that are driven."""
    held_at = []
    for node, end in ((0, ends[0]), (-1, ends[1])):
        if callable(end):
            held_at.append(start := q[node].copy())
            place, rate = jax.jvp(lambda t, end=end, start=start: _moved(end, start, t), (0.0,), (1.0,))
            q[node], v[node] = place, SE3().velocity(place, rate)
        else:
            v[node, list(HELD[end])] = 0.0
    return np.array(held_at)


def check_obstacle(obstacle: Any) -> None:
    if not (obstacle is None or callable(obstacle) or (isinstance(obstacle, str) and obstacle == "plane")):
        raise InputError(f"beam: obstacle is 'plane', None or a function of r, t, params, a signed distance; got {obstacle!r}")


def beam_contact(extras: BeamExtras) -> list[Contact]:
    """Every node against the obstacle: the plane z = 0, or a signed distance of one's own."""
    if extras.obstacle is None:
        return []
    if extras.obstacle == "plane":
        distance = Named(lambda r: r[2], ("r", "t", "params"), "obstacle")
    else:
        distance = Named(extras.obstacle, ("r", "t", "params"), "obstacle")
    moves = distance.asks_for("t")
    if moves and extras.rough and extras.obstacle_velocity is None:
        raise InputError(
            "beam: friction on an obstacle that moves is not known from its distance: say how its points move, obstacle_velocity="
        )
    own = extras.obstacle_velocity
    drift = None if own is None else Named(own, ("r", "t", "params"), "obstacle_velocity")

    def gaps(q, t, params):
        far = jax.vmap(lambda r: jnp.asarray(distance(r=r, t=t, params=params)).reshape(()))(q.reshape(-1, 7)[:, 4:])
        return far - extras.radius

    def slide(q, v, t, params):
        """Of the point of the skin that touches, along two directions in the tangent plane of the obstacle, relative to it."""

        def one(q, v):
            normal = jax.grad(lambda r: jnp.asarray(distance(r=r, t=t, params=params)).reshape(()))(q[4:])
            arm = -extras.radius * normal / jnp.linalg.norm(normal)
            velocity, turning = rigid_velocity(q, v)
            if drift is not None:
                velocity = velocity - jnp.asarray(drift(r=q[4:] + arm, t=t, params=params), float)
            return sliding_velocity(velocity, turning, arm, normal)

        return jax.vmap(one)(q.reshape(-1, 7), v.reshape(-1, 6))

    still = lambda q, v, params: slide(q, v, jnp.zeros(()), params)  # noqa: E731
    rubs = slide if moves or (drift is not None and drift.asks_for("t")) else still
    rough: dict[str, Any] = {"friction": lambda params: params["friction"], "slip": rubs} if extras.rough else {}
    return [Contact(gaps if moves else lambda q, params: gaps(q, 0.0, params), extras.restitution, name="node", **rough)]


def in_space(q: Any, v: Any) -> Any:
    """The velocities of the centroids in axes of space, [nodes, 3], from those in the body."""
    turn = split(q.reshape(-1, 7))[:4]
    return join(rotate(turn, split(v.reshape(-1, 6))[3:]))


def beam_external(extras: BeamExtras, strains: Callable[..., Any]) -> Callable[..., Any] | None:
    """A force of the user's own in space, and (2)."""
    if extras.force is None and not extras.damped:
        return None
    own = None if extras.force is None else Named(extras.force, ("r", "v", "t", "params"), "force")

    def external(q, v, t, params):
        nodes, total = q.reshape(-1, 7), jnp.zeros(v.shape)
        if own is not None:
            loads = jnp.asarray(own(r=nodes[:, 4:], v=in_space(q, v), t=t, params=params), float)
            if loads.shape not in ((len(nodes), 3), (len(nodes), 6)):
                raise InputError(
                    f"beam: force returns one row of 3 or 6 for each of the {len(nodes)} sections; it has {loads.shape}"
                )
            turn, parts = split(nodes)[:4], split(loads)
            moment = unrotate(turn, parts[3:]) if len(parts) == 6 else tuple(jnp.zeros(len(nodes)) for _ in range(3))
            total = total + join(moment, unrotate(turn, parts[:3])).reshape(-1)
        if extras.damped:
            space, count = SE3(), len(nodes)
            push = space.push(nodes, v.reshape(count, 6)).reshape(-1)
            _, rates = jax.jvp(lambda x: strains(x, params["spacing"]), (q,), (push,))
            back = jax.vjp(lambda x: strains(x, params["spacing"]), q)[1]
            slope = back(params["spacing"] * params["stiffness"] * rates)[0].reshape(count, 7)
            alpha, beta = params["damping"][0], params["damping"][1]
            total = total - alpha * params["mass"] * v - beta * space.pull(nodes, slope).reshape(-1)
        return total

    return external


def nearest_points(p: Any, u: Any, r: Any, w: Any) -> tuple[Any, Any]:
    """x and y of the nearest points of p + x u and r + y w, 0 ≤ x, y ≤ 1: both inside, or with one of them at an end."""
    clip = lambda x: jnp.clip(x, 0.0, 1.0)  # noqa: E731
    d, uu, ww, uw = p - r, u @ u, w @ w, u @ w
    lines = jnp.maximum(uu * ww - uw**2, 1e-300)
    x = clip((uw * (w @ d) - ww * (u @ d)) / lines)
    y = clip((uw * x + w @ d) / ww)
    x = clip((uw * y - u @ d) / uu)
    return jax.lax.stop_gradient((x, y))  # nearest points: their own change does not count


def between_segments(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """A function of two segments, each as values at its two ends, for all segments of one broken line and all of another."""
    ends = lambda x: (x[:-1], x[1:])  # noqa: E731
    return jax.vmap(lambda *one: jax.vmap(lambda *other: function(one, other))(*ends(b)))(*ends(a))


def segment_distances(a: Any, b: Any) -> Any:
    """Distances between all segments of one broken line and all of another, one row for each of the first."""

    def one(first, second):
        (p, u), (r, w) = ((start, end - start) for start, end in (first, second))
        x, y = nearest_points(p, u, r, w)
        return jnp.linalg.norm(p - r + x * u - y * w)

    return between_segments(one, a, b)


def segment_slides(a: Any, b: Any, radii: Any) -> Any:
    """How the skins of two broken lines slide on one another where they are nearest: two numbers for each pair of segments. The
    lines are given by place, velocity and angular velocity of their nodes, nine numbers in space; within an element these are
    linear, so that in a rigid motion of both nothing slides."""

    def one(first, second):
        (p, u), (r, w) = ((start[:3], end[:3] - start[:3]) for start, end in (first, second))
        x, y = nearest_points(p, u, r, w)
        here, there = first[0] + x * (first[1] - first[0]), second[0] + y * (second[1] - second[0])
        normal = here[:3] - there[:3]
        away = normal / jnp.linalg.norm(normal)
        mine = sliding_velocity(here[3:6], here[6:], -radii[0] * away, normal)
        return mine - sliding_velocity(there[3:6], there[6:], radii[1] * away, normal)

    return between_segments(one, a, b)

"""What bars are made of beside equal springs: sections and moduli of one's own, ends that are held, forces, damping, friction.

A bar with mass per length ρ(s), modulus E(s) and section S(s) has at its nodes and between them

    mₐ = ∫ ρ ds over the half elements beside node a,       1/kₐ = ∫ ds / (E S) over the element:                         (1)

springs in series, exact for any stretch at rest. Rayleigh damping and Coulomb friction on a table with the acceleration g that
presses the bars on it are

    f = −α m v − β K v,         |f_dry| ≤ μ g m at each node.                                                         (2)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.models.body_ends import check_ends
from carom.named import Named
from carom.numerics.quadrature import gauss
from carom.system.supports import Supports

POINTS = 5  # of Gauss in each piece: exact for polynomials of degree 9


class Extras(NamedTuple):
    """What a layout of bars has beside its nodes; hashable, so that one system is compiled once."""

    ends: tuple[Any, Any] = ("free", "free")
    force: Callable[..., Any] | None = None
    damped: bool = False
    rubs: bool = False
    wall: Callable[[Any], Any] | None = None  # the place of a wall that moves


def integral(function: Callable[[Any], Any], edges: np.ndarray) -> np.ndarray:
    """Over each piece between neighbouring edges."""
    nodes, weights = gauss(POINTS)
    lengths = np.diff(edges)
    places = edges[:-1, None] + lengths[:, None] * nodes
    values = np.array([[float(function(s)) for s in row] for row in places])
    if not (np.all(np.isfinite(values)) and np.all(values > 0)):
        raise InputError("bars: a density, a modulus or a section is not positive and finite everywhere along its bar")
    return lengths * (values @ weights)


def value(profile: Any, s: Any) -> Any:
    """A number, or a function of the place along a bar."""
    return profile(s) if callable(profile) else profile


def one_bar(edge: float, length: float, density: Any, modulus: Any, section: Any, elements: int, left: float, right: float):
    """One bar from `edge` on: nodes, masses, springs; massless ends take the fractions `left` and `right` of an element."""
    size = length / elements
    q = edge + size * np.arange(elements + 1)
    if callable(density):
        mass = integral(density, np.concatenate([[0.0], size * (np.arange(elements) + 0.5), [length]]))
    else:
        mass = np.full(elements + 1, size * density)
        mass[[0, -1]] *= 0.5
    q[0] += left * size
    q[-1] -= right * size
    rest = np.diff(q)
    if callable(modulus) or callable(section):
        soft = lambda s: 1.0 / (value(modulus, s) * value(section, s))  # noqa: E731
        pieces = integral(soft, np.concatenate([[0.0], q - edge, [length]]))  # (1), the tips first and last
        stiffness, tips = 1.0 / pieces[1:-1], (pieces[0], pieces[-1])
    else:
        stiffness = modulus * section / rest
        tips = (left * size / modulus / section, right * size / modulus / section)
    return {"q": q, "mass": mass, "rest": rest, "stiffness": stiffness, "left": left * size, "right": right * size, "tips": tips}


def crossing_time(length: float, elements: int, density: Any, modulus: Any, section: Any) -> float:
    """The shortest time in which a wave crosses one of the elements."""
    places = (np.arange(elements) + 0.5) * (length / elements)
    return min(length / elements * float(np.sqrt(value(density, s) / (value(modulus, s) * value(section, s)))) for s in places)


def supports_of(ends: Sequence[Any], count: int) -> Supports | None:
    """The supports of the first and the last of these nodes."""
    nodes = (0, count - 1)
    held = [node for node, end in zip(nodes, ends, strict=True) if end != "free"]
    driven = [(node, end) for node, end in zip(nodes, ends, strict=True) if callable(end)]
    if not held:
        return None
    if not driven:
        return Supports(held)

    def motion(t, params):
        return jnp.stack([params["held_at"][i] + jnp.asarray(end(t), float) for i, (_, end) in enumerate(driven)])

    return Supports(held, [node for node, _ in driven], motion)


def starts_of(ends: Sequence[Any], q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Put the ends that are driven where they start, with their speed; the places they are driven about."""
    held_at = []
    for node, end in ((0, ends[0]), (-1, ends[1])):
        if callable(end):
            held_at.append(q[node])
            place, speed = jax.jvp(lambda t, end=end: jnp.asarray(end(t), float), (0.0,), (1.0,))
            q[node] += float(place)
            v[node] = float(speed)
        elif end == "fixed":
            v[node] = 0.0
    return np.array(held_at)


def external_of(extras: Extras) -> Callable[..., Any] | None:
    """(2) and the force of the user's own."""
    if extras.force is None and not extras.damped:
        return None
    own = None if extras.force is None else Named(extras.force, ("q", "v", "t", "params"), "force")

    def external(q, v, t, params):
        total = jnp.zeros_like(v)
        if own is not None:
            total = total + jnp.asarray(own(q=q, v=v, t=t, params=params), v.dtype)
        if extras.damped:
            alpha, beta = params["damping"][0], params["damping"][1]
            pull = beta * params["stiffness"] * (v[1:] - v[:-1])
            total = total - alpha * params["mass"] * v + jnp.append(pull, 0.0) - jnp.concatenate([jnp.zeros(1), pull])
        return total

    return external


def check_bar_ends(ends: Any, wall: Any) -> tuple[Any, Any]:
    """Two of "free", "fixed" or a function of t."""
    checked = check_ends("bars", "the first bar and of the last", ends, ("free", "fixed"))
    if wall and checked[0] != "free":
        raise InputError("bars: the first bar has a wall on its left, so its left end must be free")
    return checked

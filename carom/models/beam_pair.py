"""Two geometrically exact beams that hit one another: each as in beam.py, and a contact between every two of their elements.

The gap between two elements is the distance of the segments of their lines of centroids less the radii of the two round skins.
It is the same for a configuration that is shifted or turned as a whole, so that impacts keep all six momenta of the pair.
"""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.contact import Contact
from carom.errors import InputError
from carom.models.beam import _force, _less_than_half_a_turn, _masses, _potential, highest_frequency, sections
from carom.models.beam_parts import Section, in_space, masses_and_stiffness, own_start, segment_distances, segment_slides
from carom.models.model import Model
from carom.spaces.groups import SE3
from carom.spaces.rotations import join, rotate, split
from carom.spaces.space import Power
from carom.system.lumped import LumpedSystem
from carom.wanted import Counts, NotNegative, Number, Poisson, Positive, Positives, Share, Triples


def _parts(q: Any, params: Any, counts: tuple[int, int]) -> list[tuple[Any, Any]]:
    """The configuration and the parameters of each beam."""
    ends, found = (0, counts[0], sum(counts)), []
    for i in (0, 1):
        one = {"gravity": params["gravity"]} | {name: params[name][i] for name in ("spacing", "stiffness")}
        one["mass"] = params["mass"][6 * ends[i] : 6 * ends[i + 1]]
        found.append((q[7 * ends[i] : 7 * ends[i + 1]], one))
    return found


@functools.lru_cache
def _system(counts: tuple[int, int], restitution: float, rough: bool = False) -> LumpedSystem:
    def gaps(q, params):
        one, other = (place.reshape(-1, 7)[:, 4:] for place, _ in _parts(q, params, counts))
        return segment_distances(one, other).reshape(-1) - params["radii"][0] - params["radii"][1]

    def slide(q, v, params):
        turning = join(rotate(split(q.reshape(-1, 7))[:4], split(v.reshape(-1, 6))[:3]))
        nodes = jnp.concatenate([q.reshape(-1, 7)[:, 4:], in_space(q, v), turning], axis=1)
        return segment_slides(nodes[: counts[0]], nodes[counts[0] :], params["radii"]).reshape(-1, 2)

    rubs: dict[str, Any] = {"friction": lambda params: params["friction"], "slip": slide} if rough else {}
    return LumpedSystem(
        _masses,
        lambda q, params: sum(_potential(place, own) for place, own in _parts(q, params, counts)),
        Power(SE3(), sum(counts)),
        [Contact(gaps, restitution, name="elements", **rubs)],
        highest_frequency=lambda params: max(
            highest_frequency(own) for _, own in _parts(np.zeros(7 * sum(counts)), params, counts)
        ),
        admissible=lambda q, params: jnp.all(
            jnp.concatenate([_less_than_half_a_turn(place) for place, _ in _parts(q, params, counts)])
        ),
        force=lambda q, params: jnp.concatenate([_force(place, own) for place, own in _parts(q, params, counts)]),
    )


@public
def beam_pair(
    elements: Counts = (3, 3),
    lengths: Positives = (0.5, 0.5),
    radii: Positives = (0.02, 0.02),
    places: Triples = ((-0.25, 0.0, 0.0), (0.03, -0.25, 0.06)),
    turns: Triples = ((0.0, np.pi / 2, 0.0), (-np.pi / 2, 0.0, 0.0)),
    velocities: Triples = ((0.0, 0.0, 0.5), (0.0, 0.0, -0.5)),
    density: Positive = 1e3,
    modulus: Positive = 1e5,
    poisson: Poisson = 0.35,
    gravity: Number = 0.0,
    restitution: Share = 1.0,
    friction: NotNegative = 0.0,
) -> Model:
    """Two round, straight beams that collide, by default crosswise: one entry per beam of elements, length, radius, place and
    rotation vector of the first section (whose axis is z before it is turned) and velocity, the last three in space. `friction`
    is that of the two skins, where their elements are nearest."""
    columns = {"elements": elements, "lengths": lengths, "radii": radii, "places": places, "turns": turns, "velocities": velocities}
    for name, values in columns.items():
        if len(values) != 2:
            raise InputError(f"beam_pair: {name} has {len(values)} entries; there are two beams")
    made = [masses_and_stiffness(n, length / n, Section.circle(radius), density, modulus, poisson)
            for n, length, radius in zip(elements, lengths, radii, strict=True)]  # fmt: skip
    starts = [own_start(n + 1, length / n, 0.0, None, turn, velocity)
              for n, length, turn, velocity in zip(elements, lengths, turns, velocities, strict=True)]  # fmt: skip
    for (q, _), place in zip(starts, places, strict=True):
        q[:, 4:] += np.asarray(place, float)
    counts = elements[0] + 1, elements[1] + 1
    params = {
        "mass": np.concatenate([masses.reshape(-1) for masses, _ in made]),
        "spacing": np.array([length / n for n, length in zip(elements, lengths, strict=True)]),
        "stiffness": np.stack([stiffness for _, stiffness in made]),
        "radii": np.asarray(radii, float),
        "gravity": gravity,
    }
    params |= {"friction": friction} if friction > 0 else {}
    system = _system(counts, float(restitution), friction > 0)
    return Model(
        name="beam_pair",
        about="two geometrically exact beams that collide",
        system=system,
        q0=np.concatenate([q.reshape(-1) for q, _ in starts]).tolist(),
        v0=np.concatenate([v.reshape(-1) for _, v in starts]).tolist(),
        params=params,
        dt=0.5 / system.highest_frequency(params),  # pyright: ignore[reportOptionalCall]
        num_steps=500,
        source="demoures2017, §5",
        shape=lambda q, params: [part for place, own in _parts(np.asarray(q), params, counts) for part in sections(place, own)],
    )

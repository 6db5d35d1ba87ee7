"""Bad input gets a clear error before anything is compiled for long."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import floats
from carom.closures.per_object import per_object
from carom.contact.projection import closest_point
from carom.errors import InputError, InsideObstacle
from carom.kept.keep import keep, keep_quick
from carom.named import frozen, settled, traced_in, unseen_in
from carom.results.solution import Solution
from carom.running.admissible import check_constraints, find_massless, kinetic_energy
from carom.running.contact_checks import check_laws
from carom.running.first_look import Probe, is_good, is_plain, probe_of, start_of
from carom.running.options import check_system, check_untraced, number
from carom.running.probes import check_joints, check_mass
from carom.running.structures import contacts_of, structure
from carom.running.tracing import controlled, explained
from carom.system.lumped import LumpedSystem
from carom.system.one_state import no_number
from carom.system.system import System
from carom.xla.trees import fetched


class Problem(NamedTuple):
    """A checked problem: arrays of the right shape, and the momentum at the start."""

    system: System  # with its massless directions
    q0: jax.Array
    v0: jax.Array
    p0: jax.Array
    t0: jax.Array
    params: Any
    contact_names: tuple[str, ...]
    owner: np.ndarray
    needs: frozenset[str]  # of the system, with what only its values show


def check_problem(
    system: System,
    q0: Any,
    v0: Any,
    params: Any = None,
    t0: float = 0.0,
    p0: Any = None,
    stop: Any = None,
    shape: Any = None,
    expect: Callable[[Problem], None] | None = None,
) -> Problem:
    """`stop` and `shape` are checked elsewhere; here they are asked which parameters they read. `expect` is told, where a system of
    this kind was not seen before, as soon as its functions are known to be such: numbers that it finds there may change."""
    check_system(system)
    check_untraced(q0=q0, v0=v0, p0=p0, t0=t0, params=params, system=system)
    system = frozen(system)
    _check_captured(system)
    if (v0 is None) == (p0 is None):
        raise InputError("a run starts from q0 and either v0 or p0: pass one of the two")
    given = "p0" if v0 is None else "v0"
    q, v = _vector(q0, "q0"), _vector(p0 if v0 is None else v0, given)
    if system.space is None and q.shape != v.shape:
        raise InputError(f"q0 has {q.size} entries and {given} has {v.size}; they must agree")
    if system.space is not None and system.space.size != q.size:
        names = ", ".join(system.space.names[:16])
        raise InputError(f"q0 has {q.size} entries; the system's space has {system.space.size} ({names})")
    if system.space is not None and system.space.dim != v.size:
        raise InputError(f"{given} has {v.size} entries; velocities of the system's space have {system.space.dim}")
    return check_start(system, q, v, _parameters(params), number(t0, "t0"), v0 is None, stop, shape, expect)


def check_start(
    system: System,
    q: np.ndarray,
    v: np.ndarray,
    params: Any,
    start: float,
    from_momentum: bool,
    stop: Any,
    shape: Any = None,
    expect: Callable[[Problem], None] | None = None,
) -> Problem:
    """The same for arrays of the right shapes and a frozen system. `v`: the velocity, or the momentum."""
    system = settled(system, q=q, v=v, t=start, params=params, **controlled(system))
    check_quaternions(system, q)

    def found(names: tuple[str, ...], owner: np.ndarray) -> None:
        if expect is not None:
            expect(Problem(system, q, v, v, np.asarray(start), params, names, owner, system.needs))

    names, owner = structure(system, q, params, start, v.size, stop, shape, found=found)
    if "nodes" in system.needs:
        return _check_lumped(system, q, v, params, start, from_momentum, names, owner)
    at = q, np.zeros_like(v) if from_momentum else v, np.asarray(start)
    with explained("the derivatives of the system: it"):
        if is_plain(system):
            p, speed, good = fetched(is_good(system, params, *at, v, from_momentum))
            if good:
                return Problem(system, at[0], speed, p, at[2], params, names, owner, system.needs)
        probe, (p, speed) = fetched(probe_of(system, params, *at, v, from_momentum))
    _check_probe(probe, system)
    _check_slip(probe, names, owner)
    check_laws(system, params, *at)
    kinetic = kinetic_energy(probe.here)
    check_mass(system, probe.here, kinetic)
    check_constraints(system, params, probe.here, q, None if from_momentum else v, start, names, owner)
    found, touches = find_massless(system, params, probe.here, kinetic, q, at[1], start)
    if found is not system:
        p, speed = fetched(start_of(found, params, q, v, at[2], from_momentum))
    system, v = found, speed
    check_joints(system, params, q, v, start)
    plain = len(names) == len(owner) and q.shape == v.shape
    _check_gaps(probe, names, lambda: _closest(system, params, *at) if plain else None)
    needs = system.needs | _hidden_needs(probe, touches)
    return Problem(system, at[0], v, p, at[2], params, names, owner, needs)


def problem_of(run: Solution) -> Problem:
    """The problem of a run that was made before."""
    params = jax.tree.map(jnp.asarray, run.params)
    names, owner = contacts_of(run.system, params, run.q.shape[1])
    q, p, t = (jnp.asarray(x[0]) for x in (run.q, run.p, run.t))
    v = _velocity(run.system, params, q, p, t)  # not run.v: all of it would be compiled anew for every length of a run
    return Problem(run.system, q, v, p, t, params, names, owner, run.system.needs)


@keep_quick
def _velocity(system: System, params: Any, q, p, t):
    return system.bind(params, q.shape[0]).velocity(q, p, t)


@keep_quick
def _closest(system: System, params: Any, q, v, t) -> jax.Array:
    m = system.bind(params, q.shape[0])
    return closest_point(lambda x: m.contacts.faces(x, t), m.mass(q, v, t), q)


@per_object
def _check_captured(system: System) -> None:
    """Of a frozen system, whose functions have copies of what they capture: once is enough."""
    blind = traced_in(system)
    if blind is not None:
        raise InputError(
            f"the {blind.role} captures a value that is being traced by jit, grad or vmap: use carom.rollout, and hand that value "
            "over through params"
        )
    blind = unseen_in(system)
    if blind is not None:
        raise InputError(
            f"the {blind.role} {blind.function.unseen}: what it finds there cannot be seen from outside, and a compiled run would "
            "keep the values of its first call. Fetch them before, in a line of its own, and use the result, or hand it over "
            "through params"
        )


def _vector(value: Any, name: str) -> np.ndarray:
    try:
        array = floats(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a list of numbers; got {value!r}") from error
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} must be a vector; got shape {array.shape}" + (" (wrap a single number: [x])" if array.ndim == 0 else "")
        )
    if not np.all(np.isfinite(array)):
        where = np.flatnonzero(~np.isfinite(array))[0]
        raise InputError(f"{name}[{where}] is {array[where]}; all entries must be finite numbers")
    return array


def _is_usual(leaf: Any) -> bool:
    """A number, or an array of numbers, about which there is nothing to ask."""
    if type(leaf) is np.ndarray:
        return leaf.dtype == np.float64 and bool(np.isfinite(leaf).all())
    return (type(leaf) is float and math.isfinite(leaf)) or (type(leaf) is int and abs(leaf) < 2**53)


def _parameters(params: Any) -> Any:
    if params is None:
        params = {}
    none = lambda leaf: leaf is None  # noqa: E731  # JAX would leave it out
    leaves, tree = jax.tree.flatten(params, is_leaf=none)
    if all(_is_usual(leaf) for leaf in leaves):
        return jax.tree.unflatten(tree, [np.array(leaf, float) for leaf in leaves])

    def number(path, leaf):
        where = "params" + jax.tree_util.keystr(path)
        if leaf is None and isinstance(path[-1] if path else None, jax.tree_util.GetAttrKey):
            return leaf  # of an object: a place that its arrays do not fill
        if leaf is None:
            raise InputError(f"{where} is None; parameters are numbers: give it one, or leave it out")
        if hasattr(leaf, "to_dict"):  # of pandas: as an array it would lose its names
            raise InputError(
                f"{where} must be a number, an array or a dict of them; got {type(leaf).__name__}: pass its .to_dict()"
            )
        try:
            array = floats(leaf)  # a copy: the run keeps its numbers. Of numpy: nothing is compiled for it
        except (TypeError, ValueError) as error:
            raise no_number(path, leaf) from error
        if not np.isfinite(array).all():
            raise InputError(f"{where} is {leaf}; parameters must be finite")
        return array

    return jax.tree_util.tree_map_with_path(number, params, is_leaf=none)


def _check_lumped(
    system: LumpedSystem, q: np.ndarray, v: np.ndarray, params: Any, start: float, from_momentum: bool, names: Any, owner: Any
) -> Problem:
    """The same for masses at nodes: no matrix, and nothing that takes longer than a few steps."""
    arrays = q, v, np.asarray(start)
    masses, potential, force, slope, gaps, rounding, shared, held = fetched(_lumped_probe(system, params, *arrays))
    if not np.all(masses > 0):
        i = int(np.argmin(masses))
        raise InputError(f"mass[{i}] is {masses[i]}; lumped masses must be positive")
    if not (np.isfinite(potential) and np.all(np.isfinite(force))):
        raise InputError(f"the potential is {float(potential)} at the initial state, or its slope is not finite")
    if np.max(np.abs(force - slope)) > 1e-8 * np.max(np.abs(slope), initial=1e-300) + 1e-10 * np.max(np.abs(force), initial=0.0):
        i = int(np.argmax(np.abs(force - slope)))
        raise InputError(f"force[{i}] is {force[i]:.6g} at the initial state, but the potential falls by {slope[i]:.6g} along it")
    if shared:
        raise InputError("two contacts move the same node: the system must not be declared with separate=True")
    for i in np.flatnonzero(~(gaps + rounding >= -1e-14)) if not system.transmits else ():
        raise InsideObstacle(f"the initial state lies inside an obstacle: contact {i} ({names[i]!r}) is {-gaps[i]:.6g} deep")
    p, speed = (v, v / masses) if from_momentum else (masses * v, v)
    place, velocity, free = held
    for what, given, wanted in (("place", q, place), ("velocity", speed, np.where(free > 0, speed, velocity))):
        if np.any(np.abs(wanted - given) > 1e-9 * (1 + np.abs(given))):
            i = int(np.argmax(np.abs(wanted - given)))
            raise InputError(f"a support asks for the {what} {wanted[i]:.6g} of entry {i} at the start; it is {given[i]:.6g}")
    return Problem(system, q, speed, p, arrays[2], params, names, owner, system.needs)


@keep  # not in a hurry: the force and the slope of the potential are compared to rounding
def _lumped_probe(system: LumpedSystem, params: Any, q, v, t):
    m = system.bind(params, q.shape[0])
    gaps, width, shared = jnp.zeros(0), jnp.zeros(0), jnp.asarray(False)
    if m.contacts.num_contacts:
        gaps, width = m.contacts.gaps(q, t), m.gap_rounding(q, v, t, 0.0)
    if m.separate and m.contacts.num_contacts > 1:  # with G diagonal, impulses w and 1 give rates in the ratio w, whatever w
        weights = 1.0 + jax.random.uniform(jax.random.key(0), gaps.shape)
        rates = m.diagonal(q, t, weights), m.diagonal(q, t)
        shared = jnp.any(jnp.abs(rates[0] - weights * rates[1]) > 1e-9 * jnp.abs(rates[1]))
    held = m.placed(q, t), m.remove_reaction(q, jnp.zeros_like(v), t) / m.masses, jnp.broadcast_to(m.free, v.shape)
    return m.masses, m.potential(q), m.force(q), m.pull_back(q), gaps, width, shared, held


def check_quaternions(system: System, q: np.ndarray, where: str = "") -> None:
    if "rotations" not in system.needs:
        return
    for i, name in enumerate(system.space.names if system.space is not None else ()):
        if name.rstrip("0123456789") != "qw":
            continue
        norm = float(np.sum(q[i : i + 4] ** 2))
        if abs(norm - 1) > 1e-9:
            raise InputError(f"{where}q0[{i}:{i + 4}] must be a unit quaternion (w, x, y, z); its norm is {np.sqrt(norm):.6g}")


def needs_of(system: Any) -> frozenset[str]:
    """What a system asks of a method, before anything is computed."""
    check_system(system)
    return system.needs


def _hidden_needs(probe: Probe, touches: bool) -> frozenset[str]:
    """What only the values of a system show."""
    found = set()
    change = np.max(np.abs(probe.here.mass - probe.other_mass))
    if not change <= 1e-8 * np.max(np.abs(probe.here.mass)):
        found.add("energy not quadratic")
        if not np.linalg.cond(probe.other_mass) < 1e12:
            raise InputError(
                "the energy is not quadratic in the velocities and has no mass at rest (∂²L/∂v² at v = 0 has no inverse): momenta "
                "near rest determine no velocity. Add a small quadratic term"
            )
    if touches:
        found.add("contacts along massless directions")
    if probe.degenerate:
        found.add("degenerate hamiltonian")
    return frozenset(found)


def check_step(system: System, method: Any, params: Any, dt: float) -> None:
    """Explicit steps beyond the Courant limit blow up: they are refused."""
    if system.highest_frequency is None:
        return
    # By its class, as in `solve`: equinox makes a module of a bound method.
    limit = type(method).stability_limit(method, system.highest_frequency(params))
    if dt > limit * (1 + 1e-9):  # the limit itself, as a person would type it
        raise InputError(
            f"dt = {dt:g} is beyond the stability (Courant) limit {limit:.6g} of {type(method).__name__} for this system: "
            f"take dt ≤ {limit:.4g}, or fewer elements"
        )


def _check_probe(probe: Probe, system: System) -> None:
    given = "lagrangian" if system.hamiltonian is None else "hamiltonian"
    if not np.isfinite(probe.lagrangian):
        raise InputError(f"the {given} is {float(probe.lagrangian)} at the initial state")
    if not np.all(np.isfinite(probe.force)):
        raise InputError(f"the force is {probe.force} at the initial state")
    if not np.all(np.isfinite(probe.here.mass)):
        raise InputError(f"the mass matrix ∂²L/∂v² is not finite at the initial state:\n{probe.here.mass}")
    for what, values, upper in (("restitution", probe.restitution, 1.0), ("friction", probe.friction, np.inf)):
        if np.any((values < 0) | (values > upper) | ~np.isfinite(values)):
            raise InputError(f"{what} must lie in [0, {upper:g}]; it is {values[np.argmax((values < 0) | (values > upper))]}")


def _check_slip(probe: Probe, names: tuple[str, ...], owner: Any) -> None:
    if np.any(probe.normal_slip):
        name = names[int(np.asarray(owner)[int(np.argmax(probe.normal_slip))])]
        raise InputError(
            f"the slip of contact {name!r} moves as its gap does: friction acts along the surface, and this is the direction in "
            "which the gap closes. Write the velocity along the surface (v[0], where the gap is q[1])"
        )


def _check_gaps(probe: Probe, names: tuple[str, ...], closest: Callable[[], Any]) -> None:
    depth = -probe.gaps - probe.rounding
    if np.all(depth <= 1e-14):
        return
    i = int(np.argmax(np.where(np.isnan(depth), np.inf, depth)))
    if np.isnan(probe.gaps[i]):
        raise InputError(f"the gap of contact {i} ({names[i]!r}) is not a number at the initial state")
    message = f"the initial state lies inside an obstacle: contact {i} ({names[i]!r}) is {-probe.gaps[i]:.6g} deep"
    nearest = closest()
    if nearest is None or not np.all(np.isfinite(nearest)):
        raise InsideObstacle(message)
    where = np.array2string(np.asarray(nearest), precision=8, separator=", ")
    raise InsideObstacle(
        f"{message}. The closest admissible configuration in the kinetic metric is q0 = {where}", np.asarray(nearest)
    )

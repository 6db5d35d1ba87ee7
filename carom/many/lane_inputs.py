"""What an ensemble is given: arrays with one row per lane, checked."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from carom.calls import floats
from carom.errors import InputError
from carom.kept.keep import keep
from carom.methods.variational.lanes import LaneInputs
from carom.running.checks import Problem, check_problem, check_quaternions
from carom.running.probes import check_joints, joints_hold

PIECE, PIECE_ON_GPU = 1 << 16, 1 << 22  # lanes that are looked at together


class Assembly(NamedTuple):
    """How the parameters of one lane are put together: which leaves of the tree all lanes share."""

    tree: Any
    varies: tuple[bool, ...]

    def __call__(self, shared: Sequence[Any], each: Sequence[Any]) -> Any:
        ours, common = iter(each), iter(shared)
        return jax.tree.unflatten(self.tree, [next(ours) if v else next(common) for v in self.varies])


class CheckedLanes(NamedTuple):
    q: Float[np.ndarray, "lanes n"]
    v: Float[np.ndarray, "lanes n"]
    p: Float[np.ndarray, "lanes n"]
    dt: Float[np.ndarray, " lanes"]
    energy: Float[np.ndarray, " lanes"]
    shared: list[np.ndarray]
    each: list[np.ndarray]
    assembly: Assembly
    problem: Problem  # of the first lane


def check_lanes(system, q0s, v0s, dt, params, each, t0) -> CheckedLanes:
    q, v = _rows(q0s, "q0s"), _rows(v0s, "v0s")
    each = {key: floats(value) for key, value in (each or {}).items()}  # copies: what was asked for stays known
    if each and not isinstance(params or {}, dict):
        raise InputError("each gives parameters by name; params must then be a dict")
    steps = np.atleast_1d(floats(dt))
    sizes = {"q0s": len(q), "v0s": len(v), "dt": len(steps)}
    sizes |= {f"each[{key!r}]": len(value) if value.ndim else 0 for key, value in each.items()}
    count = max(sizes.values())
    if count == 1 and not each and np.ndim(q0s) == 1 and np.ndim(v0s) == 1:
        raise InputError(
            f"q0s and v0s are one state of {len(q[0])} coordinates, and nothing differs from lane to lane: write one row per lane, "
            "as [[1.0], [2.0]] for two lanes with one coordinate, or pass each="
        )
    for key, size in sizes.items():
        if size != count and (size != 1 or key.startswith("each")):
            raise InputError(f"{key} has {size} rows; there are {count} lanes")
    if not np.all((steps > 0) & np.isfinite(steps)):
        raise InputError(f"dt must be positive in every lane; it is {steps[~((steps > 0) & np.isfinite(steps))][0]}")
    first = {**(params or {}), **{key: value[0] for key, value in each.items()}} if each else params
    problem = check_problem(system, q[0], v[0], first, t0)
    leaves, tree = jax.tree.flatten_with_path(problem.params)
    varies = tuple(path[0].key in each if each else False for path, _ in leaves)
    shared = [np.asarray(leaf) for (_, leaf), differs in zip(leaves, varies, strict=True) if not differs]
    own = [each[path[0].key] for (path, _), differs in zip(leaves, varies, strict=True) if differs]
    q, v = np.broadcast_to(q, (count, q.shape[1])), np.broadcast_to(v, (count, v.shape[1]))
    steps, assembly = np.broadcast_to(steps, (count,)), Assembly(tree, varies)
    p, energy = _check_starts(problem.system, assembly, shared, own, q, v, float(t0), problem.contact_names)
    return CheckedLanes(q, v, p, steps, energy, shared, own, assembly, problem)


def _rows(value: Any, name: str) -> np.ndarray:
    try:
        array = floats(value)  # a copy: the ensemble keeps its start
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers, one row per lane; got {value!r}") from error
    if array.ndim not in (1, 2) or array.size == 0:
        raise InputError(f"{name} must have the shape [lanes, coordinates]; got {array.shape}")
    array = np.atleast_2d(array)
    if not np.isfinite(array).all():  # row by row this takes three times as long
        bad = np.flatnonzero(~np.all(np.isfinite(array), axis=1))
        raise InputError(f"{name}: lane {bad[0]} is {array[bad[0]]}; all entries must be finite numbers")
    return array


def _check_starts(system, assembly, shared, own, q, v, t0: float, names) -> tuple[np.ndarray, np.ndarray]:
    """The momenta and energies of all lanes, in pieces; every lane must start outside of all obstacles, with unit quaternions, with
    joints that hold, and with a velocity that its constraints allow."""
    if "rotations" in system.needs:
        _check_quaternions(system, q)
    momenta, energies = np.empty_like(v), np.empty(len(q))
    piece = PIECE if jax.default_backend() == "cpu" else PIECE_ON_GPU
    for start in range(0, len(q), piece):
        part = slice(start, start + piece)
        given = assembly, LaneInputs(shared, [x[part] for x in own], t0, t0), q[part], v[part]  # pyright: ignore[reportArgumentType]
        momenta[part], energies[part], good = jax.device_get(_starts(system, *given))
        if not good:
            _say_what_is_wrong(system, *given, start, names)
    return momenta, energies


def _check_quaternions(system, q: np.ndarray) -> None:
    """Of all lanes at once; the first that is none is looked at by itself, and named."""
    at = [i for i, name in enumerate(system.space.names if system.space is not None else ()) if name.rstrip("0123456789") == "qw"]
    for lane in np.flatnonzero(np.any([np.abs(np.sum(q[:, i : i + 4] ** 2, axis=1) - 1) > 0.9e-9 for i in at], axis=0)):
        check_quaternions(system, q[lane], f"lane {lane}: ")


def _say_what_is_wrong(system, assembly: Assembly, inputs: LaneInputs, q, v, start: int, names) -> None:
    """In the first lane of a piece where something is. What is wrong by rounding alone may be right here."""
    p, energy, gaps, width, slip, reach, held = jax.device_get(_details(system, assembly, inputs, q, v))
    for lane in np.flatnonzero(~held)[:1]:
        params = assembly(inputs.shared, [x[lane] for x in inputs.each])
        _say_which_joint(system, params, q[lane], v[lane], float(inputs.t0), start + lane)
    wrong = np.argwhere(_is_large(slip, reach))
    if len(wrong):
        lane, row = wrong[0]
        raise InputError(
            f"lane {start + lane}: v0 violates the constraints: row {row} of A v0 is {slip[lane, row]:.6g}, and should be 0"
        )
    bad = np.flatnonzero(~np.all(np.isfinite(p), axis=1) | ~np.isfinite(energy))
    if len(bad):
        raise InputError(f"lane {start + bad[0]}: the lagrangian or its derivatives are not finite at the initial state")
    deep = np.argwhere(~_is_outside(gaps, width))
    if len(deep) and not system.transmits:
        lane, i = deep[0]
        raise InputError(
            f"lane {start + lane}: the initial state lies inside an obstacle: contact {i} ({names[i]!r}) is "
            f"{-gaps[lane, i]:.6g} deep"
        )


def _is_large(slip, reach):
    return abs(slip) > 1e-9 * (reach + 1e-300)


def _is_outside(gaps, width):
    return gaps >= -width - 1e-14


def _say_which_joint(system, params, q, v, t0: float, lane: int) -> None:
    try:
        check_joints(system, params, q, v, t0)
    except InputError as error:
        raise InputError(f"lane {lane}: {error}") from error


@keep
def _starts(system, assembly: Assembly, inputs: LaneInputs, q, v):
    """Momenta and energies, and whether all is well in all lanes: one number to fetch, where nothing is wrong."""
    p, energy, gaps, width, slip, reach, held = _looked_at(system, assembly, inputs, q, v)
    parts = [held, ~_is_large(slip, reach), jnp.isfinite(p), jnp.isfinite(energy)]
    parts += [] if system.transmits else [_is_outside(gaps, width)]
    return p, energy, jnp.stack([jnp.all(part) for part in parts]).all()


@keep
def _details(system, assembly: Assembly, inputs: LaneInputs, q, v):
    return _looked_at(system, assembly, inputs, q, v)


def _looked_at(system, assembly: Assembly, inputs: LaneInputs, q, v):
    def one(each, q, v):
        m = system.bind(assembly(inputs.shared, each), q.shape[0])
        t = jnp.asarray(inputs.t0, float)
        some = m.contacts.num_contacts > 0
        gaps, width = (m.contacts.gaps(q, t), m.gap_rounding(q, v, t, 0.0)) if some else (jnp.zeros(0),) * 2
        A = m.functions.constraints(q, t)
        p = m.remove_reaction(q, m.momentum(q, v, t), t)
        held = joints_hold(system, assembly(inputs.shared, each), q, v, t) if system.joints else jnp.asarray(True)
        return p, m.energy(q, v, t), gaps, width, A @ v, jnp.abs(A) @ jnp.abs(v), held

    return jax.vmap(one)(inputs.each, q, v)


def saved_steps(save: int | Sequence[int] | None, total: int) -> list[int]:
    """The steps whose states are kept; the last one always."""
    if save is None:
        return [total]
    try:
        wanted = np.arange(0, total + 1, save) if isinstance(save, (int, np.integer)) and save > 0 else np.asarray(save)
    except ValueError:  # lists of several lengths
        wanted = np.empty(0)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
        raise InputError(f"save must be a positive whole number or a list of steps; got {save!r}")
    steps = sorted({*wanted.tolist(), total})
    if steps[0] < 0 or steps[-1] > total:
        raise InputError(f"save asks for step {steps[0] if steps[0] < 0 else steps[-1]}; there are 0 to {total}")
    return steps

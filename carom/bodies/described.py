"""What a person said about a body or a joint, as numbers, refused with a reason where it cannot be."""

import os
from typing import Any

import numpy as np

from carom.bodies.shapes.shape import Mass, Placed, numbers, together, vector
from carom.calls import real
from carom.errors import InputError
from carom.running.options import whole


def number(value: Any, what: str) -> float:
    try:
        number = real(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{what} must be a finite number; got {value!r}")
    return number


def check_run(dt: Any, num_steps: Any, save_every: Any, tolerance: Any, places: dict[str, Any], every: Any) -> None:
    """What a world is asked to run."""
    if isinstance(dt, list | tuple) or getattr(dt, "ndim", 0) or not number(dt, "dt, the length of all steps,") > 0:
        raise InputError(f"dt must be positive, and one number for all steps; got {dt!r}")
    whole(num_steps, "num_steps")
    whole(save_every, "save_every", of=" of steps")
    if not number(tolerance, "tolerance") > 0:
        raise InputError(f"tolerance must be positive; got {tolerance!r}")
    for name, path in places.items():
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise InputError(f"{name} must be the name of a file; got {path!r}")
    if every is not None and places["checkpoint"] is None:
        raise InputError("every says how often a checkpoint is written: pass checkpoint= too")


def weigh(name: str, placed: list[Placed], dim: int, density: Any, mass: Any, inertia: Any) -> Mass:
    """Mass, centre and inertia of a free body."""
    endless = [one.shape for one in placed if one.shape.fixed_only]
    if endless:
        raise InputError(f"{type(endless[0]).__name__} cannot move freely: use world.fix or world.prescribe for {name!r}")
    if (density is None) == (mass is None):
        raise InputError(f"body {name!r} needs density= or mass=, one of them")
    given = number(density if mass is None else mass, f"the {'density' if mass is None else 'mass'} of {name!r}")
    if given <= 0:
        raise InputError(f"the {'density' if mass is None else 'mass'} of {name!r} must be positive; got {given}")
    whole = together([one.mass for one in placed])
    whole = whole.scaled(given if mass is None else given / whole.volume)
    if inertia is None:
        return whole
    matrix = numbers(inertia)
    matrix = np.diag([0.0, 0.0, float(matrix)]) if matrix.shape == () else np.diag(matrix) if matrix.shape == (3,) else matrix
    whole_matrix = matrix.shape == (3, 3) and np.all(np.isfinite(matrix)) and np.allclose(matrix, matrix.T)
    moments = np.linalg.eigvalsh(matrix) if whole_matrix else np.array([-1.0])
    if dim == 3 and (moments[0] <= 0 or moments[0] + moments[1] < moments[2] * (1 - 1e-9)):
        raise InputError(
            f"the inertia of {name!r} must be three moments or a symmetric matrix [3, 3], positive, each moment at most the sum of "
            f"the other two; got {inertia!r}"
        )
    if dim == 2 and (np.ndim(inertia) or not numbers(inertia) > 0):
        raise InputError(f"the inertia of {name!r} must be a positive number; got {inertia!r}")
    return Mass(whole.volume, whole.center, matrix)


def axes_of(kind: str, axis: Any, second: Any, dim: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The axis of a joint and one across it."""
    needs = kind == "universal" or (dim == 3 and kind == "hinge") or kind == "slider"
    if needs and (axis is None or (kind == "universal" and second is None)):
        raise InputError(f"joint {name!r} is a {kind} and needs axis=" + (" and second=" if kind == "universal" else ""))
    main = np.array([1.0, 0.0, 0.0]) if axis is None else vector(axis, dim, f"the axis of joint {name!r}")
    other = np.eye(3)[int(np.argmin(np.abs(main)))] if second is None else vector(second, dim, f"the second axis of joint {name!r}")
    if not np.any(main) or np.linalg.norm(np.cross(main, other)) <= 1e-12 * np.linalg.norm(main) * np.linalg.norm(other):
        raise InputError(f"the axes of joint {name!r} must not be zero or parallel; got {axis!r} and {second!r}")
    if kind == "universal" and abs(main @ other) > 1e-9 * np.linalg.norm(main) * np.linalg.norm(other):
        raise InputError(f"the axes of the universal joint {name!r} must be at right angles; got {axis!r} and {second!r}")
    return main / np.linalg.norm(main), other / np.linalg.norm(other)

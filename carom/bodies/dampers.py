"""Dampers, of joints and of springs: rows that give way.

A damper pushes by f = −c ċ along its coordinate, of body b against body a. Over a step of length h, with rates u₀ and u₁,

    p = −h c (θu₁ + (1 − θ)u₀)     which is     u₁ + κu₀ + γp = 0,   κ = (1 − θ)/θ,   γ = 1/hcθ                                (1)

That is the row of a joint with a compliance γ, so it is solved for with contacts and joints, and there is no bound on c h. With
w = 1/m of the coordinate a damper alone has u₁ = (1 − (1 − θ)z)/(1 + θz) u₀, z = hcw. θ = ½ is of order 2 and takes
γp²/2 ≥ 0 of energy, but from z = 2 on it turns u around, and for large z it takes nothing. So

    θ = max(½, 1 − 1/z)                                                                                                     (2)

is ½ wherever a step resolves the damper, and stops what it does not resolve within the step. An impact has no duration, and no
damper acts in it.
"""

import numpy as np

from carom.bodies.joints import JointRows, coordinate
from carom.bodies.scene import Scene, State


def with_dampers(joints: JointRows, scene: Scene, state: State, h: float) -> JointRows:
    """Beside the rows of joints those of (1)."""
    rows, R = joints.take(np.arange(len(joints))), state.R
    for joint in scene.joints.elastic:
        if joint.drive.damping > 0:
            _add(rows, scene, state, joint.a, joint.b, coordinate(joint, state.x, R, scene.dim)[1:], h * joint.drive.damping)
    for spring in scene.springs:
        if spring.damping > 0:
            length, *line = spring.line(state.x, R)
            if length > 0:
                _add(rows, scene, state, spring.a, spring.b, tuple(line), h * spring.damping)
    return rows


def _add(rows: JointRows, scene: Scene, state: State, a: int, b: int, line: tuple[np.ndarray, ...], strength: float) -> None:
    """The row along `line` (linear, turn_a, turn_b) of a damper with hc = `strength`."""
    linear, turn_a, turn_b = line
    inverse = state.inverse(scene)
    light = (scene.inverse_mass[a] + scene.inverse_mass[b]) * (linear @ linear)
    light += turn_a @ inverse[a] @ turn_a + turn_b @ inverse[b] @ turn_b
    theta = max(0.5, 1 - 1 / (strength * light)) if light > 0 else 0.5  # (2)
    rows.append(a, b, *line, 0.0, None, np.inf, -1, 0.0, 1 / (strength * theta), (1 - theta) / theta)

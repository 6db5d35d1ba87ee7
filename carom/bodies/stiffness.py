"""Springs that a step is too long for.

A step sees a spring in its middle, as the leapfrog does. With S the rows of springs, K their stiffness and J the rows of joints,

    ω² = the largest value of K Sᵀ(M⁻¹ − M⁻¹J(JᵀM⁻¹J)⁺JᵀM⁻¹)S,     and     h ω ≤ 2                                            (1)

is what it takes: beyond that every swing is larger than the one before. A damper that stops its swing within a step (z = hcw > 2 in
`carom.bodies.dampers`) lets the spring be so much stiffer.
"""

import numpy as np

from carom.bodies.contact_rows import build_rows, delassus
from carom.bodies.detection.detect import Contacts
from carom.bodies.joints import JointRows, coordinate, joint_rows
from carom.bodies.scene import Scene, State
from carom.errors import InputError

MOST = 1500  # rows, up to which (1) is one small problem


def refuse_stiff(scene: Scene, state: State, h: float) -> None:
    """(1), before the run."""
    rows, stiffness, damping = _springs(scene, state)
    joints = joint_rows(scene.joints, state.x, state.R, scene.dim)
    if not stiffness or len(rows) + len(joints) > MOST:
        return
    count = len(rows)
    for i in np.flatnonzero([speed is None for speed in joints.speed]):
        rows.append(*(column[i] for column in joints._columns()))
    none = np.zeros(0, int)
    contacts = Contacts(none, none, np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), none)
    W = delassus(scene, build_rows(scene, state, contacts, rows), state.inverse(scene))
    free, held = W[:count, :count], W[:count, count:]
    if W.shape[0] > count:
        free = free - held @ np.linalg.pinv(W[count:, count:], rcond=1e-10, hermitian=True) @ held.T
    z = h * np.array(damping) * np.diag(W)[:count]
    root = np.sqrt(np.array(stiffness) / np.maximum(1.0, z / 2))
    rate = float(np.sqrt(max(np.linalg.eigvalsh(root[:, None] * free * root)[-1], 0.0)))
    if h * rate > 2 * (1 + 1e-9):
        raise InputError(
            f"dt = {h:.6g} is too long for the springs: the stiffest swings in {2 * np.pi / rate:.6g}, and from {2 / rate:.6g} "
            "on each swing would be larger than the one before. Take a smaller dt (a twentieth of the swing shows it), a softer "
            "spring, or a joint where nothing is meant to give"
        )


def _springs(scene: Scene, state: State) -> tuple[JointRows, list[float], list[float]]:
    """The rows of springs, with stiffness and damping."""
    rows, stiffness, damping = JointRows(), [], []
    for joint in scene.joints.elastic:
        line = coordinate(joint, state.x, state.R, scene.dim)[1:]
        rows.append(joint.a, joint.b, *line, 0.0, None, np.inf, -1, 0.0, 0.0, 1.0)
        stiffness.append(joint.drive.stiffness)
        damping.append(joint.drive.damping)
    for spring in scene.springs:
        ra, rb = state.R[spring.a] @ spring.at_a, state.R[spring.b] @ spring.at_b
        apart = state.x[spring.b] + rb - state.x[spring.a] - ra
        length = float(np.linalg.norm(apart))
        n = apart / length if length > 0 else np.array([1.0, 0.0, 0.0])  # any direction: it swings in all of them
        rows.append(spring.a, spring.b, n, np.cross(ra, n), np.cross(rb, n), 0.0, None, np.inf, -1, 0.0, 0.0, 1.0)
        stiffness.append(spring.stiffness)
        damping.append(spring.damping)
    return rows, stiffness, damping

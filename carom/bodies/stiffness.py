"""Springs that a step is too long for.

A step sees a spring in its middle, as the leapfrog does. With S the rows of springs, K their stiffness and J the rows of joints,

    ω² = the largest value of K Sᵀ(M⁻¹ − M⁻¹J(JᵀM⁻¹J)⁺JᵀM⁻¹)S,     and     h ω ≤ 2                                            (1)

is what it takes: beyond that every swing is larger than the one before. A damper that stops its swing within a step (z = hcw > 2 in
`carom.bodies.dampers`) lets the spring be so much stiffer.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from carom.bodies.contact_rows import Rows, build_rows, delassus, problem
from carom.bodies.detection.detect import Contacts
from carom.bodies.joints import JointRows, coordinate, joint_rows
from carom.bodies.scene import Scene, State
from carom.errors import InputError

MOST = 1500  # rows, up to which (1) is one small problem; of more the largest value is found by products alone
CLOSE = 1e-4  # relative: how exactly, and so much more than 2 is needed to refuse
REGULAR = 1e-12  # relative to the mean of the diagonal: joints that say the same twice


def refuse_stiff(scene: Scene, state: State, h: float) -> None:
    """(1), before the run."""
    rows, stiffness, damping = _springs(scene, state)
    if not any(stiffness):
        return
    joints = joint_rows(scene.joints, state.x, state.R, scene.dim)
    count = len(rows)
    for i in np.flatnonzero([speed is None for speed in joints.speed]):
        rows.append(*(column[i] for column in joints._columns()))
    none = np.zeros(0, int)
    contacts = Contacts(none, none, np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), none)
    built = build_rows(scene, state, contacts, rows)
    few = len(rows) <= MOST
    W: Any = delassus(scene, built, state.inverse(scene)) if few else _sparse(scene, state, built)
    z = h * np.array(damping) * W.diagonal()[:count]
    root = np.sqrt(np.array(stiffness) / np.maximum(1.0, z / 2))
    rate = float(np.sqrt(max((_largest if few else _largest_of_many)(W, count, root), 0.0)))
    if h * rate > 2 * (1 + (1e-9 if few else CLOSE)):
        raise InputError(
            f"dt = {h:.6g} is too long for the springs: the stiffest swings in {2 * np.pi / rate:.6g}, and from {2 / rate:.6g} "
            "on each swing would be larger than the one before. Take a smaller dt (a twentieth of the swing shows it), a softer "
            "spring, or a joint where nothing is meant to give"
        )


def _largest(W: np.ndarray, count: int, root: np.ndarray) -> float:
    """ω² of (1), where the first rows are those of springs; `root` is √K."""
    free, held = W[:count, :count], W[:count, count:]
    if len(W) > count:
        free = free - held @ np.linalg.pinv(W[count:, count:], rcond=1e-10, hermitian=True) @ held.T
    return float(np.linalg.eigvalsh(root[:, None] * free * root)[-1])


def _sparse(scene: Scene, state: State, rows: Rows) -> Any:
    inertia = state.R @ scene.inertia @ np.swapaxes(state.R, -1, -2)
    asked: Any = problem(scene, rows, state.inverse(scene), inertia, np.zeros(len(rows.a)), np.zeros(0))
    return (asked.jacobian.T @ asked.inverse_mass @ asked.jacobian).tocsc()


def _largest_of_many(W: Any, count: int, root: np.ndarray) -> float:
    """The same by products alone (Lanczos), with the joints' own problem factorised once."""
    free, held = W[:count, :count], W[:count, count:]
    if W.shape[0] > count:
        joined = W[count:, count:]
        solve = splu((joined + REGULAR * joined.diagonal().mean() * sparse.identity(joined.shape[0])).tocsc()).solve
        times = lambda x: root * (free @ (root * x) - held @ solve(held.T @ (root * x)))  # noqa: E731
    else:
        times = lambda x: root * (free @ (root * x))  # noqa: E731
    start = np.cos(np.arange(count) * np.sqrt(2.0))  # the same in every run, and in no one's plane of symmetry
    operator = LinearOperator((count, count), matvec=times, dtype=float)
    return float(eigsh(operator, 1, which="LA", v0=start, tol=CLOSE, return_eigenvectors=False)[0])


def _springs(scene: Scene, state: State) -> tuple[JointRows, list[float], list[float]]:
    """The rows of springs, with stiffness and damping."""
    rows, stiffness, damping = JointRows(), [], []
    for joint in scene.joints.elastic:
        line = coordinate(joint, state.x, state.R, scene.dim)[1:]
        rows.append(joint.a, joint.b, *line, 0.0, None, np.inf, -1, 0.0, 0.0, 1.0)
        stiffness.append(joint.drive.stiffness)
        damping.append(joint.drive.damping)
    for spring in scene.springs:
        length, *line = spring.line(state.x, state.R)
        if length == 0:  # any direction: it swings in all of them
            x = state.x.copy()
            x[spring.b, 0] += 1.0
            line = spring.line(x, state.R)[1:]
        rows.append(spring.a, spring.b, *line, 0.0, None, np.inf, -1, 0.0, 0.0, 1.0)
        stiffness.append(spring.stiffness)
        damping.append(spring.damping)
    return rows, stiffness, damping

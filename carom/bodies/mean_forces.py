"""Forces by functions of velocity: their mean over a step.

    v₁ = v₀ + hM⁻¹f(q½, (v₀ + v₁)/2) + M⁻¹Hr                                                                                  (1)

by repetition: the problem is solved with f at v₀, and again with f at the mean velocity that came out, until that does not change.
Two turns make it of order 2, and it comes to an end while h |∂f/∂v| < 2m; a force that a step cannot resolve is told, for v would
grow from step to step: the changes do so from turn to turn. A force that jumps (dry friction by a sign) makes them go to and fro
without growing; then f is taken at v₀, as there is no slope to follow: what it does wrong is bounded by its jump.
"""

from collections.abc import Callable

import numpy as np

from carom.bodies.posed import Posed
from carom.bodies.quaternions import lengths
from carom.bodies.scene import Scene, State, accelerations
from carom.bodies.velocity import Answer

TURNS = 60
PATIENCE = 3  # turns after which each should change less than the one before
STUCK = 5  # turns that do not: a force that a step does not resolve has let each of them change more
GROWS = 1.01  # a change that is larger by more than this has grown: one that goes to and fro stays what it is
SAME = 1e-11  # relative to the speeds: a change this small is none

Pair = tuple[np.ndarray, np.ndarray]  #                        forces and torques [n, 3]
Outcome = tuple[Posed, Answer, np.ndarray, np.ndarray]  #      with speeds, and what was added to the rates


def under_forces(scene: Scene, middle: State, t: float, h: float, push: Callable[[Pair], Outcome]) -> tuple[Outcome, bool]:
    """What `push` makes of the forces of (1), and whether they are still changing."""
    force = accelerations(scene, middle, t, dampers=False)
    found = push(force)
    if not scene.resisted:
        return found, False
    first, before, stuck, growing = found, np.inf, 0, True
    for turn in range(TURNS):
        answer = found[1]
        if not answer.converged:
            return found, False
        mean = middle.moved(0.5 * (middle.v + answer.v), 0.5 * (middle.L + answer.L))
        new = accelerations(scene, mean, t, dampers=False)
        push_more, twist_more = new[0] - force[0], middle.spin_of(scene, np.where(scene.free_column, new[1] - force[1], 0.0))
        change = h * (scene.inverse_mass * lengths(push_more) + scene.reach * lengths(twist_more)) * scene.free
        if not np.any(change > SAME * (lengths(answer.v) + lengths(middle.v) + answer.scale)):
            return found, False
        if turn >= PATIENCE and not change.max() < before:
            stuck, growing = stuck + 1, growing and not change.max() <= GROWS * before
            if stuck == STUCK:
                return (found, True) if growing else (first, False)
        before, force, found = change.max(), new, push(new)
    return found, True

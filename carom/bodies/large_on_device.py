"""Contact problems of large scenes on a device: `World.solve(…, device="gpu")`.

Detection, rows and the certificate of each step stay with the host. Problems with many rows are solved by compiled programs
(`carom.numerics.friction.on_device`), which start from the impulses of the step before; sizes are rounded up there, so that a scene
whose contacts come and go compiles a few of them and not one for each step. What the device leaves above the tolerance goes through
the host's stages, from where it came to.
"""

from dataclasses import replace

import numpy as np

from carom.bodies.scene import Scene
from carom.numerics.friction.on_device import choose_device, solve_on_device
from carom.numerics.friction.problem import FrictionProblem

MANY_ROWS = 3000  #     from here on the device is asked: below, the host needs less than a transfer and a few hundred small kernels
PRODUCTS = 20_000  #    after which the host goes on


def placed_on(scene: Scene, device: str | None) -> Scene:
    """The scene, its large problems to be solved there; refused with a sentence where there is no such device."""
    if device is None:
        return scene
    choose_device(device)
    return replace(scene, device=device)


def wanted(scene: Scene, rows: int) -> bool:
    return scene.device is not None and rows >= MANY_ROWS


def solve_there(scene: Scene, asked: FrictionProblem, start: np.ndarray | None, tolerance: float) -> tuple[np.ndarray, bool, int]:
    """Impulses, whether they meet the tolerance, and iterations."""
    found = solve_on_device(asked, start, tolerance, max_iterations=PRODUCTS, device=scene.device)
    return found.impulses, found.converged, found.iterations

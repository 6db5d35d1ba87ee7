"""Large contact problems of bodies, in blocks, by loops that numba compiles: what the stages of this package's parent do in arrays.

- `block_problem`: the problem of bodies in the variables without μ, as blocks of contacts and of the two bodies each has.
- `block_gradient`: products with Â, the certificate, and the first-order stage (12).
- `block_newton`: the natural map (10) and Newton's matrix; `block_factors`: its factorisation, on the graph of the bodies.
- `block_interior`, `block_path`: the inside of the cones, and paths through it that are followed through their folds.
- `block_folds`: how the solution about a point changes as λ vanishes, through its folds too.
- `block_solver`: the driver: first order, then proximal points with Newton's method inside, then the paths.

A hundred iterations of (12) for two hundred contacts take a millisecond here and twelve in arrays, a Newton step a tenth of
one and nearly three. numba is an extra (`pip install 'carom[fast]'`): `available` says whether it is there, and without it the
stages in arrays do the work. Nothing is imported here.

Each file compiles for itself and the driver goes from one to the next in Python, since what numba keeps on disk does not notice
that a function in another file has changed. Coordinates of a body (6 or 3) and rows of a contact (3 or 2) are known to the
compiler as lengths of tuples.
"""

from functools import cache
from importlib.util import find_spec


@cache
def available() -> bool:
    """Whether numba is there."""
    return find_spec("numba") is not None

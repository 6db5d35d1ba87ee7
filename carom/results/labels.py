"""What axes and columns call the numbers of a run."""

from typing import Any


def momentum_labels(solution: Any) -> tuple[str, ...]:
    """The momenta with their units, where the space has some."""
    space, names = solution.system.space, solution.directions
    units = space.momentum_units if space is not None and space.dim == len(names) else ("",) * len(names)
    return tuple(f"{name} [{unit}]" if unit else name for name, unit in zip(names, units, strict=True))

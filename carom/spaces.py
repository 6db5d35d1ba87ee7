"""Where a system lives: a space is a retraction and its inverse."""

import equinox as eqx
from jaxtyping import Array, Float


class Euclidean(eqx.Module):
    """ℝⁿ with named coordinates; retraction q + δ."""

    dim: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, dim: int, names: tuple[str, ...] | list[str] | None = None):
        if dim < 1:
            raise ValueError(f"a space needs at least one dimension; got {dim}")
        names = tuple(names) if names is not None else tuple(f"q{i}" for i in range(dim))
        if len(names) != dim:
            raise ValueError(f"{len(names)} names for {dim} coordinates: {', '.join(names)}")
        self.dim, self.names = dim, names

    def retract(self, q: Float[Array, " n"], delta: Float[Array, " n"]) -> Float[Array, " n"]:
        return q + delta

    def inverse_retract(self, q: Float[Array, " n"], other: Float[Array, " n"]) -> Float[Array, " n"]:
        return other - q

"""The path (19) of `curve.py` in compiled blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carom.numerics.friction import curve
from carom.numerics.friction.compiled.block_gradient import product, rate
from carom.numerics.friction.compiled.block_interior import _longest, _matrices, _scalings, _slidings, _targets
from carom.numerics.friction.compiled.block_newton import BodyGraph, _multiply, ordered_by
from carom.numerics.friction.compiled.block_problem import BILATERAL, ROUGH, BlockProblem
from carom.numerics.friction.curve import Motion

FREE = 1e-12  #        on the diagonal of bilateral rows, where Â may be singular
FREE_HERE = 1e-7  #    and in what is factorised, where a smaller one costs places: corrections make up for it
FAINT = 1e-3  #         D of a contact, beside Â of one, that is left out of what is factorised: it is about to open
REFINEMENTS = 4


@dataclass(frozen=True, eq=False)
class Curve:
    """(19): the problem, R₀ and τ₀."""

    problem: BlockProblem
    defect: np.ndarray
    gap: float

    @classmethod
    def through(cls, problem: BlockProblem, x: np.ndarray, y: np.ndarray) -> "Curve":
        units = max(1, int(np.sum(problem.kind != BILATERAL)))
        gap = float(np.sum(x * y)) / units
        return cls(problem, defect(problem, x, y, curve.BLUR * gap), gap)


@dataclass(frozen=True, eq=False)
class BlockPlace(curve.Place):
    curve: Curve
    x: np.ndarray
    y: np.ndarray
    share: float

    @cached_property
    def scaled(self) -> tuple[np.ndarray, ...]:
        """Θ, Θ⁻¹, Θ², λ, S and (SΘ² + γ)⁻¹."""
        problem = self.curve.problem
        return _scalings(self.x, self.y, problem.kind, problem.soft, FREE_HERE, self.blur, problem.dims[1])

    @property
    def blur(self) -> float:
        return curve.BLUR * self.share * self.curve.gap

    @cached_property
    def graph(self) -> BodyGraph | None:
        D = self.scaled[5]
        felt = np.max(np.abs(D), axis=(1, 2)) > FAINT
        return BodyGraph.of(ordered_by(self.curve.problem, felt), np.where(felt[:, None, None], D, 0.0))

    @cached_property
    def rest(self) -> np.ndarray:
        """What is left of (19)."""
        return defect(self.curve.problem, self.x, self.y, self.blur) - self.share * self.curve.defect

    def near(self) -> bool:
        bound = curve.NEAR * self.share * float(np.linalg.norm(self.curve.defect))
        if not float(np.linalg.norm(self.rest)) <= bound:
            return False
        contact = self.curve.problem.kind != BILATERAL
        return curve.is_centred(self.scaled[3][contact], self.share * self.curve.gap)

    def sign(self) -> float:
        return 0.0 if self.graph is None else self.graph.sign()

    def directions(self, corrected: bool) -> tuple[Motion | None, Motion]:
        here, (theta, _, squared, _, shear, _) = self.curve, self.scaled
        back = None
        if corrected:
            c = self._aimed(self.share * here.gap)
            pushed = _multiply(theta, c)
            x = self._solve(_multiply(shear, pushed) - self.rest)
            back = Motion(x, pushed - _multiply(squared, x), 0.0)
        pushed = _multiply(theta, self._aimed(here.gap) - self._aimed(0.0))
        grows, rough = here.defect.copy(), here.problem.kind == ROUGH
        sliding = _slidings(self.y, here.problem.kind, self.blur, here.problem.dims[1])
        grows[rough, 0] -= self.blur * curve.BLUR * here.gap / sliding[rough]
        x = self._solve(_multiply(shear, pushed) + grows)
        return back, Motion(x, pushed - _multiply(squared, x), 1.0)

    def _aimed(self, gap: float) -> np.ndarray:
        theta, inverse, _, point, _, _ = self.scaled
        problem, nothing = self.curve.problem, np.zeros_like(self.x)
        return _targets(theta, inverse, point, nothing, nothing, problem.kind, gap, problem.dims[1])

    def _solve(self, b: np.ndarray) -> np.ndarray:
        problem, (_, _, squared, _, shear, D) = self.curve.problem, self.scaled
        sheared = _matrices(shear, squared)
        sheared[problem.kind == BILATERAL, 0, 0] = FREE
        dx, rest, size = np.zeros_like(b), b, np.inf
        for _ in range(1 + REFINEMENTS):
            better = dx + self.graph.solve(D, _multiply(D, rest))
            rest = b - product(problem, better) - _multiply(sheared, better)
            new = float(np.linalg.norm(rest))
            if not new < size:
                break
            dx, size, slow = better, new, not new < 0.5 * size
            if slow:
                break
        return dx

    def inner(self, one: Motion, other: Motion) -> float:
        theta, inverse = self.scaled[:2]
        cones = np.sum(_multiply(theta, one.x) * _multiply(theta, other.x))
        cones += np.sum(_multiply(inverse, one.y) * _multiply(inverse, other.y))
        return float(cones) / (self.share * self.curve.gap) + one.share * other.share / self.share**2

    def reach(self, way: Motion) -> float:
        kind, R = self.curve.problem.kind, self.curve.problem.dims[1]
        return min(_longest(self.x, way.x, kind, R), _longest(self.y, way.y, kind, R))

    def moved(self, way: Motion, length: float) -> "BlockPlace":
        return BlockPlace(self.curve, self.x + length * way.x, self.y + length * way.y, self.share + length * way.share)


def interior_path(problem: BlockProblem, height: float, most: int) -> Iterator[BlockPlace]:
    """Places along the curve that begins at x = y = height · e₀, as long as it can be followed with so many factorisations."""
    x = np.zeros_like(problem.q)
    x[problem.kind != BILATERAL, 0] = height
    return curve.follow(BlockPlace(Curve.through(problem, x, x), x, x.copy(), 1.0), most)


def defect(problem: BlockProblem, x: np.ndarray, y: np.ndarray, blur: float) -> np.ndarray:
    """z + |y_T| e₀ − y."""
    rest = rate(problem, x) - y
    rest[:, 0] += _slidings(y, problem.kind, blur, problem.dims[1])
    return rest

"""The energy of the star of [fetecau2003, §4.3], impact by impact: a random walk, its variance, and how well a sample shows it.

With K = m (hg)²/8 an impact at the fraction α of a step changes the energy by K (1 − 2α), and several impacts in one step by
K (c² − a²), a before the first and c after the last of them. With α uniform a kick has the variance K²/3.

*Impacts that share a step.* Two impacts dh apart, d < 1, fall into one step with the probability 1 − d. Then a is uniform in
[0, 1 − d], c = 1 − d − a, and the kick has the variance K² (1 − d)⁴/3. Otherwise they fall into neighbouring steps, their kicks
are not independent, and the sum of these is uniform in ±2dK: variance 4 d² K²/3. Together (1 − d)⁵/3 + 4d³/3, on the average over
0 < d < 1 this is 7/18 in the place of the 2/3 of two impacts far apart. Half of such pairs share a step, so each of those takes
(5/18)/(1/2) = 5/9 away. With n impacts, m of which follow another one in the same step,

    variance = (n − 5m/3) K²/3.                                                                                         (1)

*Errors of a sample.* N walks have sample variances s_i after n_i impacts. Where the walks are Gaussian, Cov(s_i, s_j) is
2 Cov(W_i, W_j)²/N with Cov(W_i, W_j) ∝ min(n_i, n_j), and therefore

    Cov(log s_i, log s_j) = (2/N) min(n_i, n_j)/max(n_i, n_j),                                                          (2)

from which the standard error of any linear function of log s follows: √(2/N) for one of them, and that of a fitted exponent.
"""

from typing import Any, NamedTuple

import numpy as np

from carom.many.ensemble import ensemble
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Trapezoidal
from carom.models.planar import star
from carom.running.solve import solve

RULE = VariationalCollision(Trapezoidal())  # pyright: ignore[reportCallIssue]
STEPS, MARKS = 20_000, 40


class Walk(NamedTuple):
    """What many stars did since their first marks, of `lanes` stars; how often impacts share a step, of `runs` others."""

    impacts: np.ndarray  #   [marks]  n, the mean
    shared: np.ndarray  #    [marks]  m, the mean
    variance: np.ndarray  #  [marks]  of the energy, in K²
    lanes: int
    runs: int

    @property
    def steps(self) -> np.ndarray:
        """n − 5m/3 of (1)."""
        return self.impacts - 5 / 3 * self.shared

    @property
    def ratio(self) -> float:
        """The variance at the end over (1)."""
        return float(self.variance[-1] / (self.steps[-1] / 3))

    @property
    def ratio_error(self) -> float:
        """Its standard error: of the variance, and of m, which is counted."""
        counted = 5 / 3 * np.sqrt(self.shared[-1] / self.runs) / self.steps[-1]
        return float(np.hypot(np.sqrt(2 / self.lanes), counted))

    @property
    def exponent(self) -> float:
        """Of n − 5m/3 in the variance, over the last decade: 1 for a random walk, 0 for an energy that stays near one."""
        return growth(self.steps, self.variance)

    @property
    def exponent_error(self) -> float:
        """Its standard error, by (2)."""
        n = self.steps[_late(self.steps)]
        weights = (np.log(n) - np.mean(np.log(n))) / np.sum((np.log(n) - np.mean(np.log(n))) ** 2)
        covariance = 2 / self.lanes * np.minimum.outer(n, n) / np.maximum.outer(n, n)
        return float(np.sqrt(weights @ covariance @ weights))


def _late(n: np.ndarray) -> np.ndarray:
    return n > n[-1] / 10


def growth(n: np.ndarray, variance: np.ndarray) -> float:
    """The exponent of n in the variance, over the last decade."""
    return float(np.polyfit(np.log(n[_late(n)]), np.log(variance[_late(n)]), 1)[0])


def star_kick(params: Any, dt: float) -> float:
    """K = m (h g)²/8."""
    return float(params["mass"] * (dt * params["gravity"]) ** 2 / 8)


def walk(lanes: int, runs: int = 500) -> Walk:
    """Stars of different spin for 100 s, some hundred impacts.

    They are counted from t = 2.5 on: the first two or three impacts of stars that differ by their spin alone fall on few steps, the
    same for all, where α is not uniform (their energies vary by 12 % more than (1)).
    """
    model, marks = star(), np.arange(1, MARKS + 1) * (STEPS // MARKS)
    v0s = np.tile(model.v0, (lanes, 1))
    v0s[:, 2] += np.random.default_rng(11).uniform(-1.0, 1.0, lanes)
    run = ensemble(model.system, RULE, np.array(model.q0), v0s, dt=model.dt, num_steps=STEPS, params=model.params, save=marks)
    energy, impacts = run.energy[run.ok], np.mean(run.impacts_so_far[run.ok], axis=0)
    variance = np.var(energy[:, 1:] - energy[:, :1], axis=0) / star_kick(model.params, model.dt) ** 2
    shared = np.mean([_shared(model, spin, marks) for spin in np.random.default_rng(12).uniform(-1.0, 1.0, runs)], axis=0)
    return Walk(impacts[1:] - impacts[0], shared[1:] - shared[0], variance, int(np.sum(run.ok)), runs)


def _shared(model: Any, spin: float, marks: np.ndarray) -> np.ndarray:
    """How many impacts before each mark follow another one in the same step."""
    v0 = np.array(model.v0) + np.array([0.0, 0.0, spin])
    run = solve(model.system, RULE, model.q0, v0, dt=model.dt, num_steps=STEPS, params=model.params)
    return np.searchsorted(run.impacts.step, marks) - np.searchsorted(np.unique(run.impacts.step), marks)

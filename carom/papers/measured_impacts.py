"""Laws of impact against measurement: a thousand impacts of a dropped ellipse, and what each law says of the velocity after.

The data (`load_impacts`) are those of [fazeli2017]: the velocity of the ellipse before and after, and the rows n, t of the point of
contact, whose normal and sliding velocities are n·v and t·v. The laws, all with constant coefficients:

- `elastic`: reflection, without friction; nothing is fitted.
- `frictionless`: Newton's restitution e alone.
- `newton`: Newton's restitution and Coulomb's law together, the law of `carom.impact_map` for contacts with friction.
- `poisson`: the impulse of a plastic impact by the same law, then e times its normal part again, with Coulomb's law for the
  second part.
- `any impulse`: the impulse at the point of contact that explains the measurement best, for every impact anew, within no cone at
  all. No law of rigid bodies that touch at that point can do better.

Errors are in the metric of the mass, relative to the velocity before: |v⁺ − v|_M / |v⁻|_M.

The sign of the lever in the tangent rows is a question of the data, not of the laws: with the rows as they are published, the
measured changes of ẋ turn the ellipse the wrong way, and no impulse at the point of contact comes nearer than a quarter of the
velocity; with the lever reversed, the best impulse is right to 4 %. `load_impacts` takes the sign that fits, and says which
(`Impacts.reversed`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from carom.errors import InputError

AXES = (0.035, 0.025)  # half axes of the ellipse, in metres
FITTED: dict[str, tuple[str, ...]] = {
    "elastic": (),
    "frictionless": ("restitution",),
    "newton": ("restitution", "friction"),
    "poisson": ("restitution", "friction"),
}
COARSE, ROUNDS = 9, 4  # points of a grid in each coefficient; how often it is drawn closer around the best


@dataclass(frozen=True)
class Impacts:
    """Impacts of one body in the plane, v = (ẋ, ẏ, θ̇)."""

    before: np.ndarray  #   [k, 3]
    after: np.ndarray  #    [k, 3]
    normal: np.ndarray  #   [k, 3]
    tangent: np.ndarray  #  [k, 3]
    masses: np.ndarray  #   [3]     per unit of mass
    reversed: bool = False  #       whether the levers of the tangents were given the other sign

    def __len__(self) -> int:
        return len(self.before)

    def take(self, rows: Any) -> "Impacts":
        some = (self.before[rows], self.after[rows], self.normal[rows], self.tangent[rows])
        return Impacts(*some, self.masses, self.reversed)

    def mirrored(self) -> "Impacts":
        """The same with the levers of the tangents reversed."""
        tangent = self.tangent * np.array([1.0, 1.0, -1.0])
        return Impacts(self.before, self.after, self.normal, tangent, self.masses, not self.reversed)

    def error(self, predicted: np.ndarray) -> np.ndarray:
        """Relative errors of predicted velocities [k]."""
        size = lambda v: np.sqrt(np.sum(self.masses * v**2, axis=1))  # noqa: E731
        return size(np.asarray(predicted) - self.after) / size(self.before)


def load_impacts(path: str | Path) -> Impacts:
    """The impacts of a file *.npz with `states` [k, 12], `normal`, `tangent` [k, 3] and `flags`: those that approach, without a
    flag; with the sign of the tangents' levers that lets an impulse explain more."""
    try:
        with np.load(path, allow_pickle=False) as file:
            states, normal, tangent, flags = (file[name] for name in ("states", "normal", "tangent", "flags"))
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{str(path)!r} is no file of impacts (states, normal, tangent, flags): {error}") from error
    if states.ndim != 2 or states.shape[1] != 12 or normal.shape != (len(states), 3) or tangent.shape != normal.shape:
        raise InputError(f"{str(path)!r}: states must be [k, 12], normal and tangent [k, 3]; got {states.shape}, {normal.shape}")
    before, after = states[:, 3:6], states[:, 9:12]
    clean = ~np.any(np.reshape(flags, (len(states), -1)), axis=1) & (np.sum(normal * before, axis=1) < 0)
    turning = (AXES[0] ** 2 + AXES[1] ** 2) / 4
    found = Impacts(before, after, normal, tangent, np.array([1.0, 1.0, turning])).take(clean)
    if len(found) == 0:
        raise InputError(f"{str(path)!r} has no impact without a flag")
    return min(found, found.mirrored(), key=lambda impacts: float(np.mean(impacts.error(any_impulse(impacts)))))


# -- the laws ------------------------------------------------------------------------------------------------------------


def predict(law: str, impacts: Impacts, restitution: float = 1.0, friction: float = 0.0) -> np.ndarray:
    """Velocities after, by a law [k, 3]."""
    if law not in FITTED:
        raise InputError(f"there is no law {law!r}; there are {', '.join(FITTED)}")
    rows = np.stack([impacts.normal, impacts.tangent], axis=1)
    G = np.einsum("kai,i,kbi->kab", rows, 1 / impacts.masses, rows)
    rates = np.einsum("kai,ki->ka", rows, impacts.before)
    if law == "elastic":
        restitution = 1.0
    if law in ("elastic", "frictionless"):
        friction = 0.0
    if law == "poisson":
        impulse = _coulomb(G, rates, np.zeros(len(rates)), friction)
        push = restitution * impulse[:, 0]
        slide = rates[:, 1] + np.einsum("ka,ka->k", G[:, 1], impulse) + G[:, 1, 0] * push
        hold = np.clip(-slide / G[:, 1, 1], -friction * push, friction * push)
        impulse = impulse + np.stack([push, hold], axis=1)
    else:
        impulse = newton_impulse(G, rates, restitution, friction)
    return impacts.before + np.einsum("ka,kai->ki", impulse, rows) / impacts.masses


def newton_impulse(G: np.ndarray, rates: np.ndarray, restitution: float, friction: float) -> np.ndarray:
    """Newton's restitution with Coulomb's law for one contact in the plane [k, 2], in closed form: the same numbers as those of
    `carom.impact_map`, for thousands at once. Where the pair of laws would add energy, e is reduced until it does not."""
    approach = np.minimum(rates[:, 0], 0.0)
    impulse = _coulomb(G, rates, -restitution * approach, friction)
    gains = _gain(G, rates, impulse) > 1e-14 * approach**2 / G[:, 0, 0]
    if not np.any(gains):
        return impulse
    low, high = np.zeros(int(np.sum(gains))), np.ones(int(np.sum(gains)))
    some = (G[gains], rates[gains])
    for _ in range(42):
        share = 0.5 * (low + high)
        good = _gain(*some, _coulomb(*some, -share * restitution * approach[gains], friction)) <= 0
        low, high = np.where(good, share, low), np.where(good, high, share)
    impulse[gains] = _coulomb(*some, -low * restitution * approach[gains], friction)
    return impulse


def _gain(G: np.ndarray, rates: np.ndarray, impulse: np.ndarray) -> np.ndarray:
    """The change of the kinetic energy."""
    return np.einsum("ka,ka->k", impulse, rates + 0.5 * np.einsum("kab,kb->ka", G, impulse))


def _coulomb(G: np.ndarray, rates: np.ndarray, target: np.ndarray, friction: float) -> np.ndarray:
    """The impulse after which the normal rate is `target` and the contact sticks, or else slides against its friction."""
    wanted = np.stack([target - rates[:, 0], -rates[:, 1]], axis=1)
    impulse = np.linalg.solve(G, wanted[..., None])[..., 0]
    slides = np.abs(impulse[:, 1]) > friction * impulse[:, 0]
    for way in (-1.0, 1.0):  # of the sliding velocity after the impact
        push = wanted[:, 0] / (G[:, 0, 0] - way * friction * G[:, 0, 1])
        after = rates[:, 1] + (G[:, 1, 0] - way * friction * G[:, 1, 1]) * push
        fits = slides & (push >= 0) & (way * after >= 0)
        impulse = np.where(fits[:, None], np.stack([push, -way * friction * push], axis=1), impulse)
    return impulse


def any_impulse(impacts: Impacts) -> np.ndarray:
    """Velocities after the impulse at the point of contact that fits best, impact by impact: a projection in the metric of the
    mass."""
    rows = np.stack([impacts.normal, impacts.tangent], axis=1)
    change = impacts.after - impacts.before
    delassus = np.einsum("kai,i,kbi->kab", rows, 1 / impacts.masses, rows)
    impulse = np.linalg.solve(delassus, np.einsum("kai,ki->ka", rows, change)[..., None])[..., 0]
    return impacts.before + np.einsum("ka,kai->ki", impulse, rows) / impacts.masses


def fit(law: str, impacts: Impacts) -> dict[str, float]:
    """The constant coefficients with the least mean error, by a grid that is drawn closer around its best point."""
    names = FITTED[law]
    if not names:
        return {}
    low, high = np.zeros(len(names)), np.ones(len(names))
    best: tuple[float, ...] = tuple(low)
    for _ in range(ROUNDS):
        axes = [np.linspace(a, b, COARSE) for a, b in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(names))
        errors = [float(np.mean(impacts.error(predict(law, impacts, **dict(zip(names, point, strict=True)))))) for point in points]
        best = tuple(points[int(np.argmin(errors))])
        width = 1.5 * (high - low) / (COARSE - 1)
        low, high = np.clip(np.array(best) - width, 0.0, 1.0), np.clip(np.array(best) + width, 0.0, 1.0)
    return dict(zip(names, map(float, best), strict=True))


@dataclass(frozen=True)
class LawResult:
    """A law, its coefficients as fitted to one half of the impacts, and its errors on the other half."""

    law: str
    coefficients: dict[str, float]
    errors: np.ndarray


def compare(impacts: Impacts) -> list[LawResult]:
    """All laws: fitted to the even impacts, measured on the odd ones."""
    train, test = impacts.take(slice(0, None, 2)), impacts.take(slice(1, None, 2))
    if len(train) < 2 or len(test) < 2:
        raise InputError(f"four impacts are needed at least; there are {len(impacts)}")
    results = []
    for law in FITTED:
        found = fit(law, train)
        results.append(LawResult(law, found, test.error(predict(law, test, **found))))
    return [*results, LawResult("any impulse", {}, test.error(any_impulse(test)))]

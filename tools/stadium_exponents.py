"""The numbers and the picture of docs/chaos.md on stadiums with short sides; the programs are those of test_short_sides.py.

`python tools/stadium_exponents.py` prints a table and the powers, and writes docs/chaos-stadium.png.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "diagnostics")]

from test_short_sides import HALVES, STEPS, by_rays, exponents, growths, slope_of  # noqa: E402

CLOCKS = ("unit of length", "bounce")
LONGER = (0.1, 0.3, 1.0, 3.0)  # sides that are not short, by rays alone
CAROM, RAYS, CIRCLE, LAW = "#c44e2c", "#1f5f8b", "#4a9a3a", "#888888"


def table(found: np.ndarray, rays: np.ndarray) -> None:
    """Both at every a, how many standard errors of the two together lie between them, and the powers."""
    for clock, name in enumerate(CLOCKS):
        print(f"per {name}")
        for half, (value, error), (other, its) in zip(HALVES, found[:, clock], rays[:, clock], strict=True):
            apart = abs(value - other) / np.hypot(error, its)
            print(f"  a = {half:<7g} carom {value:.5f} ± {error:.5f}   rays {other:.5f} ± {its:.5f}   {apart:.1f} standard errors")
        for who, values in (("carom", found), ("rays", rays)):
            power, error = slope_of(HALVES, *values[:, clock].T)
            last, its = slope_of(HALVES[-2:], *values[-2:, clock].T)
            print(f"  {who}: power {power:.3f} ± {error:.3f}, between the two shortest {last:.3f} ± {its:.3f}")


def draw(found: np.ndarray, rays: np.ndarray, longer: np.ndarray, circle: float, path: Path) -> None:
    """Per unit of length, along a."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.5, 5.2), layout="constrained")
    x = np.array([6e-5, 5.0])
    factor = np.exp(np.mean(np.log(found[:, 0, 0]) - 0.5 * np.log(HALVES)))
    lines = ((1 / 2, "-", f"{factor:.2f} √a, [benettin1984]: the power"), (1 / 3, ":", "a^(1/3)"), (2 / 3, "--", "a^(2/3)"))
    for power, style, label in lines:
        middle = factor * 3e-3**0.5  # the other powers go through the same point
        axis.plot(x, middle * (x / 3e-3) ** power, style, color=LAW, lw=1.1, label=label)
    axis.axhline(circle, color=CIRCLE, ls="-.", lw=1.2, label="carom in the circle, a = 0: it falls like log T / T")
    both = np.concatenate([rays[:, 0], longer[:, 0]])
    axis.errorbar(HALVES, *found[:, 0].T, fmt="o", ms=6, color=CAROM, label="carom, mean over 100 starts")
    axis.errorbar([*HALVES, *LONGER], *both.T, fmt="s", ms=6, mfc="none", color=RAYS, label="rays, by a program of their own")
    axis.set(xscale="log", yscale="log", xlim=x, ylim=(2e-4, 1), xlabel="half the length of the straight sides, a (radius 1)",
             ylabel="Lyapunov exponent per unit of length")  # fmt: skip
    axis.grid(color="#e6e6e6")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.1), fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    found, rays = exponents()
    table(found, rays)
    longer = np.array([by_rays(half, 4000, 60, 400) for half in LONGER])
    for half, ((value, error), _) in zip(LONGER, longer, strict=True):
        print(f"a = {half:g}: rays {value:.4f} ± {error:.4f} per unit of length")
    growth, time, _ = growths(0.0, 12, 1)
    circle = float(np.mean(growth) / np.mean(time))
    print(f"circle: {circle:.6f} per unit of length after {STEPS} steps; log 4 in that time is {np.log(4) / np.mean(time):.6f}")
    draw(found, rays, longer, circle, ROOT / "docs" / "chaos-stadium.png")


if __name__ == "__main__":
    main()

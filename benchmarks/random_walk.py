"""`python -m benchmarks.random_walk`: the energy of the star of [fetecau2003, §4.3] with the paper's rule is a random walk.

With linear gravity free flight keeps the energy exactly, and an impact at the fraction α of a step changes it by
K (1 − 2α), K = m (h g)²/8. If the fractions are independent and uniform, n impacts leave a normal distribution with mean 0 and
variance n K²/3. Here that is a hundred thousand stars with different spins.
"""

import argparse
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def simulate(lanes: int, steps: int) -> dict:
    import carom

    star, rng = carom.models.star(), np.random.default_rng(11)
    v0s = np.tile(star.v0, (lanes, 1))
    v0s[:, 2] += rng.uniform(-1.0, 1.0, lanes)
    run = carom.ensemble(
        star.system,
        carom.VariationalCollision(carom.Trapezoidal()),
        np.array(star.q0),
        v0s,
        dt=star.dt,
        num_steps=steps,
        params=star.params,
        save=steps // 40,
    )
    good = run.ok
    change = run.energy[good] - run.energy_start[good, None]
    kick = star.params["mass"] * (star.dt * star.params["gravity"]) ** 2 / 8
    last = change[:, -1] / (kick * np.sqrt(run.num_impacts[good] / 3))
    heights, edges = np.histogram(last, np.linspace(-4, 4, 81), density=True)
    return {
        "lanes": lanes,
        "failed": int(np.sum(~good)),
        "steps": steps,
        "kick": kick,
        "energy": float(np.mean(run.energy_start)),
        "impacts": np.mean(run.impacts_so_far[good], axis=0).tolist(),
        "mean": np.mean(change, axis=0).tolist(),
        "variance": np.var(change, axis=0).tolist(),
        "histogram": heights.tolist(),
        "edges": edges.tolist(),
        "rate": lanes * steps / run.seconds,
    }


def picture(data: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    impacts, variance = np.array(data["impacts"]), np.array(data["variance"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.plot(impacts, variance / data["kick"] ** 2, "o", ms=4, color="#c44e52", label=f"{data['lanes']:,} stars")
    left.plot(impacts, impacts / 3, color="#444444", lw=1, label="n/3: independent, uniform fractions")
    left.set(xlabel="mean number of impacts n", ylabel="variance of the energy / K²", title="energy of the star, order-2 rule")
    left.legend(frameon=False)
    edges = np.array(data["edges"])
    middle = (edges[1:] + edges[:-1]) / 2
    right.bar(middle, data["histogram"], width=np.diff(edges), color="#c44e52", alpha=0.6, label="all stars, at the end")
    right.plot(middle, np.exp(-(middle**2) / 2) / np.sqrt(2 * np.pi), color="#444444", lw=1, label="standard normal density")
    right.set(xlabel="change of energy / (K √(n/3))", title=f"after {impacts[-1]:.0f} impacts on average")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_walk", description="the energy of 10⁵ stars")
    parser.add_argument("--lanes", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=HERE, help="folder for random-walk.json and random-walk.png")
    parser.add_argument("--draw", action="store_true", help="only draw what random-walk.json holds")
    chosen = parser.parse_args(argv)
    file = chosen.out / "random-walk.json"
    if not chosen.draw:
        file.write_text(json.dumps(simulate(chosen.lanes, chosen.steps), indent=1) + "\n")
    try:
        picture(json.loads(file.read_text()), chosen.out / "random-walk.png")
    except ImportError:
        print("matplotlib is not installed: draw later with --draw")


if __name__ == "__main__":
    main()

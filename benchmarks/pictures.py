"""Plots: speed.png of the tools, scaling.png of the sizes."""

from pathlib import Path

from benchmarks.common import short
from benchmarks.problems import PROBLEMS

OURS, OTHERS = "#c44e52", "#8c8c8c"


def _pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def speed(records: list[dict], path: Path) -> None:
    """Bars of µs per step, one panel per problem."""
    plt = _pyplot()
    keys = list(dict.fromkeys(r["problem"] for r in records))
    heights = [sum(r["problem"] == key and "median" in r for r in records) for key in keys]
    figure, axes = plt.subplots(len(keys), 1, figsize=(11, 1.3 * len(keys) + 0.36 * sum(heights)), squeeze=False, sharex=True,
                                height_ratios=heights, layout="constrained")  # fmt: skip
    for axis, key in zip(axes[:, 0], keys, strict=True):
        mine = [r for r in records if r["problem"] == key and "median" in r][::-1]
        colours = [OURS if r["tool"].startswith("carom") else OTHERS for r in mine]
        low = [r["us_median"] - r["us_min"] for r in mine]
        high = [r["us_max"] - r["us_median"] for r in mine]
        axis.barh([r["label"] for r in mine], [r["us_median"] for r in mine], color=colours, xerr=[low, high], ecolor="#444444")
        for i, r in enumerate(mine):
            text = f"{short(r['us_median'])} µs, energy {r['energy_error']:.0e}"
            text += f", penetration {r['penetration']:.0e}" if r["penetration"] > 1e-6 else ""
            note = axis.annotate(text, (r["us_median"] + high[i], i), (5, 0), textcoords="offset points", va="center", fontsize=8)
            note.set_in_layout(False)
        axis.axvline(PROBLEMS[key].target, color=OURS, linestyle=":", linewidth=1, zorder=0)
        axis.set_title(f"{key}: {PROBLEMS[key].about}", loc="left", fontsize=10)
        axis.set_xscale("log")
        axis.spines[["top", "right"]].set_visible(False)
    times = [r["us_median"] for r in records if "median" in r]
    axes[0, 0].set_xlim(min(times) / 3, 300 * max(times))
    axes[-1, 0].set_xlabel("µs per step, median and range (dotted: carom's target)")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def scaling(records: list[dict], path: Path) -> None:
    """One panel per problem, log-log: medians and ranges against the size, and a line of slope 1 through the last point."""
    plt = _pyplot()
    keys = list(dict.fromkeys(r["problem"] for r in records if "median" in r))
    columns = min(len(keys), 2)
    rows = -(-len(keys) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.4 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(keys) :]:
        axis.remove()
    for axis, key in zip(axes.flat, keys, strict=False):
        mine = [r for r in records if r["problem"] == key and "median" in r]
        sizes, scale = [r["size"] for r in mine], [r["scale"] for r in mine]
        middle, low, high = ([r[name] * s for r, s in zip(mine, scale, strict=True)] for name in ("median", "min", "max"))
        axis.plot(sizes, middle, "o-", color=OURS, markersize=4)
        axis.fill_between(sizes, low, high, color=OURS, alpha=0.25, linewidth=0)
        axis.plot(sizes, [middle[-1] * size / sizes[-1] for size in sizes], ":", color=OTHERS, label="slope 1")
        axis.set(xscale="log", yscale="log", xlabel=key, ylabel=mine[0]["unit"], title=mine[0]["about"])
        axis.title.set_fontsize(10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)

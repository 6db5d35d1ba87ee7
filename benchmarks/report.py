"""What was measured, as a table on the terminal, as Markdown, as JSON and as a picture."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from benchmarks.problems import PROBLEMS

COMPILE_TARGET = 2.0
SPEED = ["tool", "µs per step", "min", "spread", "times carom", "energy error", "penetration", "impacts", "fallbacks"]
COLD = ["tool", "compile s", "first call s", "import s"]


def machine(core: int, repeats: int, cold_repeats: int) -> dict:
    names = [
        line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    versions = {"Python": platform.python_version()}
    for name in ("jax", "jaxlib", "numpy", "diffrax", "optimistix", "scipy", "numba"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {"cpu": names[0] if names else "unknown", "cores": len(names), "core": core, "versions": versions,
            "repeats": repeats, "cold_repeats": cold_repeats}  # fmt: skip


def summarise(records: list[dict]) -> None:
    """Add µs per step, its spread, and the ratio to carom's default in the same problem."""
    for record in records:
        if record["seconds"]:
            times = [1e6 * s / record["steps"] for s in record["seconds"]]
            record |= {"us": median(times), "us_min": min(times), "spread": (max(times) - min(times)) / median(times)}
        if record["cold"]:
            record |= {f"{name}_seconds": median(c[name] for c in record["cold"]) for name in ("import", "compile", "first")}
    for record in records:
        (carom,) = [r for r in records if (r["problem"], r["tool"]) == (record["problem"], "carom-4")]
        if "us" in record and "us" in carom:
            record["ratio"] = record["us"] / carom["us"]


def _short(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.2g}"


def _speed_row(r: dict) -> list[str]:
    if "us" not in r:
        return [r["label"], r.get("skipped", ""), *[""] * (len(SPEED) - 2)]
    time = [f"{r['us']:.3g}", f"{r['us_min']:.3g}", f"{100 * r['spread']:.0f} %", _short(r["ratio"])]
    depth = f"{r['penetration']:.1e}" if r["penetration"] else "0"
    fallbacks = "" if r["fallbacks"] is None else str(r["fallbacks"])
    return [r["label"], *time, f"{r['energy_error']:.1e}", depth, str(r["impacts"]), fallbacks]


def _cold_row(r: dict) -> list[str]:
    return [r["label"], *(f"{r[name + '_seconds']:.2f}" for name in ("compile", "first", "import"))]


def tables(records: list[dict]):
    """(title, header, rows), two per problem."""
    for key in dict.fromkeys(r["problem"] for r in records):
        mine = [r for r in records if r["problem"] == key]
        steps = mine[0]["steps"]
        short = "" if steps == PROBLEMS[key].steps else f" (a short run: the whole is {PROBLEMS[key].steps:,})"
        yield f"{key}: {PROBLEMS[key].about}, {steps:,} steps{short}", SPEED, [_speed_row(r) for r in mine]
        cold = [_cold_row(r) for r in mine if r["cold"]]
        if cold:
            yield f"{key}: cold start, each in a process of its own, without a compilation cache", COLD, cold


def targets(records: list[dict]) -> list[str]:
    lines = []
    for r in records:
        if r["tool"] != "carom-4":
            continue
        if "us" in r:
            goal = PROBLEMS[r["problem"]].target
            lines.append(f"{r['problem']}: {r['us']:.3g} µs per step, target {goal:g}: {'met' if r['us'] <= goal else 'MISSED'}")
        if r["cold"]:
            met = "met" if r["compile_seconds"] <= COMPILE_TARGET else "MISSED"
            lines.append(f"{r['problem']}: {r['compile_seconds']:.2f} s to compile, target {COMPILE_TARGET:g}: {met}")
    return lines


def noise(records: list[dict], info: dict) -> str:
    spreads = [r["spread"] for r in records if "spread" in r]
    worst = f"the largest spread here is {100 * max(spreads):.0f} %" if spreads else "nothing was measured"
    return (
        f"Everything ran on one core of {info['cores']}; the tools took turns in each of {info['repeats']} rounds, so that what "
        f"else the machine did hit all alike. Medians; spread is (max − min) / median, and {worst}: differences smaller than "
        "the spread of a row mean nothing."
    )


def markdown(records: list[dict], info: dict) -> str:
    lines = ["# Results", "", "Written by `python -m benchmarks`; `README.md` says what is measured.", ""]
    lines += [f"CPU: {info['cpu']}. " + ", ".join(f"{name} {v}" for name, v in info["versions"].items()) + ".", ""]
    lines += [noise(records, info), ""]
    for title, header, rows in tables(records):
        lines += [f"## {title}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(row) + " |" for row in rows] + [""]
    lines += ["## Targets, for carom with its default rule", "", *(f"- {line}" for line in targets(records)), ""]
    return "\n".join(lines)


def show(records: list[dict], info: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=150)
    for title, header, rows in tables(records):
        table = Table(title=title, title_justify="left")
        for name in header:
            table.add_column(name, justify="left" if name == "tool" else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(noise(records, info), *targets(records), sep="\n")


def picture(records: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    keys = list(dict.fromkeys(r["problem"] for r in records))
    heights = [sum(r["problem"] == key and "us" in r for r in records) for key in keys]
    figure, axes = plt.subplots(len(keys), 1, figsize=(11, 1.3 * len(keys) + 0.36 * sum(heights)), squeeze=False, sharex=True,
                                height_ratios=heights, layout="constrained")  # fmt: skip
    for axis, key in zip(axes[:, 0], keys, strict=True):
        mine = [r for r in records if r["problem"] == key and "us" in r][::-1]
        colours = ["#c44e52" if r["tool"].startswith("carom") else "#8c8c8c" for r in mine]
        low = [r["us"] - r["us_min"] for r in mine]
        high = [1e6 * max(r["seconds"]) / r["steps"] - r["us"] for r in mine]
        axis.barh([r["label"] for r in mine], [r["us"] for r in mine], color=colours, xerr=[low, high], ecolor="#444444")
        for i, r in enumerate(mine):
            text = f"{_short(r['us'])} µs, energy {r['energy_error']:.0e}"
            text += f", penetration {r['penetration']:.0e}" if r["penetration"] > 1e-6 else ""
            note = axis.annotate(text, (r["us"] + high[i], i), (5, 0), textcoords="offset points", va="center", fontsize=8)
            note.set_in_layout(False)
        axis.axvline(PROBLEMS[key].target, color="#c44e52", linestyle=":", linewidth=1, zorder=0)
        axis.set_title(f"{key}: {PROBLEMS[key].about}", loc="left", fontsize=10)
        axis.set_xscale("log")
        axis.spines[["top", "right"]].set_visible(False)
    times = [r["us"] for r in records if "us" in r]
    axes[0, 0].set_xlim(min(times) / 3, 3000 * max(times))
    axes[-1, 0].set_xlabel("µs per step, median and range (dotted: carom's target)")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def write(records: list[dict], info: dict, folder: Path) -> None:
    summarise(records)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(markdown(records, info))
    (folder / "results.json").write_text(json.dumps({"machine": info, "records": records}, indent=1) + "\n")
    if any("us" in r for r in records):
        picture(records, folder / "speed.png")
    show(records, info)

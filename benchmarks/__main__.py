"""`python -m benchmarks`: all parts, each in a process of its own, and their tables joined in results.md."""

import subprocess
import sys

from benchmarks import common

PARTS = {
    "tools": "one trajectory beside other tools (P1, P2), one core",
    "timestepping": "contacts that last, beside Siconos, one core",
    "continua": "bars and a beam beside plain loops, one core",
    "many": "ensembles (P3) and gases (P5) beside other tools, all cores",
    "scaling": "how the time grows with lanes, nodes, impacts and bodies, all cores",
}


def join(folder) -> str:
    """The tables that lie in the folder, one part after the other."""
    head = [
        "# Results",
        "",
        "Written by `python -m benchmarks`; `README.md` says what is measured. " + common.describe(common.machine()),
        "",
        "Times are medians; spread is (max − min) / median. Differences smaller than the spread of a row mean nothing.",
        "",
    ]
    found = [folder / f"{part}.md" for part in PARTS]
    return "\n".join([*head, *(file.read_text() for file in found if file.exists())])


def main(argv: list[str] | None = None) -> None:
    options = common.parser("", "carom and other tools, side by side")
    options.add_argument("--only", help="parts: " + "; ".join(f"{name}: {about}" for name, about in PARTS.items()))
    options.add_argument("--full", action="store_true", help="the largest sizes of scaling too, which need much memory")
    chosen = common.settle(options.parse_args(argv))
    parts = chosen.only.split(",") if chosen.only else list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        options.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    failed = []
    for part in parts:
        common.say(f"== {part}: {PARTS[part]}")
        command = [sys.executable, "-m", f"benchmarks.{part}", "--repeats", str(chosen.repeats), "--out", str(chosen.out)]
        command += [] if chosen.size == "whole" else [f"--{chosen.size}"]
        command += ["--full"] if chosen.full and part == "scaling" else []
        if subprocess.run(command, cwd=common.HERE.parent).returncode:
            failed.append(part)
    (chosen.out / "results.md").write_text(join(chosen.out))
    common.say(f"written: {chosen.out / 'results.md'}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

"""The tests under several sets of instructions: `make test-isa`. Another set rounds otherwise, and no test may hang on that.

    python tools/isa.py [SSE4_2 AVX2 …] [-- arguments for pytest]

Without names: every set that this processor has, and its own (no limit). Exits with the number of sets under which a test failed.
"""

import os
import subprocess
import sys
import time

from carom.xla.machine import processor

# From XLA's names to those in /proc/cpuinfo.
SETS = {"SSE4_2": "sse4_2", "AVX": "avx", "AVX2": "avx2", "AVX512": "avx512f"}
USUAL = ("-n", "2", "--dist", "worksteal", "-m", "not stress")


def available() -> list[str]:
    """What the processor has; where it does not say, everything: XLA takes the smaller of limit and processor."""
    features = processor().features
    return [name for name, feature in SETS.items() if not features or feature in features] + ["own"]


def main(arguments: list[str]) -> int:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    names, rest = arguments[:cut], arguments[cut + 1 :]
    failed = []
    for name in names or available():
        if name not in available():
            print(f"{name}: this processor does not have it", flush=True)
            continue
        flags = os.environ.get("XLA_FLAGS", "") + ("" if name == "own" else f" --xla_cpu_max_isa={name}")
        clock = time.perf_counter()
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *(rest or USUAL)], env={**os.environ, "XLA_FLAGS": flags.strip()}
        )
        print(f"{name}: {'ok' if ran.returncode == 0 else 'FAILED'} ({time.perf_counter() - clock:.0f} s)", flush=True)
        failed += [name] if ran.returncode else []
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

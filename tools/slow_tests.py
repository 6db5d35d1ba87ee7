"""Which tests are slow: tests/slow.txt, from what pytest measured.

    python -m pytest -n 2 --durations=0 -m "not stress" > log        # without compiled programs kept: rm -rf .pytest_cache
    python tools/slow_tests.py log [seconds]

`make test` leaves out the tests listed there, `make test-slow` runs them and nothing else, .ci/run does both. What a test waits for
is mostly its compilation, so a list that was measured says more than a guess beside each test. By default those of two and a half
seconds and more.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).parent.parent / "tests" / "slow.txt"
LINE = re.compile(r"^(\d+\.\d+)s (?:setup|call|teardown)\s+(tests/.+)$", re.MULTILINE)


def main(log: str, least: str = "2.5") -> None:
    took: dict[str, float] = defaultdict(float)
    for seconds, test in LINE.findall(Path(log).read_text()):
        took[test.strip()] += float(seconds)
    if not took:
        sys.exit(f"{log}: no durations in it; run pytest with --durations=0")
    slow = sorted(test for test, seconds in took.items() if seconds >= float(least))
    LIST.write_text("".join(f"{test}\n" for test in slow))
    print(f"{len(slow)} tests, {sum(took[test] for test in slow):.0f} of {sum(took.values()):.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env bash
# What another machine says of carom, with the Python and the JAX that it has, on its CPU: facts, smoke test, lines on stderr when
# kept programs are loaded, and the core of the suite. Writes into the folder $1 (out/elsewhere); exits with 1 if something failed.
#   PYTHON=python3.12 tools/elsewhere.sh out/elsewhere
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
OUT=${1:-out/elsewhere}
mkdir -p "$OUT"
export PYTHONPATH=".${PYTHONPATH:+:$PYTHONPATH}" JAX_PLATFORMS=cpu
failed=0
{
    "$PYTHON" -m carom.cli info || failed=1
    "$PYTHON" tools/smoke.py || failed=1
    for turn in first second; do # the second loads what the first has kept
        "$PYTHON" -m carom.cli run particle --json >/dev/null 2>"$OUT/stderr-$turn.txt" || failed=1
        echo "carom run, $turn time: $(wc -c <"$OUT/stderr-$turn.txt") bytes on stderr"
    done
    if grep -q SIGILL "$OUT/stderr-second.txt"; then
        echo "FAILED: the loader is not quiet"
        failed=1
    fi
    if "$PYTHON" -c "import pytest" 2>/dev/null; then
        "$PYTHON" -m pytest -q -m "not stress" tests/xla tests/contact tests/numerics tests/methods/test_order.py \
            tests/methods/test_conservation.py tests/many/test_ensemble.py || failed=1
    else
        echo "no pytest here: the suite was not run"
    fi
    [ "$failed" = 0 ]
} 2>&1 | tee "$OUT/report.txt"

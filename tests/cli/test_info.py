"""`carom info`: facts for a bug report."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import carom
from carom.cli import commands, info
from carom.numerics.friction import compiled
from carom.xla.kernel import kernel_state
from carom.xla.machine import cores


def test_facts_as_text_and_as_json():
    text = CliRunner().invoke(commands.app, ["info"])
    assert text.exit_code == 0 and f"carom        {carom.__version__}" in text.stdout
    told = json.loads(CliRunner().invoke(commands.app, ["info", "--json"]).stdout)
    assert set(told) == {"versions", "machine", "caches", "one kernel", "bodies"}
    assert {"carom", "Python", "jax", "jaxlib", "numpy", "diffrax", "equinox"} <= set(told["versions"])
    assert "not installed" not in (told["versions"][name] for name in ("jax", "jaxlib", "equinox"))
    assert told["machine"]["cores"] == cores() and any(d.startswith("cpu") for d in told["machine"]["devices"])
    assert told["bodies"] == {"compiled": compiled.available(), "by": "numba" if compiled.available() else info.HOW}
    assert told["one kernel"] == {"on": kernel_state().on, "why": kernel_state().why}
    assert all(str(value) in text.stdout for value in told["versions"].values())


def test_what_is_kept_is_told(tmp_path, monkeypatch):
    from carom.cli.info import facts
    from carom.xla import programs

    monkeypatch.setattr(programs, "program_cache", lambda: programs.ProgramCache(tmp_path, "carom's own", own=True))
    (tmp_path / "finished").mkdir()
    (tmp_path / "finished" / "a.program").write_bytes(b"123")
    (tmp_path / "b-cache").write_bytes(b"12345")
    told = facts()["caches"]
    assert (told["count"], told["bytes"], told["finished"], told["their bytes"]) == (1, 5, 1, 3)


def test_where_text_is_not_utf8(tmp_path):
    """As on a computer whose language has another encoding: there every run ended with a UnicodeDecodeError."""
    code = (
        "import locale, carom; from carom.xla import probe; probe._trial_text(); "
        "run = carom.models.particle().solve(num_steps=50); run.report('run.html'); run.save('run.zarr'); carom.load('run.zarr'); "
        "print(locale.getpreferredencoding(False))"
    )
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "LANG": "C"}
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | plain, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    if os.name == "posix" and "utf" in ran.stdout.lower():
        pytest.skip("text is UTF-8 here whatever is asked for")

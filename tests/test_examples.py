"""The examples run as they stand, are short, and open as notebooks (the percent format of jupytext and of editors)."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_there_are_at_least_ten():
    assert len(EXAMPLES) >= 10


SLOW = ("02", "03", "04", "05", "08", "09")  # to compile; what they show is tested elsewhere too
CASES = [pytest.param(path, marks=pytest.mark.stress if path.name[:2] in SLOW else (), id=path.stem) for path in EXAMPLES]


@pytest.mark.parametrize("path", CASES)
def test_an_example_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    assert len(text.splitlines()) < 60 and text.startswith("# %% [markdown]\n# # ") and "\n# %%\n" in text
    assert "assert" in text
    runpy.run_path(str(path), run_name="__main__")

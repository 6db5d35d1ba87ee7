"""The tools of the repository agree with what the package declares."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from carom.xla.machine import Processor

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def tool(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_release_check_tries_every_extra():
    check = tool("release_check")
    assert set(check.EXTRAS) == set(PROJECT["optional-dependencies"])
    assert set(check.FOR_USERS) <= set(check.EXTRAS)


def test_the_oldest_declared_jax_is_tried_and_the_broken_one_never():
    (declared,) = [d for d in PROJECT["dependencies"] if re.match(r"jax\W", d)]
    oldest = re.search(r">=([\d.]+)", declared)[1]
    pairs = [pair.split(":") for pair in tool("versions").PAIRS]
    assert any(jax == oldest or jax.startswith(f"{oldest}.0") for _, jax in pairs)
    assert "!=0.10.2" in declared and all(jax != "0.10.2" for _, jax in pairs)
    least = PROJECT["requires-python"].removeprefix(">=")
    assert least in [python for python, _ in pairs]


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {PROJECT['version']}\n" in citation
    assert f'__version__ = "{PROJECT["version"]}"' in (ROOT / "carom" / "__init__.py").read_text()


ALL = ["SSE4_2", "AVX", "AVX2", "AVX512", "own"]


@pytest.mark.parametrize(("features", "expected"), [(("avx", "sse4_2"), ["SSE4_2", "AVX", "own"]), ((), ALL)])
def test_sets_of_instructions(monkeypatch, features, expected):
    isa = tool("isa")
    monkeypatch.setattr(isa, "processor", lambda: Processor("some", features))
    assert isa.available() == expected

"""The rules of the house: imports flow one way, citations exist, public names exist, the README runs, JAX computes right."""

import ast
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import carom

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "carom"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the ground up: a module imports from lines above its own, or from its own package.
LAYERS = [
    {"errors", "named", "numerics", "xla"},
    {"spaces"},
    {"contact", "drawing"},
    {"system"},
    {"methods"},
    {"results"},
    {"running"},
    {"bodies"},
    {"models", "diagnostics"},
    {"many"},
    {"report"},
    {"papers"},
    {"cli"},
]


def _layer(part: str) -> int:
    found = [i for i, layer in enumerate(LAYERS) if part in layer]
    assert found, f"carom/{part} has no place in LAYERS of tests/test_house.py: say where it stands"
    return found[0]


def _uphill(source: str, part: str) -> list[str]:
    """The modules that `source`, a file of carom/<part>, imports from above itself when it is loaded."""
    wrong = []
    for node in ast.parse(source).body:  # the top level only: imports inside functions are for later, and for types
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"carom.{a.name}" for a in node.names] if node.module == "carom" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            pieces = name.split(".")
            if pieces[0] == "carom" and len(pieces) > 1 and pieces[1] != part and _layer(pieces[1]) >= _layer(part):
                wrong.append(name)
    return wrong


def _part(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_imports_flow_one_way():
    wrong = {str(f.relative_to(ROOT)): _uphill(f.read_text(), _part(f)) for f in FILES if _part(f) != "__init__"}
    assert not {file: names for file, names in wrong.items() if names}


def test_control_an_import_from_above_is_found():
    assert _uphill("from carom.system.system import System", "contact") == ["carom.system.system"]
    assert _uphill("from carom import running", "methods") == ["carom.running"]
    assert _uphill("from carom.contact.contact import Contact", "system") == []


CITATION = re.compile(r"\[([a-z]+(?:19|20)\d\d[a-z]?)(?:,[^\]]*)?\]")
KEYS = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(), re.MULTILINE))


def test_every_citation_is_in_the_bibliography():
    cited = {key for f in FILES for key in CITATION.findall(f.read_text())}
    assert "fetecau2003" in cited and cited <= KEYS
    sources = {factory().source.split(",")[0] for factory in carom.models.ALL.values()} - {""}
    assert "fetecau2003" in sources and sources <= KEYS


def test_control_an_unknown_citation_is_found():
    assert set(CITATION.findall("as in [nobody1999, §2] and [fetecau2003]")) - KEYS == {"nobody1999"}


def test_public_names_exist_and_say_what_they_are():
    assert len(set(carom.__all__)) == len(carom.__all__)
    for name in carom.__all__:
        assert getattr(carom, name).__doc__, f"carom.{name} has no docstring"


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, rolling, gradients = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(first.splitlines()) < 25
    exec(compile(first, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "997 impacts" in said and float(said.split()[-1]) < 1e-12
    assert (tmp_path / "bounce.png").exists()
    exec(compile(rolling, "README.md", "exec"), {})
    hits, drift, slip = capsys.readouterr().out.split()
    assert int(hits) >= 4 and float(drift) < 1e-6 and float(slip) < 1e-12  # order 4 at dt = 0.01; rounding
    exec(compile(gradients, "README.md", "exec"), {})
    promised = re.search(r"# ([0-9.]+), ([0-9.]+)", gradients)
    said = re.findall(r"0\.[0-9]+", capsys.readouterr().out)
    assert promised and [float(x) for x in said[:2]] == pytest.approx([float(x) for x in promised.groups()], abs=1e-4)


@pytest.mark.parametrize("n", [1 << 10, (1 << 14) + 1, (1 << 15) + 1])
def test_canary_jax_multiplies_and_adds_right(n):
    """A vmapped matrix–vector product with a reduction after it: jax 0.10.2 gets the longer ones wrong, silently.

    All numbers are whole and below 2⁵³, so double precision must be exact.
    """
    rows = jnp.stack([jnp.arange(n, dtype=float), jnp.zeros(n), jnp.zeros(n)], axis=1)

    @jax.jit
    def squares(rows):
        return jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(rows)

    assert float(squares(rows)[-1]) == float((n - 1) ** 2)
    assert [float(x) for x in squares(rows)[:4]] == [0.0, 1.0, 4.0, 9.0]

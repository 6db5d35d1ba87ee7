"""The rules of the house: imports flow one way, citations exist, public names exist, the README runs, JAX computes right."""

import ast
import re
import subprocess
import sys
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
    {"errors"},
    {"wanted"},
    {"calls", "closures", "xla"},
    {"numerics"},
    {"kept"},
    {"named"},
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
    {"papers", "live"},
    {"cli"},
    {"__main__"},
]


def _layer(part: str) -> int:
    found = [i for i, layer in enumerate(LAYERS) if part in layer]
    assert found, f"carom/{part} has no place in LAYERS of tests/test_house.py: say where it stands"
    return found[0]


def _imports(source: str) -> list[str]:
    """Every module of carom that a file imports, inside functions too; not what is there for types only."""
    found = []
    tree = ast.parse(source)
    typing_only = {id(node) for test in ast.walk(tree) if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.unparse(test.test)
                   for node in ast.walk(test)}  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{a.name}" for a in node.names]
            names = inside if node.module == "carom" else [m if _is_module(m) else node.module for m in inside]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found += [name for name in names if name.startswith("carom.")]
    return found


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _uphill(source: str, part: str) -> list[str]:
    """The modules that `source`, a file of carom/<part>, imports from above itself."""
    names = [(name, name.split(".")[1]) for name in _imports(source)]
    return [name for name, other in names if other != part and _layer(other) >= _layer(part)]


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    """A way round, if there is one."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for other in sorted(graph.get(node, ())):
            found = visit(other, [*path, node])
            if found:
                return found
        done.add(node)
        return []

    for node in sorted(graph):
        found = visit(node, [])
        if found:
            return found
    return []


def _part(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_imports_flow_one_way():
    wrong = {str(f.relative_to(ROOT)): _uphill(f.read_text(), _part(f)) for f in FILES if _part(f) != "__init__"}
    assert not {file: names for file, names in wrong.items() if names}


def _graph() -> dict[str, set[str]]:
    module = lambda file: ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")  # noqa: E731
    known = {module(file) for file in FILES}
    return {
        module(file): {name for name in _imports(file.read_text()) if name in known} for file in FILES if _part(file) != "__init__"
    }


def test_no_modules_import_each_other():
    """Also inside a package, and inside functions."""
    assert _cycle(_graph()) == []


def test_control_a_circle_is_found():
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert _imports("def f():\n    from carom.report import html") == ["carom.report.html"]


def test_a_name_once():
    names = [file.name for file in FILES if file.name not in ("__init__.py", "__main__.py")]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


NAMED_FILE = re.compile(r"(?<![\w/.])(?:carom|tests|benchmarks|docs|examples|tools)/[\w/.-]+\.(?:py|md|txt)")


def test_files_that_are_named_exist():
    """In the documentation and in docstrings: a reader who looks for them should find them."""
    texts = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *FILES]
    missing = [
        f"{text.relative_to(ROOT)}: {name}"
        for text in texts
        for name in NAMED_FILE.findall(text.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert not missing
    assert NAMED_FILE.findall("in `carom/nowhere.py`, not x/docs/a.md") == ["carom/nowhere.py"]  # control: it looks


MOST_LINES, LONGEST_FUNCTION = 400, 60  # of a file; of a function, signature and docstring apart


def _long_functions(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            length = node.end_lineno - first.lineno + 1
            found += [f"{node.name} ({length})"] if length > LONGEST_FUNCTION else []
    return found


def test_files_and_functions_fit():
    long_files = {str(f.relative_to(ROOT)): len(f.read_text().splitlines()) for f in FILES}
    assert not {name: length for name, length in long_files.items() if length > MOST_LINES}
    assert not {str(f.relative_to(ROOT)): long for f in FILES if (long := _long_functions(f.read_text()))}


def test_control_a_long_function_is_found():
    assert _long_functions("def f():\n" + "    x = 1\n" * 61) == ["f (61)"]
    assert _long_functions('def f():\n    """Words.' + "\n" * 30 + '"""\n' + "    x = 1\n" * 60) == []


def test_control_an_import_from_above_is_found():
    assert _uphill("from carom.system.system import System", "contact") == ["carom.system.system"]
    assert _uphill("from carom import running", "methods") == ["carom.running"]
    assert _uphill("from carom.contact.contact import Contact", "system") == []


CITATION = re.compile(r"\[([a-z]+(?:19|20)\d\d[a-z]?)(?:,[^\]]*)?\]")
KEYS = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(), re.MULTILINE))


def test_slow_tests_exist():
    """A name in the list that no test has any more would bring nothing back when it is written again."""
    listed = (ROOT / "tests" / "slow.txt").read_text().splitlines()
    assert listed == sorted(set(listed))
    for test in listed:
        path, *names = test.split("::")
        text = (ROOT / path).read_text()
        assert all(re.search(rf"(def|class) {re.escape(name.split('[')[0])}\b", text) for name in names), test


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


def test_public_names_are_where_the_package_says():
    """carom/__init__.py lists its names for readers, for loading and for `import *`: thrice the same."""
    read = {}
    for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text())):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            read = {alias.name: line.module for line in node.body if isinstance(line, ast.ImportFrom) for alias in line.names}
    modules = {name for name, home in read.items() if _is_module(f"{home}.{name}")}
    assert {name: home for name, home in read.items() if name not in modules} == carom._WHERE
    assert set(read) == set(carom.__all__) and modules | {"report"} == set(carom._MODULES)


def test_importing_carom_loads_little():
    """What takes long to load is loaded by those who use it: `import carom` is hardly more than `import jax`."""
    heavy = ["equinox", "diffrax", "xarray", "zarr", "pandas", "matplotlib", "plotly", "numba", "typer", "rich", "carom.models"]
    code = "import jax, sys, time; start = time.process_time(); import carom; took = time.process_time() - start\n"
    code += f"print(took, *(name for name in {heavy} if name in sys.modules))"
    took, *loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
    assert float(took) < 0.3  # seconds of a processor over jax itself: 0.01, whatever else the machine does


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    three, first, rolling, bodies, gradients = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    seen = []
    monkeypatch.setattr(carom.Solution, "view", lambda run: seen.append(run))  # nobody looks
    exec(compile(three, "README.md", "exec"), {})
    assert len(seen) == 1 and 50 < len(seen[0].impacts) < 200  # about 0.93 a second, whatever the rounding
    assert float(capsys.readouterr().out) < 1e-13  # rounding, some hundred steps of it at impacts
    assert len(first.splitlines()) < 25
    exec(compile(first, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "997 impacts" in said and float(said.split()[-1]) < 1e-12
    assert (tmp_path / "bounce.png").exists()
    exec(compile(rolling, "README.md", "exec"), {})
    hits, drift, slip = capsys.readouterr().out.split()
    assert int(hits) >= 4 and float(drift) < 1e-6 and float(slip) < 1e-12  # order 4 at dt = 0.01; rounding
    exec(compile(bodies, "README.md", "exec"), {})
    place = [float(x) for x in capsys.readouterr().out.strip("[] \n").split()]
    assert place == pytest.approx([6**2 / (2 * 0.5 * 9.81), 0.0, 0.05], abs=1e-5)  # O(h²): the last step stops within itself
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

"""The site: its code runs, its links lead somewhere, and it builds without warnings."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import needs_browser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MADE = {"gallery.md", "api.md", "command-line.md", "references.md", "notation.md"}  # by docs/build.py


@pytest.fixture
def build():
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("build", DOCS / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert target in MADE or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_method_has_a_theory_page():
    pages = {
        "variational": "variational/collision.py",
        "compaction": "variational/lanes.py",
        "lumped": "variational/lumped_flow.py",
        "event_driven": "event_driven.py",
        "moreau": "timestepping/moreau.py",
        "time_dg": "timestepping/time_dg.py",
        "hybrid": "hybrid.py",
    }
    for page, file in pages.items():
        assert (ROOT / "carom" / "methods" / file).exists()
        assert f"carom/methods/{file}" in (DOCS / "theory" / f"{page}.md").read_text()


def test_the_api_page_lists_every_public_name():
    import carom

    source = (DOCS / "build.py").read_text()
    rules = re.search(r"for r in \(([^)]*)\)", source)
    listed = set(re.findall(r"carom\.(?:\w+\.)*(\w+)\"", source)) | set(re.findall(r'"(\w+)"', rules[1] if rules else ""))
    errors = {"CaromError", "InputError", "SolveError", "SweepError"}  # the module carom.errors is listed as a whole
    assert set(carom.__all__) - listed - errors == set()
    assert "nobody" not in listed  # the control: not everything is in there


def test_pages_made_by_the_build(build):
    page = build._page(ROOT / "examples" / "01_bouncing_ball.py")
    assert page.startswith("# A bouncing ball\n") and page.count("```") % 2 == 0 and "# %%" not in page
    assert "**[fetecau2003]**" in build._references() and "2003" in build._references()
    told = build._command_line()
    assert all(f"## carom {name}" in told for name in ("list", "run", "report", "sweep", "demo"))


CODED = [
    *("first-steps", "own-system", "own-method", "many", "bodies", "joints", "rotations", "friction-in-space", "contact-laws"),
    *("control", "chaos", "live"),
]


def test_every_page_with_code_is_run():
    """By the test below."""
    with_code = {page.stem for page in DOCS.glob("*.md") if "```python" in page.read_text()}
    assert with_code == set(CODED)


@pytest.mark.stress
@pytest.mark.parametrize("name", CODED)
def test_the_code_on_a_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text(), re.DOTALL)
    blocks = [block for block in blocks if not block.startswith("# not run")]  # those say what they need
    assert blocks
    exec(compile("\n".join(blocks), name, "exec"), {})


@needs_browser
def test_search_needs_no_server(browser, tmp_path):
    """Pages from a folder may start no workers; what the site puts in their place answers like one."""
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "polyfills: [iframe-worker.js]" in settings and "- offline" in settings and "http" not in settings
    (tmp_path / "worker.js").write_text("addEventListener('message', e => postMessage(e.data.map(x => 2 * x)))")
    ask = (
        "const w = new Worker('worker.js'); w.addEventListener('message', e => document.body.dataset.answer = e.data); "
        "w.postMessage([1, 2]); document.body.dataset.ready = 'yes'"
    )
    for name, shim in (("with", f"<script src='{(DOCS / 'iframe-worker.js').as_uri()}'></script>"), ("without", "")):
        page = tmp_path / f"{name}.html"
        page.write_text(f"<!doctype html><body data-ready='yes'>{shim}<script>{ask}</script></body>")
        browser.open(page)
        if shim:
            browser.wait("document.body.dataset.answer === '2,4'", 10)
            assert browser.complaints == []
    browser.wait("document.readyState === 'complete'")
    assert "answer" not in browser.run("Object.keys(document.body.dataset)") and browser.complaints  # the control: a plain one


def search(browser, page: Path, words: str) -> list[str]:
    """The addresses that the search of a page finds."""
    browser.requests.clear()
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait("document.readyState === 'complete' && document.querySelector('.md-search__input') !== null")
    browser.run("document.querySelector('.md-search__input').focus()")
    browser.call("Input.insertText", text=words)
    browser.wait("/matching|No match/.test(document.querySelector('.md-search-result__meta').textContent)", 30)
    return browser.run("[...document.querySelectorAll('.md-search-result__item > a')].map(a => a.href.split('#')[0])")


@needs_browser
@pytest.mark.stress
def test_the_site_builds_without_warnings_and_is_searched_from_its_folder(browser, tmp_path):
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0 and done.stderr.strip() == "", done.stderr
    for page in (
        "index.html",
        "api.html",
        "gallery.html",
        "gallery/star.png",
        "gallery/star.html",
        "examples/01_bouncing_ball.html",
    ):
        assert (tmp_path / "site" / page).exists()
    site = tmp_path / "site"
    assert (site / "contact-laws.html").as_uri() in search(browser, site / "joints.html", "restitution")
    assert search(browser, site / "joints.html", "xyzzyplugh") == []  # the control: not everything is found
    assert all(address.startswith(("file:", "data:")) for address in browser.requests)

"""Names that people typed are text wherever they are shown: in reports, on the cards of a gallery, on live pages, in sweeps."""

from dataclasses import replace

import numpy as np
import pytest
from browser import Browser, needs_browser
from live_pages import until, visit

import carom
from carom.live.gallery import write_gallery

pytest.importorskip("viser", reason="pip install 'carom[live]'")

from carom.live.play_page import PlayPage
from carom.live.playground import Playground
from carom.live.sweep_page import SweepPage

EVIL = """<img src=x onerror='window.hacked = 1'>"'><b>evil"""


def evil() -> carom.models.Model:
    """A particle whose names would all like to be more than that."""

    def lagrangian(q, v, params):
        return 0.5 * v @ v - params[EVIL] * q[1]

    system = carom.System(lagrangian, [carom.Contact(lambda q: q[1], name=EVIL)], space=carom.Euclidean(2, [EVIL, "y"]))
    return replace(carom.models.particle(), name=EVIL, about=EVIL, system=system, params={EVIL: 9.81}, exact={}, num_steps=100)


def _inert(browser: Browser, inside: str = "document") -> None:
    assert browser.run("window.hacked === undefined")
    assert browser.run(f"[...{inside}.querySelectorAll('img')].every((img) => img.getAttribute('src') !== 'x')")
    assert browser.run(f"[...{inside}.querySelectorAll('b')].every((b) => b.textContent !== 'evil')")


@needs_browser
def test_control_names_that_are_no_text_are_found(browser, tmp_path):
    (tmp_path / "evil.html").write_text(f"<!doctype html><body>{EVIL}")
    browser.call("Page.navigate", url=(tmp_path / "evil.html").as_uri())
    browser.wait("window.hacked === 1")
    with pytest.raises(AssertionError):
        _inert(browser)


@needs_browser
def test_in_a_report(browser, tmp_path):
    evil().solve(num_steps=100).report(tmp_path / "run.html")
    browser.open(tmp_path / "run.html")
    assert browser.run("document.getElementById('title').textContent") == EVIL
    assert EVIL in browser.run("document.getElementById('contact').textContent + document.getElementById('parameters').textContent")
    browser.run("document.getElementById('after').click()")
    assert EVIL in browser.run("document.getElementById('happening').textContent")
    _inert(browser)


@needs_browser
def test_in_a_gallery(browser, tmp_path):
    """Also in the names of its files, which are addresses on its cards."""
    name = EVIL.replace("/", "")
    assert [page.name for page, _ in write_gallery(tmp_path, {name: evil})] == [name]
    browser.call("Page.navigate", url=(tmp_path / "index.html").as_uri())
    browser.wait("document.querySelector('li img')?.naturalWidth > 0")  # the picture is found under that name
    assert browser.run("document.querySelector('li b').textContent") == name
    _inert(browser)
    browser.run("document.querySelector('li a').click()")
    inside = "document.querySelector('iframe')"
    browser.wait(f"{inside}?.contentDocument?.body?.dataset.ready === 'yes'")
    assert browser.run("document.querySelector('h1').textContent") == name
    assert EVIL in browser.run("document.querySelector('legend').textContent")
    _inert(browser)
    _inert(browser, f"{inside}.contentDocument")


@needs_browser
def test_on_a_page_to_play_with(browser):
    with PlayPage(Playground(EVIL, evil, known=False), plain=True) as page:
        visit(browser, page.page)
        browser.wait("[...document.querySelectorAll('[role=slider]')].some((s) => s.ariaLabel?.includes('onerror'))")
        page.ground.choose(other="MoreauJean")
        until(lambda: len(page.page.stages) == 2)
        page.ground.player.next_impact()
        browser.wait("document.querySelector('textarea').value.includes('impact')")
        _inert(browser)
        assert not page.page.trouble


class Store:
    """A sweep over a parameter of that name, half done."""

    def __init__(self) -> None:
        self.flat, self.size, self.shape, self.dims = False, 2, (2,), (EVIL,)
        self.axes = {EVIL: np.array([1.0, 2.0])}

    def read(self):
        import xarray as xr

        done, status = np.array([True, False]), np.array([EVIL, ""], dtype=object)
        return xr.Dataset({"done": (self.dims, done), "status": (self.dims, status), "measured" + EVIL: (self.dims, np.ones(2))})


@needs_browser
def test_in_a_sweep(browser):
    with SweepPage(EVIL) as page:
        page.look(Store())
        visit(browser, page, ready="[data-carom-done]")
        browser.wait("document.querySelector('table')?.textContent.includes('onerror')")
        _inert(browser)

"""The gallery's pages: a choice of parameters that works from a folder, in a real browser."""

import pytest
from browser import Browser, needs_browser

import carom
from carom.live.gallery import axes_of, write_gallery
from carom.report.choices import write_choices

EVIL = "<img src=x onerror='window.hacked = 1'>"


def _runs():
    return {(i,): carom.models.particle(gravity=g).solve(num_steps=100) for i, g in enumerate((1.62, 9.81))}


@needs_browser
def test_another_parameter_is_another_run(tmp_path):
    """From a file, without a network; the frame's report plays, and says the value that was chosen."""
    page = write_choices(tmp_path / "page.html", "particle" + EVIL, "a particle", {"gravity" + EVIL: [1.62, 9.81]}, _runs())
    browser = Browser(tmp_path / "chromium")
    try:
        browser.size(700, 900)
        browser.call("Page.navigate", url=page.resolve().as_uri())
        inside = "document.querySelector('iframe').contentDocument"
        browser.wait(f"document.body?.dataset.run === '1' && {inside}?.body?.dataset.ready === 'yes'")
        assert browser.run(f"{inside}.body.innerText.includes('9.81')")
        browser.run("document.querySelector('input[value=\"0\"]').click()")
        browser.wait(f"document.body.dataset.run === '0' && {inside}?.body?.dataset.ready === 'yes'")
        assert browser.run(f"{inside}.body.innerText.includes('1.62') && !{inside}.body.innerText.includes('9.81')")
        browser.run(f"{inside}.getElementById('play').click()")
        browser.wait(f"{inside}.getElementById('scrub').value > 0")
        assert browser.run("window.hacked === undefined && document.querySelectorAll('img').length === 0")
        assert browser.run("document.documentElement.scrollWidth <= 700")
        assert all(r.startswith(("file:", "data:", "about:")) for r in browser.requests), browser.requests
        assert browser.complaints == []
        browser.screenshot(tmp_path / "choices.png")
    finally:
        browser.close()
    assert page.stat().st_size < 6e6  # plotly is in it once


def test_a_grid_with_a_hole_is_refused(tmp_path):
    with pytest.raises(carom.InputError, match="2 combinations"):
        write_choices(tmp_path / "page.html", "t", "a", {"gravity": [1.0, 2.0]}, {(0,): None})


def test_one_call_builds_the_gallery(tmp_path):
    assert list(write_gallery(tmp_path, {"zeno_ball": carom.models.zeno_ball})) == ["zeno_ball"]
    index = (tmp_path / "index.html").read_text()
    assert 'href="zeno_ball.html"' in index and (tmp_path / "zeno_ball.png").stat().st_size > 1000
    assert (tmp_path / "zeno_ball.html").stat().st_size < 9e6


def test_every_model_has_a_choice_with_its_own_values_in_it():
    for name, factory in carom.models.ALL.items():
        axes = axes_of(factory)
        assert len(axes) <= 2 and all(2 <= len(values) <= 3 for values in axes.values()), name

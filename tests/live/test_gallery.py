"""The gallery's pages: a choice of parameters that works from a folder, in a real browser."""

import inspect
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from browser import Browser, needs_browser

import carom
from carom.live import gallery
from carom.live.gallery import axes_of, built, without, write_gallery, write_page
from carom.live.kept_pages import kept, key_of
from carom.models.world_model import WorldModel
from carom.report.choices import write_choices
from carom.report.html import report

EVIL = "<img src=x onerror='window.hacked = 1'>"


def _runs():
    return {(i,): carom.models.particle(gravity=g).solve(num_steps=100) for i, g in enumerate((1.62, 9.81))}


@needs_browser
def test_another_parameter_is_another_run(browser, tmp_path):
    """From a file, without a network; the frame's report plays, and says the value that was chosen."""
    runs = _runs()
    pages = {key: report(run, coarse=True) for key, run in runs.items()}
    page = write_choices(tmp_path / "page.html", "particle" + EVIL, "a particle", {"gravity" + EVIL: [1.62, 9.81]}, pages)
    browser.complaints.clear()
    browser.requests.clear()
    browser.size(700, 900)
    browser.call("Page.navigate", url=page.resolve().as_uri())
    inside = "document.querySelector('iframe').contentDocument"
    browser.wait(f"document.querySelector('iframe')?.dataset.shown === '1' && {inside}?.body?.dataset.ready === 'yes'")
    assert browser.run(f"{inside}.body.innerText.includes('9.81')")
    browser.run("document.querySelector('input[value=\"0\"]').click()")
    browser.wait(f"document.querySelector('iframe').dataset.shown === '0' && {inside}?.body?.dataset.ready === 'yes'")
    assert browser.run(f"{inside}.body.innerText.includes('1.62') && !{inside}.body.innerText.includes('9.81')")
    browser.run(f"{inside}.getElementById('play').click()")
    browser.wait(f"{inside}.getElementById('scrub').value > 0")
    _what_is_chosen_while_it_plays_goes_on(browser, inside)
    _a_coarse_film_is_where_the_run_is(browser, inside, runs[1,])
    assert browser.run("window.hacked === undefined && document.querySelectorAll('img').length === 0")
    assert browser.run("document.documentElement.scrollWidth <= 700")
    assert all(r.startswith(("file:", "data:", "about:", "blob:")) for r in browser.requests), browser.requests
    assert browser.complaints == []
    assert page.stat().st_size < 3e6  # plotly is in it once, packed


@needs_browser
def test_there_is_one_bar_to_scroll_by(tmp_path):
    """The frame is as high as what is in it, also where a bar inside would make it narrower and so keep itself there."""
    model = carom.models.free_ball()
    page = write_choices(tmp_path / "page.html", "ball", model.about, {"a": [1.0]}, {(0,): report(model.solve(), coarse=True)})
    browser = Browser(tmp_path / "chromium", bars=True)
    try:
        browser.size(1100, 900)
        browser.call("Page.navigate", url=page.resolve().as_uri())
        inside = "document.querySelector('iframe').contentDocument"
        browser.wait(f"document.querySelector('iframe')?.dataset.shown && {inside}?.body?.dataset.ready === 'yes'")
        root = f"{inside}.documentElement"
        room = f"[{inside}.defaultView.innerWidth - {root}.clientWidth, innerWidth - document.documentElement.clientWidth]"
        for width in (1100, 1099, 1101, 1000):
            browser.size(width, 900)
            browser.wait(
                f"Math.abs({inside}.body.getBoundingClientRect().height - document.querySelector('iframe').offsetHeight) < 1"
            )
            inner, outer = browser.run(room)
            assert inner == 0 and outer > 0, width  # control: the page around it has one
    finally:
        browser.close()


def _what_is_chosen_while_it_plays_goes_on(browser, inside):
    """From the same moment, at the same speed, in the same colours."""
    browser.run(f"(s => {{ s.value = '0.5'; s.onchange({{ target: s }}); }})({inside}.getElementById('speed'))")
    browser.run(f"{inside}.getElementById('scrub').oninput({{ target: {{ value: 250000 }} }})")  # a hand on it pauses
    browser.run(f"{inside}.getElementById('theme').click()")
    theme = browser.run(f"{inside}.documentElement.dataset.theme")
    assert theme in ("dark", "light") and browser.run("document.documentElement.dataset.theme") == theme  # the page around it, too
    browser.run(f"{inside}.getElementById('play').click()")
    browser.run("document.querySelector('input[value=\"1\"]').click()")
    browser.wait(f"document.querySelector('iframe').dataset.shown === '1' && {inside}?.body?.dataset.ready === 'yes'")
    browser.wait(f"{inside}.getElementById('scrub').value > 250000")
    assert browser.run(f"{inside}.getElementById('speed').value") == "0.5"


def _a_coarse_film_is_where_the_run_is(browser, inside, run):
    """To 1/65535 of the room in which it moves; the last frame is the end of the run."""
    browser.run(f"{inside}.getElementById('scrub').oninput({{ target: {{ value: 1e6 }} }})")
    dot = f"{inside}.getElementById('motion').data.find(t => t.mode === 'markers')"
    far = max(np.ptp(run.film.points, axis=(0, 1)))
    close = f"(Math.hypot({dot}.x[0] - {run.q[-1][0]}, {dot}.y[0] - {run.q[-1][1]}) <= {far / 65535})"
    browser.wait(close, 30)
    browser.run(f"{inside}.getElementById('scrub').oninput({{ target: {{ value: 0 }} }})")
    browser.wait(f"!{close}", 30)  # control: it was elsewhere


def test_a_grid_with_a_hole_is_refused(tmp_path):
    with pytest.raises(carom.InputError, match="2 combinations"):
        write_choices(tmp_path / "page.html", "t", "a", {"gravity": [1.0, 2.0]}, {(0,): None})


def test_one_call_builds_the_gallery(tmp_path):
    """A model and a scene."""
    chosen = {"zeno_ball": carom.models.zeno_ball, "arch": short_arch}
    shares = []
    made = list(write_gallery(tmp_path, chosen, lambda share, name: shares.append(share)))
    assert [(page.name, new) for page, new in made] == [("zeno_ball", True), ("arch", True)] and made[0][0].runs == 6
    assert shares == sorted(shares) and len(shares) > 10 and shares[-1] == 1.0  # run by run: a bar that moves
    index = (tmp_path / "index.html").read_text()
    assert 'href="zeno_ball.html"' in index and (tmp_path / "zeno_ball.png").stat().st_size > 1000
    assert index.index("Worlds of bodies") < index.index('href="arch.html"') and (tmp_path / "arch.gif").stat().st_size > 1000
    assert "prefers-reduced-motion" in index and (tmp_path / "arch.png").exists()
    assert all((tmp_path / f"{name}.html").stat().st_size < 5e6 for name in chosen)
    shown = re.findall(r" checked> ([0-9.]+)<", (tmp_path / "zeno_ball.html").read_text())
    own = inspect.signature(carom.models.zeno_ball).parameters
    assert [float(x) for x in shown] == [
        own[key].default for key in axes_of("zeno_ball", carom.models.zeno_ball)
    ]  # as the model is
    assert "http:" not in index and "https:" not in index
    _a_second_build_makes_what_is_missing(tmp_path, chosen)


def _a_second_build_makes_what_is_missing(folder, chosen):
    """A page whose file is gone is made again, the other one stays to the last byte; another model of that name is another page."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [new for _, new in write_gallery(folder, chosen)] == [False, False]
    (folder / "arch.gif").unlink()
    assert [new for _, new in write_gallery(folder, chosen)] == [False, True] and (folder / "arch.gif").exists()
    assert (folder / "zeno_ball.html").read_bytes() == before["zeno_ball.html"]
    assert (folder / "index.html").read_bytes() == before["index.html"]
    assert key_of("arch", short_arch) == key_of("arch", picky) != key_of("arch", carom.models.arch)  # by the file that has it
    assert kept(folder, "arch", key_of("arch", carom.models.arch)) is None  # control
    (folder / "made.json").write_text("[1]")
    assert kept(folder, "arch", key_of("arch", short_arch)) is None  # what is not ours is nothing


def test_values_that_cannot_be_run_are_left_out():
    axes = {"a": [1, 2, 3], "b": [4, 5]}
    assert without(axes, set()) == axes
    assert without(axes, {(3, 4), (3, 5)}) == {"a": [1, 2], "b": [4, 5]}  # what they have in common
    assert without(axes, {(1, 4), (2, 4), (3, 4)}) == {"a": [1, 2, 3], "b": [5]}
    with pytest.raises(carom.InputError, match="can be run"):
        without({"a": [1]}, {(1,)})


def picky(mass: float = 1.0, gravity: float = 9.81) -> carom.models.Model:
    """Its second number is refused by solve, not by the function: the particle starts inside the floor."""
    model = carom.models.particle(mass=mass)
    return replace(model, q0=[0.0, 1.0 if gravity < 10 else -1.0], params={**model.params, "gravity": gravity})


def test_a_page_is_written_without_a_value_at_which_the_model_cannot_start(tmp_path):
    write_page("picky", picky, tmp_path / "picky.html")
    text = (tmp_path / "picky.html").read_text()
    assert text.count('name="axis-0"') == 2 and "4.905" in text and "14.715" not in text


def test_a_page_that_is_too_large_gets_one_choice_less(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "LARGEST", 1)
    write_page("zeno_ball", carom.models.zeno_ball, tmp_path / "z.html")
    text = (tmp_path / "z.html").read_text()
    assert text.count("<fieldset>") == 1 and len(axes_of("zeno_ball", carom.models.zeno_ball)) == 2


def short_arch(friction: float = 0.6) -> WorldModel:
    return replace(carom.models.arch(voussoirs=3, friction=friction), num_steps=6)


@pytest.mark.parametrize("name", [*carom.models.ALL, *carom.models.SCENES])
def test_every_model_has_a_choice_that_it_takes(name):
    """Every combination can be built: the gallery comes to its end."""
    factory = {**carom.models.ALL, **carom.models.SCENES}[name]
    axes = axes_of(name, factory)
    assert 1 <= len(axes) <= 2, name
    assert all(2 <= len(values) <= 3 for values in axes.values()), axes
    for values in product(*axes.values()):
        built(name, factory, dict(zip(axes, values, strict=True)))

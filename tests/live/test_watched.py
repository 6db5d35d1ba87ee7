"""Work that is watched while it is done: `carom run --live` of models and worlds, `carom sweep --live` with its map."""

import contextlib
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from browser import needs_browser
from live_pages import button, says, until, visit
from typer.testing import CliRunner

import carom
from carom.cli import commands as cli
from carom.cli.terminal import after_the_run
from carom.cli.watching import _watch

pytest.importorskip("viser", reason="pip install 'carom[live]'")

from carom.live.served import ServedPage
from carom.live.sweep_page import FAILED, WAITING, Map, SweepPage, legend, painted, table
from carom.live.watched import ModelWork, WatchedRun, WorldWork

GRID = {"gravity": [1.0, 5.0, 9.0], "restitution": [0.5, 1.0, 2.0]}  # a restitution of 2 is refused
OPTIONS = {"workers": 0, "block": 1, "num_steps": 60, "method": carom.MoreauJean()}


@pytest.fixture
def pages(monkeypatch):
    """Pages that the command line opens: nobody looks, and nobody has to press Ctrl-C."""
    opened: list[ServedPage] = []

    def show(page):
        opened.append(page)
        return page

    monkeypatch.setattr(ServedPage, "show", show)
    monkeypatch.setattr(ServedPage, "wait", lambda page: None)
    yield opened
    for page in opened:
        page.close()


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


# -- runs ----------------------------------------------------------------------------------------------------------------


def test_a_run_is_watched_and_comes_out_as_always(pages, tmp_path):
    result = call("run", "particle", "--steps", 80, "--live", "--json", "--out", tmp_path / "run.zarr")
    assert result.exit_code == 0 and "watch it: http://127.0.0.1:" in result.stderr, result.stderr
    run, plain = carom.load(tmp_path / "run.zarr"), carom.models.particle().solve(num_steps=80)
    assert np.allclose(run.q, plain.q, atol=1e-12) and len(run.impacts) == len(plain.impacts)  # one impact: no chaos
    (page,) = pages
    assert page.player.end == pytest.approx(0.8) and not page.player.growing and page.player.footage.ok


def test_a_run_that_fails_midway_is_shown_as_such(pages):
    result = call("run", "drag", "--steps", 1200, "--rule", "left", "--live")
    assert result.exit_code == 1
    (page,) = pages
    footage = page.player.footage
    assert not footage.ok and "step" in footage.message and not page.player.growing
    assert 0 < footage.t[-1] < 1200 * carom.models.drag().dt  # what was computed stays to be seen
    page.panel.show()  # nobody is connected: the clock does not draw
    assert page.panel.status.value.startswith("failed: step")


class Failing(ModelWork):
    """After its first stretches it goes on, and fails, when it is told to."""

    def __init__(self, *what):
        super().__init__(*what)
        self.go = threading.Event()

    def more(self, steps, seen):
        assert seen is None or self.run.num_steps < 300 or self.go.wait(60)
        return super().more(steps, seen)


@needs_browser
def test_a_run_that_fails_while_somebody_watches(browser):
    """The page says how far it is, then that it failed, why, and what to try; what was computed can be played."""
    model = carom.models.drag()
    work = Failing(model, carom.VariationalCollision(carom.Left()), {})
    with WatchedRun("drag", work, 1600) as watched:
        visit(browser, watched.page)
        says(browser, "steps/s")
        assert not browser.run("document.querySelector('textarea').value.includes('failed')")  # control
        work.go.set()
        says(browser, "failed: step")
        says(browser, "choose MoreauJean or TimeDG")
        assert watched.finish().num_steps < 1600
        button(browser, "Play")
        until(lambda: watched.page.player.now > 0.2)
        assert not watched.page.trouble


def test_a_world_is_watched_and_comes_out_to_the_last_bit(pages):
    result = call("run", "dice", "--set", "count=1", "--steps", 60, "--live", "--json")
    assert result.exit_code == 0, result.stderr
    plain = carom.models.dice(count=1).solve(num_steps=60)
    with WatchedRun("dice", WorldWork(carom.models.dice(count=1), 1e-3), 60) as watched:
        run = watched.finish()
        assert np.array_equal(run.x, plain.x) and run.num_steps == 60 and watched.words() == "done"
        assert watched.page.player.end == pytest.approx(0.06) and watched.page.player.footage.ok


class Waiting(WorldWork):
    """After its first stretch it goes on when it is told to."""

    def __init__(self, scene, dt):
        super().__init__(scene, dt)
        self.go = threading.Event()

    def more(self, steps, seen):
        assert seen is None or self.go.wait(60)
        return super().more(steps, seen)


def test_it_says_how_far_it_is(pages):
    work = Waiting(carom.models.dice(count=1), 1e-3)
    watched = WatchedRun("dice", work, 400)
    words = watched.words()
    watched.page.panel.show()
    told = watched.page.panel.status.value  # the title of a panel is too short for it
    watched.stop.set()
    work.go.set()
    run = watched.finish()
    watched.page.close()
    assert "steps/s" in words and "s left" in words and 0 < run.num_steps < 400  # it was stopped on its way
    assert "steps/s" in told and "s left" in told
    assert pages == []


# -- sweeps --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maps():
    """What there was to be seen of a sweep, block by block."""
    seen: list[Map] = []
    data = carom.sweep("particle", GRID, watch=lambda store: seen.append(Map.of(store)), **OPTIONS)
    return seen, data


def test_the_map_fills_up_point_by_point(maps):
    seen, data = maps
    assert [int(np.sum(m.done)) for m in seen] == list(range(10)) and seen[0].shape == (3, 3)
    assert list(seen[0].axes["gravity"]) == [1, 1, 1, 5, 5, 5, 9, 9, 9] and list(seen[0].axes["restitution"][:3]) == [0.5, 1, 2]
    assert np.array_equal(seen[-1].numbers["t_end"], data["t_end"].values.ravel(), equal_nan=True)


def test_points_are_grey_then_as_bright_as_they_are_high_and_red_where_they_failed(maps):
    half, whole = maps[0][4], maps[0][-1]
    colours, heights = painted(half, "energy_drift")
    assert np.all(colours[~half.done] == WAITING) and np.all(heights[~half.done] == heights[-1])
    colours, heights = painted(whole, "energy_drift")
    refused = whole.axes["restitution"] == 2.0
    assert np.all(whole.status[refused] == "refused") and np.all(colours[refused] == FAILED)
    assert not np.any(np.all(colours[~refused] == FAILED, axis=1))
    values, tall = whole.numbers["energy_drift"][~refused], heights[~refused]
    assert np.array_equal(np.argsort(values), np.argsort(tall)) and tall.max() == 1.0
    assert np.argmax(colours[~refused].sum(axis=1)) == np.argmax(values)  # the brightest


def test_what_the_columns_say_is_written_beside_them(maps):
    """From which number to which; the lowest and the highest of what came to its end."""
    half, whole = maps[0][0], maps[0][-1]
    values = whole.numbers["energy_drift"][whole.status == "ok"]
    assert legend(whole, "energy_drift") == f"energy_drift: {values.min():.3g} (dark) … {values.max():.3g} (bright)"
    assert legend(half, "energy_drift") == "" and legend(whole, "t_end").endswith(" everywhere")  # controls


def test_the_table_is_of_the_last_points_and_what_people_typed_is_text(maps):
    whole = maps[0][-1]
    evil = Map({"<b>x</b>": whole.axes["gravity"]}, whole.shape, whole.done, whole.status, {"<img>": whole.numbers["t_end"]})
    text = table(evil, "<img>")
    assert "<b>" not in text and "<img" not in text and "&lt;b&gt;" in text and text.count("<tr>") == 10
    assert text.index("refused") < text.index("ok")  # the last point first


def test_samples_are_a_square():
    seen: list[Map] = []
    samples = {"gravity": np.linspace(1, 9, 5), "mass": np.linspace(1, 2, 5)}
    carom.sweep("particle", samples=samples, watch=lambda store: seen.append(Map.of(store)), **(OPTIONS | {"block": 5}))
    assert seen[-1].shape == (2, 3) and np.all(seen[-1].done) and list(seen[-1].axes) == ["gravity", "mass"]


@needs_browser
def test_a_sweep_in_the_browser(browser, tmp_path):
    """The table grows, the bar moves, another number can be shown, and nothing is asked of anybody else."""
    go = threading.Event()
    with SweepPage("a sweep") as page:

        def watch(store):
            page.look(store)
            if int(np.sum(page.map.done)) == 4:
                go.wait(60)

        work = threading.Thread(target=lambda: carom.sweep("particle", GRID, watch=watch, **OPTIONS), daemon=True)
        work.start()
        until(lambda: page.map is not None and np.sum(page.map.done) >= 4)
        visit(browser, page, ready="[data-carom-done]")
        browser.wait("document.querySelector('[data-carom-done]').dataset.caromDone === '4'")
        assert browser.run("document.querySelectorAll('[data-carom-done] tbody tr').length") == 4
        go.set()
        browser.wait("document.querySelector('[data-carom-done]').dataset.caromDone === '9'")
        browser.wait("document.querySelector('textarea').value.includes('9 of 9 points')")
        work.join(20)
        page.show_number("t_end")
        browser.wait("document.querySelector('[data-carom-done] thead').innerText.includes('t_end')")
        browser.screenshot(tmp_path / "sweep.png")
        home = page.address.split("?")[0]
        assert [r for r in browser.requests if not r.startswith((home, "data:", "blob:"))] == []


def test_a_sweep_on_the_command_line(pages, tmp_path):
    vary = ["--vary", "gravity=1,9", "--vary", "restitution=0.5,1"]
    result = call(
        "sweep", "particle", *vary, "--steps", 60, "--rule", "moreau", "--workers", 0, "--live", "--out", tmp_path / "s.zarr"
    )
    assert result.exit_code == 0 and "watch it: http://127.0.0.1:" in result.stderr, result.stderr
    (page,) = pages
    assert np.all(page.map.done) and page.words() == "4 of 4 points" and page.shown == "energy_error_max"


def test_ctrl_c_says_what_the_next_one_is_for(capsys):
    class Pressed:
        """A watched run whose first wait is ended by Ctrl-C."""

        def __init__(self):
            self.stop, self.page, self.waits = threading.Event(), SimpleNamespace(address="here", show=lambda: None), 0

        def finish(self):
            self.waits += 1
            if self.waits == 1:
                raise KeyboardInterrupt
            return "what there is"

    pressed = Pressed()
    assert _watch(pressed) == ("what there is", pressed.page) and pressed.stop.is_set()
    assert "the page stays open until Ctrl-C is pressed again" in capsys.readouterr().err
    pressed.waits = 1  # control: nobody presses
    _watch(pressed)
    assert "stopped" not in capsys.readouterr().err


@pytest.fixture
def interrupted_as_always():
    """Ctrl-C as Python has it: whoever ran before in this process may have left it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_after_the_last_step_keeps_the_results(interrupted_as_always, capsys, tmp_path):
    """The page said that the run was over, the terminal that Ctrl-C ends it: who pressed before the table came lost the run."""
    page = SimpleNamespace(close=lambda: ended.append(True))
    ended: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    with after_the_run(None, page):
        signal.raise_signal(signal.SIGINT)
        (tmp_path / "written").touch()
        assert not ended
    assert ended == [True] and (tmp_path / "written").exists() and signal.getsignal(signal.SIGINT) is before
    assert "its results are finished" in capsys.readouterr().err
    with after_the_run(None, page):  # control: nobody presses
        pass
    assert ended == [True] and not capsys.readouterr().err
    for watched, presses in ((page, 2), (None, 1)):  # the second press drops them, and so does the first where nobody watches
        with pytest.raises(typer.Exit), after_the_run(None, watched):
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
        assert "nothing is written" in capsys.readouterr().err.replace("\n", " ")
    assert signal.getsignal(signal.SIGINT) is before


def test_long_names_break_in_a_narrow_table():
    """After their signs; what a person typed stays text."""
    here = Map({"<b>_x": np.ones(1)}, (1, 1), np.ones(1, bool), np.array(["ok"]), {"energy_error_max": np.ones(1)})
    made = table(here, "energy_error_max")
    assert "energy_<wbr>error_<wbr>max" in made and "&lt;b&gt;_<wbr>x" in made and "<b>" not in made


def test_a_terminal_hears_that_something_is_compiled(monkeypatch):
    """`carom play beam` said nothing for as long as its program took to compile: half a minute on a busy machine."""
    told: list[str] = []

    def stay(open_page, no_browser):
        open_page()

    class Console:
        def status(self, words):
            told.append(words)
            return contextlib.nullcontext()

    monkeypatch.setattr("carom.cli.watching.stay", stay)
    monkeypatch.setattr("carom.cli.terminal.console", lambda stderr: Console() if stderr else None)
    monkeypatch.setattr("carom.live.viewing.play", lambda model, **_: told.append(model))
    assert call("play", "star", "--no-browser").exit_code == 0
    assert "compiled first" in told[0] and told[1:] == ["star"]

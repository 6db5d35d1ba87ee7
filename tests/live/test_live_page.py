"""The live page in a real browser: it opens, plays, scrubs; a knob and a hand change the motion; strangers stay outside."""

import asyncio
import contextlib
import dataclasses
import re
import socket
import sys
import urllib.error
import urllib.request
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest
import websocket
from browser import Browser, needs_browser
from live_pages import button, grab, on_screen, says, slide, until, visit

import carom
from carom.drawing import dots, line

pytest.importorskip("viser", reason="pip install 'carom[live]'")

import viser
from viser._messages import GuiUpdateMessage

from carom.live import gate
from carom.live.live_page import LETTER, LivePage
from carom.live.outlook import PANEL
from carom.live.panel import Panel, film_words
from carom.live.play_page import PlayPage
from carom.live.playground import Playground
from carom.live.viewing import opened, view_file

EVIL = "<img src=x onerror='window.hacked = 1'><b>evil</b>"


@pytest.fixture(scope="module")
def played():
    with PlayPage(Playground("particle", carom.models.particle), plain=True) as page:
        yield page


# -- who may look --------------------------------------------------------------------------------------------------------


def _answer(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_stranger_is_refused(played):
    inside, outside = played.address, played.address.split("?")[0]
    cookie = f"{played.page.gate.cookie}={played.page.gate.token}"
    assert _answer(inside) == 200 and _answer(outside, Cookie=cookie) == 200  # controls
    assert [_answer(outside), _answer(inside[:-3] + "xyz"), _answer(outside, Cookie=cookie[:-2] + "xx")] == [403] * 3
    assert _answer(inside, Origin="http://somewhere.else") == 403 and _answer(outside + "seen?frame=1") == 403


def test_a_socket_without_the_token_is_refused(played):
    where = played.address.replace("http", "ws").split("?")[0]
    version = __import__("viser").__version__
    options = {"timeout": 20, "subprotocols": [f"viser-v{version}"], "suppress_origin": True}
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        websocket.create_connection(where, **options)
    cookie = f"{played.page.gate.cookie}={played.page.gate.token}"
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):  # another page in the same browser has no such origin
        websocket.create_connection(where, cookie=cookie, origin="http://evil.example", **(options | {"suppress_origin": False}))
    websocket.create_connection(where, cookie=cookie, **options).close()  # control


def test_this_machine_alone(played):
    assert played.page.server.get_host() == "127.0.0.1" and played.address.startswith("http://127.0.0.1:")
    assert played.page.server.request_share_url() is None  # viser would ask a server on the network for a tunnel


def test_a_place_that_cannot_be_had_is_said():
    """viser takes another port without a word, and waits for ever for an address that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(carom.InputError, match=f"port {taken} is taken"):
            gate.open_server(gate.Gate(), "127.0.0.1", taken)
    with pytest.raises(carom.InputError, match=r"'192\.0\.2\.1' is no address of this machine"):  # kept for documentation
        gate.open_server(gate.Gate(), "192.0.2.1", 0)
    with pytest.raises(carom.InputError, match=r"there is no machine 'nowhere\.invalid'"):
        gate.open_server(gate.Gate(), "nowhere.invalid", 0)


def test_where_there_is_no_browser_the_address_is_said(monkeypatch, capsys):
    run = carom.models.particle().solve(num_steps=50)
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    with run.view(server=True) as page:
        said = capsys.readouterr().err
    assert f"no browser was found on this machine: open {page.address}" in said


def test_a_script_is_told_that_its_page_ends_with_it(monkeypatch, capsys):
    page, shown = SimpleNamespace(address="http://here", show=lambda: shown.append(True)), []
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.delitem(sys.modules, "IPython")
    assert opened(page, True) is page and shown == [True] and ".wait() stays until Ctrl-C" in capsys.readouterr().err
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # control: somebody types, and the page stays
    assert opened(page, True) is page and capsys.readouterr().err == ""
    assert opened(page, False) is page and len(shown) == 2


def test_what_is_relied_on_in_viser_is_there(monkeypatch):
    """A hand needs these four of a drag, all of them public; a server that starts without the gate is not left running."""
    fields = {field.name for field in dataclasses.fields(viser.SceneNodeDragEvent)}
    assert {"phase", "instance_index", "start_position", "end_position"} <= fields
    assert callable(viser.BatchedMeshHandle.on_drag)  # bodies are batches of meshes, dots too
    monkeypatch.setattr(gate, "_gated", lambda _: contextlib.nullcontext())  # as if viser did not call websockets' serve
    with pytest.raises(carom.InputError, match="could not be guarded"):
        gate.open_server(gate.Gate(), "127.0.0.1", 0)


# -- the page ------------------------------------------------------------------------------------------------------------


@needs_browser
def test_it_plays_and_a_knob_changes_the_motion(browser, played, tmp_path):
    ground, page = played.ground, played.page
    visit(browser, page)
    button(browser, "Play")
    until(lambda: ground.player.playing and ground.player.now > 0.3)
    browser.wait("/t = 0[.][^0]/.test(document.querySelector('textarea').value)")
    button(browser, "Pause")
    until(lambda: not ground.player.playing)
    slide(browser, "gravity", ["End"])
    until(lambda: ground.takes[0].model.params["gravity"] == pytest.approx(3 * 9.81) and not ground.message)
    until(lambda: ground.player.end > ground.player.now)  # it goes on from there
    with ground.lock:  # until all of the turn is done
        momenta, turned = ground.player.footage.curves[-1], ground.player.now
    t, first = np.unique(momenta.t, return_index=True)  # a short stretch has some of its states twice
    pull = np.diff(momenta.lines["y"][first]) / np.diff(t)
    before, after = pull[t[1:] < turned], pull[t[:-1] > turned]
    assert np.median(after) == pytest.approx(-3 * 9.81, rel=1e-6)  # but for single steps with impacts it is −m g
    assert np.median(before) == pytest.approx(-9.81, rel=1e-6)  # control: what was seen before
    browser.wait("document.querySelector('[role=status]')?.textContent === ''")  # nothing failed, and nothing is said
    image = browser.screenshot(tmp_path / "play.png")
    assert len(image) > 10_000
    charts = "Object.values(window.__viserTestpoints.uplots).map(({chart: c}) => [c.scales, c.data[0].at(-1)])"
    browser.wait(f"{charts}.every(([s, end]) => s.y.min < s.y.max && Math.abs(s.x.max - end) < 1e-6)")  # none is empty, or longer
    outside = [r for r in browser.requests if not r.startswith((page.address.split("?")[0], "data:", "blob:"))]
    assert outside == []  # no request leaves the machine


def test_the_clock_does_not_take_a_slider_out_of_the_hand(monkeypatch):
    """Between what a hand does and the threads that hear of it the clock shows what it knows: what the hand did counts. Of what it
    asks of a knob while something is computed, only the last is done."""
    with PlayPage(Playground("particle", carom.models.particle), plain=True) as page:
        gui, ground, panel = page.page.server.gui, page.ground, page.page.panel
        until(lambda: ground.player.end > 0.6)
        waiting: list[tuple] = []
        late = SimpleNamespace(submit=lambda act, *what: waiting.append((act, *what)) or Future(), shutdown=lambda **_: None)
        monkeypatch.setattr(gui, "_thread_executor", late)
        monkeypatch.setattr(gui, "_resolve_client", lambda _: object())

        def move(slider, value):
            asyncio.run(gui._handle_gui_updates(0, GuiUpdateMessage(slider._impl.uuid, {"value": value})))

        ground.player.scrub(0.6)
        move(panel.time, 0.25)
        panel._shown = ()
        panel.show()
        for act, *what in waiting:
            act(*what)
        assert ground.player.now == 0.25
        panel.time.value = 0.5  # control: the clock, not a hand
        assert ground.player.now == 0.25
        asked: list[float] = []
        monkeypatch.setattr(page, "_hands", late)
        monkeypatch.setattr(ground, "turn", lambda name, value: asked.append(value))
        waiting.clear()
        for value in (3.0, 4.0, 5.0):
            move(page.sliders["gravity"], value)
        page.sliders["gravity"].value = 9.81  # another reader's page says so
        for act, *what in waiting:
            act(*what)
        assert asked == [5.0]


@needs_browser
def test_scrubbing_by_keyboard_and_impacts_by_a_key(browser, played):
    ground = played.ground
    ground.restart()
    ground.values = {name: knob.value for name, knob in ground.knobs.items()}
    ground.restart()
    until(lambda: ground.work() or ground.player.end >= 0.9)
    visit(browser, played.page)
    slide(browser, "time", ["End"])
    until(lambda: ground.player.now > 0.5)
    slide(browser, "time", ["Home"])
    until(lambda: ground.player.now == 0.0)
    browser.run("document.activeElement.blur()")
    for kind in ("keyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key="n",
            code="KeyN",
            windowsVirtualKeyCode=78,
            text="n" if kind == "keyDown" else "",
        )
    until(lambda: ground.player.now > 0)
    assert ground.player.now in (ground.player.footage.hits[0], ground.player.end)


@needs_browser
def test_a_dragged_body_follows(browser):
    """The hand is a mouse on the canvas: pressed on the particle, moved upwards, held there."""
    with PlayPage(Playground("particle", carom.models.particle), plain=True) as fresh:
        _drag(browser, fresh.ground, fresh.page)


def _drag(browser: Browser, ground: Playground, page: LivePage) -> None:
    visit(browser, page, width=900)  # the panel must not lie over the particle
    browser.wait("Number(document.querySelector('canvas[data-engine]')?.style.opacity || 1) > 0.1")  # viser fades in its scene
    ground.player.speed = 0.25
    ground.turn("gravity", 8.0)  # knobs and the timeline were used before: the hand goes on from there
    ground.player.scrub(0.1)
    before = ground.player.footage.centre(0, ground.player.now)[2]
    x, y = grab(browser, page, ground)
    assert ground.player.playing  # what is taken hold of plays
    until(lambda: ground.player.footage.centre(0, ground.player.now)[2] > before + 0.1)  # against gravity
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", buttons=0, clickCount=1)
    until(lambda: ground.hand is None)
    top = ground.player.footage.centre(0, ground.player.now)[2]
    until(lambda: ground.player.footage.centre(0, ground.player.now)[2] < top - 0.1)  # let go, it falls
    ground.player.play(False)
    ground.player.speed = 1.0


@needs_browser
def test_two_clients_and_one_that_goes_away(browser, played):
    ground, page = played.ground, played.page
    visit(browser, page)
    until(lambda: page.clients == 1)
    second = browser.call("Target.createTarget", url=page.address)["targetId"]
    until(lambda: page.clients == 2)
    ground.player.scrub(0.25)
    says(browser, "t = 0.2500")  # what one does, both see
    browser.call("Target.closeTarget", targetId=second)
    browser.call("Page.bringToFront")  # a page behind another is not drawn
    until(lambda: page.clients == 1)
    ground.player.scrub(0.375)
    says(browser, "t = 0.3750")
    assert not page.trouble


@needs_browser
def test_a_run_that_failed_is_shown_as_such_and_names_are_inert(browser, tmp_path):
    """Also dark, on a phone, from a file, and with names that would like to be more than names."""

    def lagrangian(q, v):
        return 0.5 * v @ v - 9.81 * q[1]

    def shape(q):
        return [dots([q]), line([[-1, 0], [1, 0]], fixed=True)]

    space = carom.Euclidean(2, ["x" + EVIL, "y"])
    system = carom.System(lagrangian, [carom.Contact(lambda q: q[1], 0.5, name="floor" + EVIL)], space=space)
    run = carom.solve(
        system, carom.VariationalCollision(), [0.0, 1], [0.0, 0], dt=0.01, num_steps=400, name=EVIL, shape=shape, throw=False
    )
    assert not run.status.ok
    run.save(tmp_path / "run.zarr")
    with view_file(tmp_path / "run.zarr", show=False, plain=True) as page:
        visit(browser, page, dark=True)
        browser.size(390, 700)  # a phone
        says(browser, "failed: step")
        status = "document.querySelector('textarea')"
        browser.wait(f"{status}.clientHeight > 104 && {status}.scrollHeight <= {status}.clientHeight + 2")  # not just six lines
        browser.wait("document.querySelector('[role=status]')?.textContent.startsWith('failed: step')")  # for those who listen
        browser.wait("document.documentElement.dataset.mantineColorScheme === 'dark'")
        page.player.next_impact()
        says(browser, "floor<img")
        assert browser.run(
            "window.hacked === undefined && ![...document.querySelectorAll('b')].some(b => b.textContent === 'evil')"
        )
        assert browser.run("document.documentElement.scrollWidth <= 390")
        names = browser.run("[...document.querySelectorAll('[role=slider], textarea')].map(e => e.getAttribute('aria-label'))")
        assert names and all(names)
        assert len(browser.screenshot(tmp_path / "phone.png")) > 5_000


def test_what_a_page_sends_home_is_watched_as_it_is(played, tmp_path):
    """ "Save as a run" sends an archive; `carom view` takes it, and says of others that they are none."""
    sent = {}
    client = SimpleNamespace(send_file_download=lambda name, content, **_: sent.update({name: content}))
    played._save(SimpleNamespace(client=client))
    (tmp_path / "particle.zarr.zip").write_bytes(sent["particle.zarr.zip"])
    loaded = carom.load(tmp_path / "particle.zarr.zip")
    assert loaded.name == "particle" and loaded.status.ok and loaded.q.shape == (len(loaded.t), 2)  # in a script, too
    with view_file(tmp_path / "particle.zarr.zip", show=False, plain=True) as page:
        assert page.player.footage.name == "particle" and page.player.end > 0
    for content in (b"no archive", b"PK\x05\x06" + bytes(18)):  # the second is an empty one
        (tmp_path / "other.zip").write_bytes(content)
        with pytest.raises(carom.InputError, match="no archive with a run"):
            view_file(tmp_path / "other.zip", show=False)


class Note:
    """A notification on the page of a client, and what it said one after the other."""

    def __init__(self, title, body, told, **_):
        object.__setattr__(self, "told", told)
        told.append((title, body))

    def __setattr__(self, name, value):
        self.told.append((name, value))

    def remove(self):
        self.told.append("removed")


def test_a_film_comes_from_the_page_and_what_cannot_be_one_is_said(played):
    played.ground.restart()  # a short one
    sent, told = {}, []
    client = SimpleNamespace(
        send_file_download=lambda name, content, **_: sent.update({name: content}),
        add_notification=lambda title, body, **_: Note(title, body, told),
    )
    played.page.panel._film(SimpleNamespace(client=client))
    assert sent["motion.gif"][:4] == b"GIF8" and told[0] == ("Film", "is being drawn …") and told[-1] == "removed"
    shares = [int(re.match(r"is being drawn: (\d+) %, \d+ pictures/s, \d+ s left", body)[1]) for name, body in told[1:-1]]
    assert (
        shares == sorted(shares) and len(shares) > 10 and shares[0] < 20 and shares[-1] == 100
    )  # how far it is, picture by picture
    assert film_words(30, 120, 3.0) == "is being drawn: 25 %, 10 pictures/s, 9 s left"

    def none(path, progress):
        raise carom.InputError("there is nothing to film")

    told.clear()
    Panel._film(SimpleNamespace(films=none), SimpleNamespace(client=client))
    assert told == [("Film", "is being drawn …"), ("No film", "there is nothing to film"), "removed"]


@needs_browser
def test_files_come_at_one_press_and_the_script_makes_the_motion(browser, played, tmp_path):
    ground = played.ground
    ground.restart()
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    visit(browser, played.page)
    arrived = lambda name: (tmp_path / name).exists() and (tmp_path / name).stat().st_size > 0  # noqa: E731
    for name, file in {"Picture": "motion.png", "Save as a script": "particle.py", "Save as a run": "particle.zarr.zip"}.items():
        button(browser, name)
        until(lambda file=file: arrived(file))
    assert (tmp_path / "motion.png").read_bytes()[:4] == b"\x89PNG"
    space: dict = {}
    exec(compile((tmp_path / "particle.py").read_text(), "particle.py", "exec"), space)
    take = ground.takes[0]
    rows = np.isin(space["t"], take.runs[0].t)
    assert np.any(rows) and np.array_equal(space["q"][: len(take.runs[0].q)], take.runs[0].q)


@needs_browser
def test_two_that_are_side_by_side_are_in_view(browser):
    """Each where it was, with its name above it, also when they go different ways."""
    with PlayPage(Playground("particle", carom.models.particle), plain=True) as fresh:
        ground, page = fresh.ground, fresh.page
        visit(browser, page, width=900, height=600)
        ground.choose(other="VariationalCollision, trapezoidal")
        until(lambda: len(page.stages) == 2 and page.stages[1].frame.position[0] > page.stages[0].frame.position[0])
        button(browser, "Play")  # it stood still: one press moves both, at the same moments
        until(lambda: ground.player.now > 1.0)
        button(browser, "Pause")
        until(lambda: not any(player.playing for player in ground.players))
        assert ground.players[1].now == ground.player.now > 1.0
        for i, player in enumerate(ground.players):
            x, _ = on_screen(page, player.footage.centre(0, player.now), i)
            name = 0.5 * LETTER * len(page.names()[i])  # half of it to each side of what is followed
            assert name < x < 900 - PANEL + 15 - name, (i, x, name)  # the panel is a little narrower than is reckoned with
        assert page.names() == ("VariationalCollision, order 4", "VariationalCollision, trapezoidal") and fresh.both.visible
        ground.choose(other=None)
        until(lambda: len(page.stages) == 1 and page.stages[0].aside[0] == 0.0 and not fresh.both.visible)
        assert not page.trouble


def test_a_notebook_needs_no_server():
    run = carom.models.particle().solve(num_steps=50)
    widget = run.view(server=False)
    cell = widget._repr_html_()
    assert cell.startswith("<iframe") and "allow-same-origin" not in cell and "http://" not in cell.split("srcdoc")[0]
    assert cell.count("<script") == 0 and "&lt;script" in cell  # all of the page is inside the attribute

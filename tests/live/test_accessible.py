"""For everybody: contrast in both themes, the keyboard, names, a phone's width, and nothing that moves by itself."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from accessible import controls, moving, pale, prefer, tab_through
from browser import needs_browser
from live_pages import button, focus, press, slide, until, visit

import carom
from carom.live.gallery import write_gallery
from carom.models.world_model import WorldModel

pytest.importorskip("viser", reason="pip install 'carom[live]'")

from carom.live.outlook import excess
from carom.live.play_page import PlayPage
from carom.live.sweep_page import Map, SweepPage
from carom.live.world_ground import WorldGround

PHONE = 390


def arch(friction: float = 0.6) -> WorldModel:
    return replace(carom.models.arch(voussoirs=3, friction=friction), num_steps=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A gallery with one scene."""
    place = tmp_path_factory.mktemp("gallery")
    assert [page.name for page, _ in write_gallery(place, {"arch": arch})] == ["arch"]
    return place


@pytest.fixture(scope="module")
def played():
    with PlayPage(WorldGround("arch", arch), plain=True) as page:
        yield page


def _open(browser, path, width: int, ready: str) -> None:
    browser.complaints.clear()
    browser.requests.clear()
    browser.size(width, 900)
    browser.call("Page.navigate", url=path.resolve().as_uri())
    browser.wait(ready)


FRAME = "document.querySelector('iframe')"
INSIDE = f"!!{FRAME}?.dataset.shown && {FRAME}.contentDocument?.body?.dataset.ready === 'yes'"


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_of_the_gallery_can_be_read_and_fit_a_phone(browser, folder, dark, tmp_path):
    prefer(browser, dark)
    _open(browser, folder / "index.html", PHONE, "document.querySelectorAll('li img').length === 1")
    count, bad = pale(browser)
    assert count >= 6 and bad == []
    assert browser.run("document.documentElement.scrollWidth") <= PHONE
    _open(browser, folder / "arch.html", PHONE, INSIDE)
    count, bad = pale(browser)
    assert count >= 4 and bad == []
    count, bad = pale(browser, "iframe")  # the report itself, with the texts of its plots
    assert count > 40 and bad == []
    assert browser.run("document.documentElement.scrollWidth") <= PHONE
    assert browser.run("document.querySelector('iframe').contentDocument.documentElement.scrollWidth") <= PHONE
    for inside in (None, "iframe"):
        assert all(name for _, name, _ in controls(browser, inside)), controls(browser, inside)
    assert all(r.startswith(("file:", "data:", "about:", "blob:")) for r in browser.requests) and browser.complaints == []


@needs_browser
def test_control_pale_text_is_found(browser, tmp_path):
    text = "pale<p style='color:#767676'>just enough</p><b style='font-size:24px'>large</b><i>fades in</i>"
    fading = "<style>i { color: #000; animation: come 2s } @keyframes come { from { opacity: 0.1 } }</style>"
    (tmp_path / "pale.html").write_text(f"<!doctype html><html>{fading}<body style='background:#fff;color:#999'>{text}")
    prefer(browser)
    _open(browser, tmp_path / "pale.html", 600, "document.body?.innerText.includes('pale')")
    count, bad = pale(browser, patience=5.0)
    assert count == 4 and [row[2] for row in bad] == ["pale", "large"]  # what fades in is judged when it is there
    assert bad[0][0] == pytest.approx(2.85, abs=0.01)  # #999 on white


@needs_browser
def test_a_choice_is_made_by_the_keyboard_and_nothing_moves_by_itself(browser, folder):
    prefer(browser, still=True)
    _open(browser, folder / "index.html", 800, "document.querySelectorAll('li img').length === 1")
    browser.wait("document.querySelector('li img').currentSrc.endsWith('.png')")  # the still picture, not the film
    assert moving(browser) == []
    _open(browser, folder / "arch.html", 800, INSIDE)
    assert moving(browser) == []
    before = browser.run("document.querySelector('iframe').contentDocument.getElementById('scrub').value")
    first = browser.run("document.querySelector('iframe').dataset.shown")
    browser.run("document.querySelector('input[type=radio]:checked').focus()")
    press(browser, "ArrowRight", "ArrowRight", 39)
    browser.wait(f"document.querySelector('iframe').dataset.shown !== {first!r} && {INSIDE}")
    assert before == browser.run("document.querySelector('iframe').contentDocument.getElementById('scrub').value") == "0"
    prefer(browser)
    _open(browser, folder / "index.html", 800, "document.querySelectorAll('li img').length === 1")
    browser.wait("document.querySelector('li img').currentSrc.endsWith('.gif')")  # control: others get the film


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_live_page_can_be_read(browser, played, dark):
    visit(browser, played.page, dark=dark, width=900, height=900)
    theme = "dark" if dark else "light"
    browser.wait(f"document.documentElement.dataset.mantineColorScheme === '{theme}'")
    browser.wait("!!document.querySelector('[role=slider][aria-label=gravity]')")
    until(lambda: pale(browser)[0] > 20)
    count, bad = pale(browser)
    assert count > 20 and bad == []
    nameless = [row for row in controls(browser) if not row[1]]
    assert nameless == []


@needs_browser
def test_on_a_phone_the_scene_is_seen_above_the_controls(browser, played):
    """The panel covered two thirds of the page, and the scene behind it; folding it took a mouse."""
    tall = 844
    visit(browser, played.page, width=PHONE, height=tall)
    head = "document.querySelector('[aria-label=\"fold or unfold the controls\"]')"
    scene, panel = (
        f"{one}.getBoundingClientRect()"
        for one in ("document.querySelector('canvas[data-engine]')", f"{head}.closest('.mantine-Paper-root')")
    )
    browser.wait(f"!!{head} && !!document.querySelector('[role=slider][aria-label=gravity]')")
    browser.wait(f"Math.abs({scene}.bottom - {panel}.top) < 2 && {scene}.height > 0.5 * {tall}")  # all of it, above the panel
    assert browser.run(f"{panel}.width") == PHONE and browser.run("document.documentElement.scrollWidth") <= PHONE
    focus = "document.querySelector('{}').focus(), document.activeElement.getBoundingClientRect()"
    for name in (
        "[role=slider][aria-label=gravity]",
        "[role=slider][aria-label=friction]",
        "input[type=checkbox][aria-label=dark]",
    ):
        box = browser.run(f"JSON.parse(JSON.stringify(({focus.format(name)})))")  # the browser scrolls to what gets the focus
        assert tall / 2 < box["y"] and box["y"] + box["height"] <= tall and box["x"] + box["width"] <= PHONE, (name, box)
    assert pale(browser)[1] == []
    browser.run(f"{head}.focus()")
    press(browser, "Enter", "Enter", 13)
    browser.wait(f"{scene}.height > 0.9 * {tall}")  # folded: the page is the scene's
    press(browser, "Enter", "Enter", 13)
    browser.wait(f"{scene}.height < 0.6 * {tall}")


@needs_browser
def test_all_controls_of_a_live_page_are_reached_by_the_keyboard(browser, played):
    prefer(browser, still=True)
    visit(browser, played.page, width=900, height=900)
    browser.wait("!!document.querySelector('[role=slider][aria-label=gravity]')")
    wanted = {name for _, name, index in controls(browser) if index >= 0}
    reached = tab_through(browser, 2 * len(controls(browser)))
    missing = wanted - {name for name, _ in reached}
    assert missing == set() and len(wanted) > 15
    own = [(name, ring) for name, ring in reached if name in wanted]
    assert all(ring for _, ring in own), [name for name, ring in own if not ring]  # one sees where one is
    assert moving(browser) == [] and not played.ground.player.playing  # it does not start by itself
    browser.run("document.activeElement.blur()")
    for key, code, number in (("l", "KeyL", 76), ("j", "KeyJ", 74)):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=code, windowsVirtualKeyCode=number, text=key)
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code, windowsVirtualKeyCode=number)
        until(lambda key=key: (played.ground.player.now > 0) == (key == "l"))  # a step on, and back


@needs_browser
def test_a_key_does_what_the_control_in_focus_does_and_nothing_else(browser, played):
    """Home on a slider of gravity went to the start of the motion too, and paused it; Space on a button also played."""
    player = played.ground.player
    visit(browser, played.page, width=900, height=900)
    button(browser, "Play")
    until(lambda: player.playing and player.now > 0)
    slide(browser, "gravity", ["Home"])
    until(lambda: played.ground.values["gravity"] == 0.0)
    button(browser, "Pause")  # a click after the key: all that the key did has been done
    until(lambda: not player.playing)
    assert player.now > 0
    focus(browser, "Restart")
    press(browser, " ", "Space", 32)
    until(lambda: player.now == 0.0)
    button(browser, "Add a body")
    until(lambda: len(player.footage.bodies) == 4 or played.ground.message)
    assert not player.playing
    browser.run("document.activeElement.blur()")
    press(browser, " ", "Space", 32)  # control: nothing has the focus, and the page's own keys work
    until(lambda: player.playing)
    press(browser, "Home", "Home", 36)
    until(lambda: not player.playing and player.now == 0.0)


@needs_browser
def test_an_arrow_key_that_moves_a_slider_does_not_turn_the_view(browser, played):
    """viser turns the camera by the arrow keys, whatever has the focus."""
    visit(browser, played.page, width=900, height=900)
    camera = max(played.page.server.get_clients().items())[1].camera
    home = played.page.outlook.home[1]
    at_home = lambda: np.allclose(camera.position, home, rtol=1e-6, atol=0)  # noqa: E731  the browser says it in other digits
    until(at_home)

    def hold(key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)
            time.sleep(0.5)  # a key that is held is heard at each picture that is drawn

    slide(browser, "gravity", ["End"])
    until(lambda: played.ground.values["gravity"] == played.ground.knobs["gravity"].high)
    hold("ArrowLeft", 37)
    until(lambda: played.ground.values["gravity"] < played.ground.knobs["gravity"].high)
    assert at_home()
    browser.run("document.activeElement.blur()")
    for _ in range(9):  # control: nothing has the focus, and the view turns
        hold("ArrowLeft", 37)
        if not at_home():
            return
    raise AssertionError("the arrow keys no longer turn the view")


class Store:
    """A sweep that has just begun."""

    def __init__(self) -> None:
        self.flat, self.size, self.shape, self.dims = False, 4, (2, 2), ("a", "b")
        self.axes = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0])}

    def read(self) -> dict:
        return {}


@needs_browser
def test_a_sweep_can_be_read_on_a_phone(browser):
    assert not np.any(Map.of(Store()).done)
    with SweepPage("a sweep") as page:
        page.look(Store())
        assert page.words().startswith("0 of 4 points: workers start")
        for dark in (False, True):
            before = set(page.server.get_clients())
            visit(browser, page, dark=dark, width=PHONE, height=800, ready="[data-carom-done]")
            browser.wait(f"document.documentElement.dataset.mantineColorScheme === '{'dark' if dark else 'light'}'")
            assert pale(browser)[1] == [] and browser.run("document.documentElement.scrollWidth") <= PHONE
            until(lambda old=before: set(page.server.get_clients()) - old)  # the one that was there may not have left yet
            camera = max(page.server.get_clients().items())[1].camera
            tops = page.places + np.array([0.0, 0.0, page.high])
            until(lambda one=camera, all_=tops: excess(one, all_, np.full(len(all_), 0.5)) < 1)  # the whole map is seen


class Camera:
    """As a page tells it: where it stands, and how wide its picture is."""

    def __init__(self, place: np.ndarray, width: int):
        self.position, self.look_at, self.image_width = place, np.zeros(3), width
        self.heard = []

    def on_update(self, hear) -> None:
        self.heard.append(hear)


def test_a_narrow_page_that_says_late_how_wide_it_is_sees_the_map():
    with SweepPage("a sweep") as page:
        page.look(Store())
        there, back, aside = page._seen
        late = Camera(there + aside + back, 0)
        page._come(SimpleNamespace(camera=late))
        late.position, late.image_width = there + aside + back, PHONE  # what it says next
        late.heard[0](late)
        np.testing.assert_allclose(late.position, there + 1.3 * back)
        moved = Camera(there + 2 * back, 0)
        page._come(SimpleNamespace(camera=moved))
        moved.image_width = PHONE
        moved.heard[0](moved)  # control: this one was moved by a hand
        np.testing.assert_allclose(moved.position, there + 2 * back)

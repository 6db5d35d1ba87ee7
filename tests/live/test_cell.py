"""The widget of a notebook: what the page asks, what the kernel answers, and both together in a real browser.

The browser has no notebook here: a page hosts the widget's script, and the test carries the messages between it and the widget in
Python, as a kernel does.
"""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from browser import Browser, needs_browser

import carom

pytest.importorskip("anywidget", reason="pip install 'carom[notebook]'")

from carom.live.cell import PlayCell
from carom.live.rerun import ModelRerun, WorldRerun

EVIL = "<img src=x onerror='window.hacked = 1'><b>evil</b>"


@pytest.fixture
def cell() -> PlayCell:
    return PlayCell(ModelRerun("particle", carom.models.particle, num_steps=120))


def _asked(cell: PlayCell, **said) -> list:
    """What the kernel answers when a page says this."""
    answers: list = []
    cell.send = lambda content, buffers=None: answers.append(content)
    cell._heard(cell, said, [])
    return answers


def test_a_knob_turned_on_the_page_is_another_run(cell):
    assert _asked(cell, ask="a-1", do="turn", **{"with": {"knob": "gravity", "value": 3.0}}) == [{"answered": "a-1"}]
    assert cell.run.params["gravity"] == 3.0 == cell.values["gravity"] and cell.shown and not cell.message
    first = cell.shown
    _asked(cell, ask="a-2", do="reset")
    assert cell.shown != first and cell.values["gravity"] == 9.81


def test_what_fails_is_a_message_and_the_motion_stays(cell):
    cell.turn("gravity", 3.0)
    shown, run = cell.shown, cell.run
    assert _asked(cell, ask="a-1", do="turn", **{"with": {"knob": "mass", "value": -1}}) == [{"answered": "a-1"}]
    assert "mass" in cell.message and cell.shown == shown and cell.run is run and cell.values["mass"] == 1.0
    with pytest.raises(carom.InputError, match="mass"):  # in another cell it is an error
        cell.turn("mass", -1.0)
    cell.turn("mass", 2.0)
    assert not cell.message and cell.shown != shown  # control


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"do": "close"},
        {"do": "__init__"},
        {"do": "turn"},
        {"do": "turn", "with": {"knob": "gravity", "value": "1; import os"}},
        {"do": "turn", "with": {"knob": ["gravity"], "value": 1}},
        {"do": "choose", "with": {"dt": EVIL}},
        {"do": "last", "with": {"num_steps": 1.5}},
    ],
    ids=json.dumps,
)
def test_what_no_page_of_ours_says_changes_nothing(cell, said):
    run = cell.run
    assert _asked(cell, ask="a-1", **said) == [{"answered": "a-1"}]  # whoever waits is told
    assert cell.run is run and cell.values["gravity"] == 9.81 and cell.chosen["num_steps"] == 120


def test_a_kernel_that_is_interrupted_says_so(cell, monkeypatch):
    def stopped(knob, value):
        raise KeyboardInterrupt

    monkeypatch.setattr(cell.rerun, "turn", stopped)
    assert _asked(cell, ask="a-1", do="turn", **{"with": {"knob": "mass", "value": 2}}) == [{"answered": "a-1"}]
    assert "stopped" in cell.message


def test_carom_play_in_a_cell():
    for found in (carom.play("particle", server=False), carom.models.particle(gravity=2.0).play(server=False)):
        assert isinstance(found, PlayCell) and found.name == "particle" and len(found.page) < 3e6
    assert found.values["gravity"] == 2.0 and "drop" not in found.values and "gravity" in [knob["name"] for knob in found.knobs]


# -- in a browser --------------------------------------------------------------------------------------------------------

HOST = """<!doctype html><html lang="en"><meta charset="utf-8"><title>host</title><body><div id="cell"></div><script>
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const state = {}, ears = {}, asked = [];
const fire = (name, what) => (ears[name] || []).forEach((act) => act(what));
const model = { get: (key) => state[key], send: (what) => asked.push(what),
  on: (name, act) => { (ears[name] = ears[name] || []).push(act); },
  off: (name, act) => { ears[name] = (ears[name] || []).filter((one) => one !== act); } };
function told(news) { // from the kernel: what has changed
  for (const [key, value] of Object.entries(news)) state[key] = ["page", "shown"].includes(key) ? bytes(value) : value;
  Object.keys(news).forEach((key) => fire(`change:${key}`));
}
const inside = (id) => document.querySelector("iframe").contentDocument.getElementById(id);
const ready = () => document.querySelector("iframe")?.contentDocument?.body?.dataset.ready === "yes";
const knob = (name, kind) => [...document.querySelectorAll(`input[type=${kind}]`)].find((one) => one.ariaLabel.startsWith(name));
async function start(script) {
  const { default: widget } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  window.leave = widget.render({ model, el: document.getElementById("cell") });
}
</script></body></html>"""
SYNCED = ("name", "page", "shown", "knobs", "values", "options", "chosen", "message")


class Wire:
    """The channel between a page and a widget."""

    def __init__(self, browser: Browser, cell: PlayCell, folder: Path, sandbox: bool = False):
        self.browser, self.cell, self.known = browser, cell, {}
        page = folder / "host.html"
        page.write_text(HOST)
        browser.call("Page.navigate", url="about:blank")
        browser.complaints.clear()
        browser.requests.clear()
        browser.size(1000, 1400)
        browser.call("Page.navigate", url=page.resolve().as_uri())
        browser.wait("typeof start === 'function'")
        self.tell()
        browser.run(f"document.head.appendChild(document.createElement('style')).textContent = {json.dumps(str(cell._css))}")
        script = cell._esm if isinstance(cell._esm, str) else str(cell._esm)
        if not sandbox:  # the test has to look inside
            closed = 'frame.setAttribute("sandbox", "allow-scripts allow-downloads");'
            assert script.count(closed) == 1
            script = script.replace(closed, "")
        browser.run(f"start({json.dumps(script)}).then(() => true)")

    def tell(self) -> None:
        """What has changed in the kernel goes to the page."""
        now = {name: getattr(self.cell, name) for name in SYNCED}
        now = {key: base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in now.items()}
        news = {key: value for key, value in now.items() if self.known.get(key) != value}
        self.known = now
        self.browser.run(f"told({json.dumps(news)})")

    def carry(self) -> dict:
        """The next thing that the page asks for, to the kernel and back."""
        self.browser.wait("asked.length > 0")
        said = self.browser.run("asked.shift()")
        answers = _asked(self.cell, **said)
        self.tell()
        for answer in answers:
            self.browser.run(f"fire('msg:custom', {json.dumps(answer)})")
        return said


@needs_browser
def test_it_plays_and_a_slider_is_another_motion(browser, cell, tmp_path):
    wire = Wire(browser, cell, tmp_path)
    browser.wait("ready()")
    before = browser.run("inside('summary').textContent")
    browser.run("inside('play').click()")
    browser.wait("parseFloat(inside('clock').textContent.slice(4)) > 0.1")
    browser.run("inside('play').click()")
    at = browser.run("inside('scrub').oninput({ target: { value: 500000 } }); inside('clock').textContent")
    assert at == "t = 0.6"
    # three moves of the slider before the kernel has answered: the first is asked for, and then the last
    for value in (4.0, 3.0, 2.0):
        browser.run(f"(one => {{ one.value = {value}; one.dispatchEvent(new Event('input')); }})(knob('gravity', 'range'))")
    assert browser.run("document.querySelector('.carom-state').textContent") == "computing …" and browser.run("asked.length") == 1
    one, two = wire.carry(), wire.carry()
    assert one["with"]["value"] == pytest.approx(4.0, rel=0.05) and two["with"]["value"] == pytest.approx(2.0, rel=0.05)
    browser.wait(f"ready() && inside('summary').textContent !== {json.dumps(before)}")
    assert browser.run("asked.length") == 0 and browser.run("document.querySelector('.carom-state').textContent") == ""
    assert browser.run("inside('clock').textContent") == at  # another motion, the same moment
    _the_ball_is_where_the_run_has_it(browser, cell)
    image = browser.screenshot(tmp_path / "cell.png")
    assert len(image) > 10_000
    assert not [r for r in browser.requests if not r.startswith(("file:", "data:", "blob:", "about:"))] and not browser.complaints


def _the_ball_is_where_the_run_has_it(browser, cell):
    x, y = cell.run.q[60]  # at t = 0.6
    dot = "inside('motion').data.find(t => t.mode === 'markers')"
    browser.wait(f"Math.hypot({dot}.x[0] - {x}, {dot}.y[0] - {y}) < 1e-3", 30)
    x, y = carom.models.particle().solve(num_steps=60).q[-1]
    assert not browser.run(f"Math.hypot({dot}.x[0] - {x}, {dot}.y[0] - {y}) < 1e-3")  # control: gravity as it was


@needs_browser
def test_what_is_refused_is_said_on_the_page_and_its_slider_goes_back(browser, cell, tmp_path):
    wire = Wire(browser, cell, tmp_path)
    browser.wait("ready()")
    summary = browser.run("inside('summary').textContent")
    browser.run("(one => { one.value = '-1'; one.dispatchEvent(new Event('change')); })(knob('mass', 'number'))")
    wire.carry()
    assert "mass" in browser.run("document.querySelector('.carom-message').textContent")
    assert browser.run("knob('mass', 'number').value") == "1" and browser.run("inside('summary').textContent") == summary
    browser.run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Longer').click()")
    assert wire.carry()["with"] == {"num_steps": 240}
    browser.wait("ready() && inside('summary').textContent.startsWith('240 steps')")
    assert browser.run("document.querySelector('.carom-message').hidden")
    browser.run("(one => { one.value = 'MoreauJean'; one.onchange(); })(document.querySelector('select'))")
    assert wire.carry()["with"] == {"method": "MoreauJean"}
    browser.wait("ready() && inside('summary').textContent.includes('MoreauJean')")
    browser.run("leave()")
    browser.run("fire('change:message')")  # who has left hears nothing


@needs_browser
def test_a_body_is_pulled_by_the_mouse_and_another_one_added(browser, tmp_path):
    """In the plane and in space: what the hand did is part of the run, while it holds on and after."""
    particle = PlayCell(ModelRerun("particle", carom.models.particle, num_steps=200))
    _pull(Wire(browser, particle, tmp_path), particle, up=1, body="")
    dice = PlayCell(WorldRerun("dice", lambda: carom.models.dice(count=1), num_steps=100))
    wire = Wire(browser, dice, tmp_path)
    _pull(wire, dice, up=2, body="die 1")
    browser.run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Add a body').click()")
    assert wire.carry()["with"]["shape"] == "ball"
    assert dice.run.names[-1] == "added 1" and not dice.message
    browser.wait("ready() && [...inside('body').options].some((one) => one.value === 'added 1')")
    browser.run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Reset').click()")
    wire.carry()
    assert dice.run.names[-1] == "die 1" and dice.rerun.gestures == ()
    assert not [one for one in browser.complaints if "rror" in one]  # drivers grumble about their speed


def _pull(wire: Wire, cell: PlayCell, up: int, body: str) -> None:
    browser = wire.browser
    browser.wait("ready()")
    before = cell.run
    moves = {k: cell.run.film.part(0, k) for k, part in enumerate(cell.run.film.parts) if not part.fixed}
    point = next(iter(moves.values()))[0].tolist()
    frame = "document.querySelector('iframe')"
    seen = f"{frame}.contentWindow.carom.screen({point})"
    x, y = browser.run(f"(b => {seen}.map((v, k) => v + [b.left, b.top][k]))({frame}.getBoundingClientRect())")
    mouse = lambda kind, dy, **more: browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y + dy, **more)  # noqa: E731
    mouse("mouseMoved", 0)
    mouse("mousePressed", 0, button="left", buttons=1, clickCount=1)
    for dy in (-20, -40, -60):
        mouse("mouseMoved", dy, button="left", buttons=1)
    browser.wait("asked.length > 0")
    while len((held := wire.carry())["with"]["track"]) < 15:  # half a second of watching: it still holds on
        pass
    assert held["do"] == "pull" and held["with"]["held"] and held["with"]["body"] == body and held["with"]["t"] < before.t[-1]
    target = held["with"]["track"][-1]
    assert target[up] > point[up] and not cell.message
    mouse("mouseReleased", -60, button="left", buttons=0, clickCount=1)
    while (said := wire.carry())["with"]["held"]:
        pass
    assert len(said["with"]["track"]) >= len(held["with"]["track"]) and len(cell.rerun.gestures) == 1
    height = lambda run: (run.q if hasattr(run, "q") and not body else run.x[:, -1])[:, up]  # noqa: E731
    assert height(cell.run).max() > height(before).max() + 0.01  # it was lifted, against gravity
    browser.wait("ready() && asked.length === 0")


@needs_browser
def test_names_are_inert_and_the_frame_is_closed(browser, tmp_path):
    """Also those of another run that the frame is sent; and the frame and what is around it cannot reach each other."""
    floor = carom.Contact(lambda q: q[1], name=EVIL)
    system = carom.System(lambda q, v, params: 0.5 * v @ v - params[EVIL] * q[1], [floor])
    model = replace(carom.models.particle(), name=EVIL, system=system, params={EVIL: 9.81}, exact={})
    cell = PlayCell(ModelRerun(EVIL, lambda: model, num_steps=60))
    wire = Wire(browser, cell, tmp_path)
    browser.wait("ready()")
    cell.turn(EVIL, 8.5)
    wire.tell()
    browser.wait("ready() && inside('parameters').textContent.includes('8.5')")
    assert browser.run("inside('title').textContent") == EVIL and EVIL in browser.run(
        "document.querySelector('.carom-knobs').textContent"
    )
    assert not browser.run("!!window.hacked || !!document.querySelector('iframe').contentWindow.hacked")
    assert browser.run("document.querySelectorAll('#cell img').length + inside('title').children.length") == 0
    assert EVIL in browser.run("inside('contact').textContent") and len(cell.run.impacts) > 0
    Wire(browser, cell, tmp_path, sandbox=True)  # as it is
    assert browser.run("document.querySelector('iframe').contentDocument === null")
    assert browser.run("document.querySelector('iframe').getAttribute('sandbox')") == "allow-scripts allow-downloads"

"""`carom play` without a page: it computes ahead of the clock, knobs change the motion, a hand pulls, a script makes it again."""

import contextlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from watcher import watch

import carom
from carom.drawing import picture
from carom.live.chart import NOW, STROKES, Chart, readable
from carom.live.footage import Curves, Footage
from carom.live.knobs import SUITS, arguments_of, knobs_of, methods_for
from carom.live.play_page import energies
from carom.live.playground import Playground
from carom.live.take import HAND, HELD, STRETCH


@pytest.fixture(scope="module")
def ground() -> Playground:
    return Playground("particle", carom.models.particle)


@pytest.fixture(autouse=True)
def anew(ground):
    """Every test starts with the particle at its start, all knobs as they were."""
    ground.pull(0, None, None)
    ground.values = {name: knob.value for name, knob in ground.knobs.items()}
    ground.choose(method=SUITS, pace=1.0, other=None)
    ground.player.play(False)


def test_it_goes_on_for_as_long_as_one_watches(ground):
    """And it is the run that `solve` makes, up to the rounding of starting anew at every stretch."""
    watch(ground, 3.0, each=0.1)
    assert ground.player.now == pytest.approx(3.0) and ground.player.end >= 3.5
    exact = carom.models.particle().solve(num_steps=300)
    assert np.allclose(ground.player.footage.centre(0, 3.0)[[0, 2]], exact.q[300], atol=1e-9)  # few impacts: no chaos to speak of
    assert len(ground.player.footage.hits) >= 3


def test_a_knob_changes_the_motion_from_now_on(ground):
    watch(ground, 0.3, each=0.1)
    fallen, now = ground.player.footage.centre(0, ground.player.now), ground.player.now
    ground.turn("gravity", 0.0)
    assert ground.player.now == pytest.approx(now, abs=0.011)  # at the step before
    watch(ground, 0.1, each=0.1)
    t = ground.player.now - now
    free = fallen[2] - 9.81 * now * t  # straight on with the velocity that it had
    assert ground.player.footage.centre(0, ground.player.now)[2] == pytest.approx(
        free, abs=1e-3
    )  # a step of 0.01 with or without g
    control = fallen[2] - 9.81 * now * t - 0.5 * 9.81 * t**2
    assert abs(free - control) > 1e-2


def test_what_is_refused_is_said_and_undone(ground):
    watch(ground, 0.2, each=0.1)
    ground.turn("mass", -1.0)
    assert "mass" in ground.message and ground.values["mass"] == 1.0
    ground.turn("mass", 2.0)
    assert not ground.message and ground.takes[0].model.params["mass"] == 2.0


@pytest.mark.parametrize("speed", [1.0, 0.5])
def test_a_hand_holds_a_body_where_it_is(ground, speed, monkeypatch):
    """The spring sags by g(1 − ωτ)/ω² at the kicks, and a body falls by less than gτ²/2 between them. In slow motion ω is larger by
    as much, and τ smaller: the hand of those who watch is as quick."""
    dt = ground.takes[0].dt
    tau = round(speed * HELD / dt) * dt
    rate = min(HAND / speed, HAND * HELD / tau)
    monkeypatch.setattr(ground.player, "speed", speed)
    watch(ground, 0.1, each=0.1)
    here = ground.player.footage.centre(0, ground.player.now)
    target = here + np.array([0.5, 0.0, 1.0])
    ground.player.play(True)
    for _ in range(90):
        ground.player.tick(HELD)
        ground.pull(0, ground.player.footage.centre(0, ground.player.now), target)
        ground.work()
    x, _, z = ground.player.footage.centre(0, ground.player.now)
    sag, swing = 9.81 * (1 - rate * tau) / rate**2, 0.5 * 9.81 * tau**2
    assert x == pytest.approx(target[0], abs=1e-3) and target[2] - z == pytest.approx(sag, abs=2 * swing)
    ground.pull(0, None, None)
    watch(ground, 0.3 / speed, each=0.1)
    assert ground.player.footage.centre(0, ground.player.now)[2] < z - 0.2  # let go, it falls


def test_what_is_over_in_a_moment_is_played_slowly():
    """A beam strikes and flies off within half a second: it was out of sight before one saw it."""
    ground = Playground("resting_ball", carom.models.resting_ball)
    model = carom.models.resting_ball()
    assert model.dt * model.num_steps == 1.0 and ground.player.speed == 0.1
    assert ground.player.end == pytest.approx(0.1 * STRETCH, abs=model.dt)  # and computed in short parts, of whole steps
    assert Playground("piston", carom.models.piston).player.speed == 1.0  # control: what takes minutes is not hurried


def test_two_methods_start_alike_and_show_both_energies(ground):
    ground.choose(other="VariationalCollision, trapezoidal")
    watch(ground, 2.0, each=0.1)
    both = energies(ground.players)
    one, two = both.lines.values()
    assert len(ground.players) == 2 and one[0] == two[0] and len(both.lines) == 2
    assert np.max(np.abs(one - one[0])) < 1e-9 < 1e-6 < np.max(np.abs(two - two[0]))  # order 4 is exact here, order 2 is not


def test_a_chart_of_what_hardly_changes_shows_the_change():
    """The axis of an energy that is conserved would say 8.223 three times."""
    t = np.linspace(0.0, 1.0, 5)
    lines = {"one": 8.0 + np.zeros(5), "two": 8.0 + np.array([0.0, 1.0, -2.5, 0.0, 1.0]) * 2.0**-30}  # 1e-9: exact beside 8
    title, _, drawn = readable(Curves("energy", t, lines))
    assert title == "energy: change from 8, in 10⁻⁹" and np.array_equal(drawn["one"], np.zeros(5))
    assert np.allclose(drawn["two"], np.array([0.0, 1.0, -2.5, 0.0, 1.0]) * 2.0**-30 / 1e-9, rtol=1e-12)
    title, _, drawn = readable(Curves("energy", t, {"one": lines["one"]}))
    assert title == "energy: no change from 8" and not np.any(drawn["one"])
    title, _, drawn = readable(Curves("height", t, {"z": 1.0 + t}))  # control: what changes is drawn as it is
    assert title == "height" and np.array_equal(drawn["z"], 1.0 + t)


def test_numbers_at_the_axis_are_read():
    """A depth of 1e-7 had three zeros beside it, and −0.005 lost its sign at the edge of the panel."""
    t = np.linspace(0.0, 1.0, 5)
    title, _, drawn = readable(Curves("depth", t, {"depth": 3e-7 * t}))
    assert title == "depth, in 10⁻⁷" and np.allclose(drawn["depth"], 3 * t, rtol=1e-12)
    title, _, drawn = readable(Curves("momentum", t, {"x": 0.005 - 0.01 * t, "y": 0.0 * t}))
    assert title == "momentum, in 10⁻³" and np.allclose(drawn["x"], 5 - 10 * t, rtol=1e-12) and not np.any(drawn["y"])
    assert readable(Curves("force", t, {"x": 2e5 * t}))[0] == "force, in 10⁵"
    assert readable(Curves("height", t, {"z": 9.0 * t}))[0] == "height"  # control: what can be read stays


def test_lines_are_seen_on_white_and_on_dark():
    """WCAG 1.4.11: 3 to 1 for what is drawn; the blue that there was had 2.2 on viser's dark grey."""

    def light(colour: str) -> float:
        shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear)) + 0.05

    seen = lambda colour: min(light("#ffffff") / light(colour), light(colour) / light("#242424"))  # noqa: E731
    assert all(seen(colour) >= 3 for colour in (*STROKES, NOW)) and seen("#1f5f8b") < 3  # control


def test_a_chart_that_grows_is_not_made_anew():
    """Whenever its scale was sent, viser made a chart anew: it blinked, and later ended at a time that nobody had computed."""
    made: list[SimpleNamespace] = []
    gui = SimpleNamespace(add_uplot=lambda data, series, **look: made.append(SimpleNamespace(data=data, **look)) or made[-1])
    t = np.linspace(0.0, 1.0, 101)
    of = lambda k: Curves("energy", t[:k], {"energy": np.sin(9 * t[:k])})  # noqa: E731
    chart = Chart(gui, contextlib.nullcontext(), of(60), 0, marked=True)
    for k in (70, 80, 101):
        chart.show(of(k), 0.5)
    assert len(made) == 1 and made[0].data[0][-1] == 1.0 and np.nanmax(made[0].data[2]) == np.sin(4.5)
    low, high = made[0].scales["y"]["range"]
    assert -1.6 < low < -1.0 and 1.0 < high < 1.6
    made[0].remove = lambda: made.pop(0)
    chart.show(Curves("energy", t, {"energy": 3 * np.sin(9 * t)}), 0.0)  # controls: what does not fit in is another chart,
    assert len(made) == 1 and made[0].scales["y"]["range"][1] > 3
    made[0].remove = lambda: made.pop(0)
    chart.show(Curves("energy", t, {"energy": np.ones(101)}), 0.0)  # and so is what has another title
    assert len(made) == 1 and made[0].title == "energy: no change from 1"
    low, high = made[0].scales["y"]["range"]
    assert low < 0 < high


def test_what_was_played_can_be_taken_home(ground, tmp_path, capsys):
    watch(ground, 0.6, each=0.1)
    ground.turn("gravity", 3.0)
    watch(ground, 0.5, each=0.1)
    exec(compile(ground.script(), "script.py", "exec"), {})
    said = capsys.readouterr().out
    q = np.array([float(x) for x in said[said.rindex("[") + 1 : said.rindex("]")].split()])
    assert np.allclose(q, ground.takes[0].state.q, atol=1e-6) and "stretches" in said  # eight digits are printed
    run = carom.load(ground.save(tmp_path / "played.zarr"))
    assert run.t[0] == pytest.approx(0.6, abs=0.011) and run.params["gravity"] == 3.0  # since the knob was turned
    assert np.allclose(run.q[-1], ground.takes[0].state.q, atol=1e-9)


def test_a_script_has_what_was_watched_and_nothing_else(ground):
    """Knobs that are turned, a way back along the timeline, a hand: what was computed ahead of each of them did not happen."""
    watch(ground, 0.7, each=0.1)
    ground.turn("gravity", 4.0)
    watch(ground, 0.6, each=0.1)
    ground.player.scrub(0.33)
    here = ground.player.footage.centre(0, ground.player.now)
    ground.pull(0, here, here + np.array([0.2, 0.0, 0.3]))
    assert ground.player.playing  # what is taken hold of plays
    for _ in range(5):
        ground.player.tick(HELD)
        ground.work()
    ground.pull(0, None, None)
    watch(ground, 0.4, each=0.1)
    space: dict = {}
    exec(compile(ground.script(), "script.py", "exec"), space)
    seen = ground.takes[0].runs
    assert np.all(np.diff(space["t"]) >= 0) and 0.3 < seen[1].t[0] <= 0.33 and len(seen) > 5
    for name in "tqp":  # bit by bit: the same stretches by the same programs
        told = np.concatenate([getattr(run, name) for run in space["runs"]])
        assert np.array_equal(told, np.concatenate([getattr(run, name) for run in seen])), name


def test_hours_of_play_do_not_fill_the_memory(ground, monkeypatch):
    frames = 400  # a stretch of half a second has 64, and a second of them is computed in advance
    monkeypatch.setattr(Footage.recent, "__defaults__", (frames * ground.player.footage.numbers,))
    watch(ground, 10.0, each=0.5)
    take = ground.takes[0]
    assert len(take.footage.t) < 2.5 * frames and take.runs[0].t[-1] >= take.footage.t[0] > 1.0
    assert take.runs[-1].t[-1] == ground.player.end > 10.0
    assert ground.last_stretch().t[-1] == pytest.approx(ground.player.end)


def test_what_follows_from_other_numbers_follows_until_a_person_sets_it(capsys):
    """The inertia of the star goes with its mass: beside the slider, in the motion, and in the script."""
    ground = Playground("star", carom.models.star)
    own = ground.values["inertia"]
    ground.turn("mass", 2.0)
    assert ground.values["inertia"] == ground.takes[0].model.params["inertia"] == pytest.approx(2 * own)
    watch(ground, 1.0, each=0.1)  # an impact at 0.756: how it spins afterwards depends on the inertia
    space: dict = {}
    exec(compile(ground.script(), "script.py", "exec"), space)
    assert np.allclose(space["q"][-1], ground.takes[0].state.q, atol=1e-9) and len(ground.player.footage.hits) > 0
    ground.turn("inertia", own)
    ground.turn("mass", 3.0)
    assert ground.takes[0].model.params["inertia"] == own == ground.values["inertia"]  # control: set by hand


def test_an_argument_of_a_few_numbers_has_a_knob_for_each():
    bars = carom.models.bars
    knobs = knobs_of(bars, bars().params)
    assert knobs["speeds 2"].value == -0.1 and knobs["elements 1"].whole and "speeds" not in knobs
    values = {"lengths 2": 5.0, "gravity": 1.0, "lengths 1": 4.0, "mass": 2.0}
    assert arguments_of(bars, values) == ({"lengths": (4.0, 5.0), "gravity": 1.0}, {"mass": 2.0})
    for name in ("bars", "beam_pair", "rigid_body"):  # a script has lists, as JSON does
        factory = carom.models.ALL[name]
        model = factory()
        knobs = knobs_of(factory, model.params)
        parts = {key: int(knob.value) if knob.whole else knob.value for key, knob in knobs.items() if " " in key}
        again = factory(**json.loads(json.dumps(arguments_of(factory, parts)[0])))
        assert len(parts) > 5 and list(again.q0) == list(model.q0) and list(again.v0) == list(model.v0), name


def test_a_run_that_fails_stays_and_says_why():
    ground = Playground("drag", carom.models.drag)
    ground.player.speed = 10.0
    watch(ground, 1.2, each=0.1)
    assert ground.takes[0].failed and not ground.player.footage.ok and "choose MoreauJean" in ground.player.footage.message
    assert ground.player.now == ground.player.end and not ground.player.playing
    ground.restart()
    assert not ground.takes[0].failed and ground.player.footage.ok


def test_bodies_that_are_a_little_inside_each_other_go_on():
    """MoreauJean looks at velocities alone: the sleeve of the woodpecker is inside its pole by 10⁻⁶, where `solve` starts no run.
    The play stopped there, after its first stretch, and so it did with the block and the slider crank."""
    ground = Playground("woodpecker", carom.models.woodpecker)
    take, model = ground.takes[0], carom.models.woodpecker()
    end = take.state
    with pytest.raises(carom.InputError, match="lies inside an obstacle"):  # control: this is such a place
        carom.solve(model.system, take.method, end.q, p0=end.p, t0=end.t, dt=take.dt, num_steps=1, params=model.params)
    watch(ground, 1.4, each=0.1)  # at a tenth of the speed
    whole = model.solve(num_steps=1400)
    seen = take.runs[0]
    assert ground.player.now == pytest.approx(0.14) and not ground.message and not take.failed
    assert seen.t[0] == 0.0 and len(seen.t) > 1000 and len(take.runs) < 4  # in one piece
    assert np.allclose(seen.q[:1001], whole.q[:1001], rtol=0, atol=1e-12)  # the same program, in longer chunks
    ground.turn("gravity", 4.0)
    watch(ground, 0.5, each=0.1)
    here = ground.player.footage.centre(0, ground.player.now)
    ground.pull(0, here, here + np.array([0.001, 0.0, 0.001]))
    for _ in range(8):
        ground.player.tick(HELD)
        ground.work()
    ground.pull(0, None, None)
    watch(ground, 0.5, each=0.1)
    assert not ground.message and not take.failed
    space: dict = {}
    exec(compile(ground.script(), "script.py", "exec"), space)
    seen = [run for run in take.runs if len(run.t) > 1]  # one may be cut off where it began
    for name in "tqp":  # bit by bit: the same stretches by the same programs
        told = np.concatenate([getattr(run, name) for run in space["runs"]])
        assert np.array_equal(told, np.concatenate([getattr(run, name) for run in seen])), name


def test_what_cannot_go_on_is_told_once_and_a_restart_helps(ground, monkeypatch, capsys):
    """It was asked for again and again, by a page that said "computing" for ever; other errors ended its thread."""
    take = ground.takes[0]
    for error, told in ((carom.InputError("no such step"), "no such step"), (KeyError("mass"), "KeyError: 'mass'")):

        def refused(seconds, error=error):
            raise error

        monkeypatch.setattr(take, "grow", refused)
        ground.player.scrub(ground.player.end)
        assert ground.work() and not ground.work() and ground.player.footage.message == told and not ground.player.footage.ok
        assert ("KeyError" in capsys.readouterr().err) == told.startswith("KeyError")  # nobody would find its place without
        monkeypatch.undo()
        ground.restart()
        take = ground.takes[0]
        assert ground.player.footage.ok and not take.failed
        ground.player.scrub(ground.player.end)
        assert ground.work() and ground.player.footage.ok  # control


def test_every_model_has_knobs_and_methods():
    for name, factory in carom.models.ALL.items():
        model = factory()
        knobs, methods = knobs_of(factory, model.params), methods_for(model)
        assert SUITS in methods and (knobs or name == "star_in_space"), name
        for knob in knobs.values():
            assert knob.low <= knob.value <= knob.high and knob.low < knob.high, (name, knob)
    assert "MoreauJean" in methods_for(carom.models.friction_ball()) and "MoreauJean" not in methods_for(carom.models.bars())


def test_what_is_pressed_while_something_is_computed_is_heard_and_the_page_says_that_it_computes(ground, monkeypatch):
    """Another method takes seconds to compile: Play was pressed meanwhile, and forgotten."""
    seen, grow = [], ground.takes[0].__class__.grow

    def slow(take, seconds):
        seen.append(ground.busy)
        ground.player.play(True)
        return grow(take, seconds)

    monkeypatch.setattr(ground.takes[0].__class__, "grow", slow)
    ground.choose(pace=0.5)
    assert ground.player.playing and ground.player.now == 0.0 and seen == [True] and not ground.busy
    monkeypatch.undo()
    ground.player.play(False)
    ground.choose(pace=1.0)
    assert not ground.player.playing  # control


def test_an_elastic_body_goes_on_when_it_is_struck():
    """Two bars fly stiffly towards each other; at their impact they are stiff no longer, and the play stopped there for good."""
    ground = Playground("bars", carom.models.bars)
    model, stiff = carom.models.bars(), ground.player.footage
    assert len(stiff.solids) == 2 and not stiff.loose and stiff.t[-1] < 0.5  # they meet at t = 0.5
    watch(ground, 0.8, each=0.1)
    footage = ground.player.footage
    assert ground.player.now == pytest.approx(0.8) and not ground.message and len(footage.loose) == 2 and not footage.solids
    k = int(np.searchsorted(footage.t, 0.8))
    for frame in (0, k):  # as the run has it, before and after
        run = model.solve(num_steps=max(1, round(footage.t[frame] / model.dt)), throw=False)
        q = run.q[0] if frame == 0 else run.q[-1]
        parts = [part for part in picture(model.shape, q, footage.t[frame], model.params) if not part.fixed]
        seen = footage.loose[0].points[frame][:, [0, 2]]
        assert np.allclose(seen, parts[0].points, atol=1e-4)  # drawn in single precision, the stiff part by a fit to 1e-5
    ground.turn("gravity", 2.0)
    assert not ground.message


def test_two_side_by_side_show_the_same_moment_whatever_is_done_with_one(ground):
    """Play, speed and the timeline moved the first alone; a slow one does not fall behind, it holds up both."""
    ground.choose(other="VariationalCollision, trapezoidal")
    first, second = ground.players
    first.play(True)
    first.speed = 2.0
    first.tick(0.1)
    second.go_with(first, 0.1)
    assert second.now == first.now > 0 and second.playing and second.speed == 2.0
    second.take(second.footage.until(first.now + 0.01))  # there is not more of it yet
    for _ in range(50):
        first.tick(0.1)
        second.go_with(first, 0.1)
    assert first.now <= second.end < first.end and second.now == first.now and first.waiting
    second.take(second.footage, growing=False)  # one that failed there is shown there, and the other goes on
    first.tick(0.1)
    second.go_with(first, 0.1)
    assert first.now > second.end == second.now
    first.scrub(0.0)
    second.go_with(first, 0.1)
    assert second.now == 0.0 and not second.playing
    assert len(energies(ground.players).t) < len(first.footage.curves[0].t)  # of both, where there is something of both

"""What a notebook plays with, without a page: a change is another run, what cannot be changes nothing and is said."""

import gzip
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import carom
from carom.live import rerun
from carom.live.knobs import SUITS
from carom.live.rerun import ModelRerun, WorldRerun, paces
from carom.live.take import HAND
from carom.live.widget import Widget
from carom.live.world_ground import WorldGround


@pytest.fixture
def ball() -> ModelRerun:
    return ModelRerun("particle", carom.models.particle, num_steps=120)


def test_a_knob_is_another_run_from_the_start(ball):
    before = ball.contents().data["film"]
    assert ball.turn("gravity", 3.0) and not ball.message and ball.values["gravity"] == 3.0
    alone = carom.models.particle(gravity=3.0).solve(num_steps=120)
    assert np.array_equal(ball.run.q, alone.q) and len(ball.run.impacts) == len(alone.impacts)  # the very run that solve makes
    assert ball.contents().data["film"] != before
    assert ball.reset() and ball.contents().data["film"] == before  # control: the film is a function of the knobs


def test_what_is_refused_is_said_and_the_run_stays(ball):
    run = ball.run
    for knob, value, words in (("mass", -1.0, "mass"), ("gravty", 1.0, "did you mean 'gravity'"), ("mass", float("nan"), "finite")):
        assert not ball.turn(knob, value) and words in ball.message
        assert ball.run is run and ball.values["mass"] == 1.0 and "mass" not in ball.by_hand
    assert not ball.choose(method="Magic") and "there is no method 'Magic'" in ball.message and ball.method == SUITS
    assert not ball.choose(pace=0.0) and not ball.last(0) and ball.num_steps == 120 and ball.run is run
    assert ball.turn("mass", 2.0) and not ball.message and ball.run is not run  # control


def test_what_is_no_answer_of_ours_is_raised_and_undone(ball, monkeypatch):
    """An error of somebody's own function, or Ctrl-C."""
    run = ball.run

    def broken(method):
        raise KeyboardInterrupt

    monkeypatch.setattr(ball, "solve", broken)
    with pytest.raises(KeyboardInterrupt):
        ball.turn("mass", 2.0)
    assert ball.run is run and ball.values["mass"] == 1.0


def test_method_step_and_length(ball):
    assert ball.choose(method="MoreauJean", pace=0.5) and type(ball.run.method).__name__ == "MoreauJean"
    assert ball.run.dt == pytest.approx(0.005) and ball.run.t[-1] == pytest.approx(1.2) and ball.num_steps == 240
    assert list(paces(ball.dt)) == ["0.25 × 0.01", "0.5 × 0.01", "1 × 0.01", "2 × 0.01", "4 × 0.01"]
    assert ball.last(50) and len(ball.run.t) == 51


def test_energies_of_two_methods(ball):
    assert len(ball.contents().data["panels"][0]["series"]) == 1
    assert ball.choose(other="MoreauJean") and ball.beside is not None
    names = [series["name"] for series in ball.contents().data["panels"][0]["series"]]
    assert names == ["VariationalCollision, order 4", "MoreauJean"]  # what suits the ball, by its name
    assert ball.choose(other=SUITS)
    assert ball.contents().data["panels"][0]["series"][1]["name"] == "VariationalCollision, order 4 (again)"
    assert ball.choose(other=None) and ball.beside is None


def test_what_follows_from_other_numbers_follows():
    star = ModelRerun("star", carom.models.star, num_steps=5)
    own = star.values["inertia"]
    assert star.turn("mass", 2.0) and star.values["inertia"] == pytest.approx(2 * own)
    assert star.turn("inertia", own) and star.turn("mass", 3.0) and star.values["inertia"] == own  # control: set by hand


def test_a_run_that_fails_is_shown_as_far_as_it_went(ball):
    """Ever smaller bounces are more impacts than a step of this method takes."""
    assert ball.turn("restitution", 0.3) and ball.last(600)
    found = ball.contents()
    assert not ball.run.status.ok and found.words["message"] == ball.run.status.message
    assert 0.4 < ball.run.t[-1] < 0.84  # from the first impact to √(2h/g) (1 + e)/(1 − e), where the bounces end
    assert ball.choose(method="MoreauJean") and ball.contents().words["message"] == ""  # control


def test_a_model_as_it_is_has_a_knob_for_each_parameter():
    model = carom.models.particle(gravity=2.0)
    alone = ModelRerun(model.name, lambda: model, num_steps=20)
    assert set(alone.knobs) == set(model.params) and alone.values["gravity"] == 2.0
    assert alone.turn("gravity", 1.0) and alone.run.params["gravity"] == 1.0 and model.params["gravity"] == 2.0


def test_a_world_is_turned_and_shown_as_far_as_it_came(monkeypatch):
    world = carom.World(gravity=(0, 0, -10.0))
    world.fix(carom.shapes.HalfSpace(), name="floor")
    world.add(carom.shapes.Sphere(0.1), density=1000.0, position=(0, 0, 1.0), name="ball")
    played = WorldRerun("world", WorldGround.maker(world, 0.01, 20))
    fallen = played.run.x[-1, -1, 2]
    assert played.turn("gravity", 5.0) and 1.0 - played.run.x[-1, -1, 2] == pytest.approx((1.0 - fallen) / 2)
    assert played.choose(other="half of dt") and played.beside.dt == 0.005 and played.beside.t[-1] == played.run.t[-1]
    assert played.contents().words["message"] == ""
    monkeypatch.setattr(rerun, "PATIENCE", -1.0)
    assert played.reset() and played.run.num_steps < 20 and "as far as it came" in played.contents().words["message"]


def test_words_of_a_run_travel_as_they_are(ball):
    evil = "<b onclick='x'>"
    model = replace(carom.models.particle(), name=evil)
    told = json.loads(ModelRerun(evil, lambda: model, num_steps=5).contents().as_json())
    assert told["words"]["title"] == evil and set(told["tables"]) == {"parameters", "method", "measured", "versions"}
    assert all(isinstance(text, str) for rows in told["tables"].values() for row in rows for text in row)


def test_without_anywidget_there_is_the_player_and_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "carom.live.cell", raising=False)
    found = carom.models.particle().play(server=False)
    assert isinstance(found, Widget) and "pip install 'carom[notebook]'" in repr(found)
    assert found._repr_html_().startswith("<p>For knobs in a notebook")


def test_what_cannot_be_played_is_answered():
    with pytest.raises(carom.InputError, match=r"there is no model 'pendulm' to play with; did you mean 'pendulum'"):
        carom.play("pendulm")
    with pytest.raises(carom.InputError, match=r"world\.play\(dt=…\)"):
        carom.play(carom.World())
    bare = replace(carom.models.particle(), shape=None)
    with pytest.raises(carom.InputError, match="no picture"):
        carom.play(bare, server=False)


def test_a_long_run_is_thinned_as_in_a_report():
    """What travels for a change has a bounded size: ten times the steps are about as many numbers."""
    sizes = []
    for num_steps in (10_000, 100_000):
        found = ModelRerun("particle", carom.models.particle, num_steps=num_steps)
        sizes.append(len(gzip.compress(found.contents().as_json().encode())))
    assert sizes[1] < 1.5 * sizes[0] < 1e6  # twenty thousand numbers to a curve; the impacts, which are all kept, are few


# -- hands ---------------------------------------------------------------------------------------------------------------


def test_what_a_hand_holds_hangs_below_it_and_falls_when_it_lets_go():
    """By g (1 − ωτ)/ω² where its impulse arrives every τ, in a world by g/ω²; the run before it is the run that it was."""
    ball = ModelRerun("particle", carom.models.particle, num_steps=300)
    free, at = ball.run, ball.run.q[10].tolist()
    assert ball.pull(0.1, "", at, 60 * [[at[0], 2.0]]), ball.message
    run, tau = ball.run, 0.03  # three steps
    assert np.array_equal(run.q[:11], free.q[:11]) and np.allclose(run.t, free.t, atol=1e-12) and run.num_steps == 300
    end = 10 + 3 * 60
    assert run.q[end, 1] == pytest.approx(2.0 - 9.81 * (1 - HAND * tau) / HAND**2, abs=1e-3)  # exp(−9·1.8), and a step
    assert run.q[end + 20, 1] == pytest.approx(run.q[end, 1] - 0.5 * 9.81 * 0.2**2, abs=0.05)  # nothing holds it any more
    assert ball.reset() and np.array_equal(ball.run.q, free.q)
    world = WorldRerun("dice", lambda: carom.models.dice(count=1), num_steps=1500)
    x = world.run.x[0, -1]
    assert world.pull(0.0, "die 1", x.tolist(), 45 * [[*x[:2].tolist(), 0.4]]), world.message
    held = int(np.searchsorted(world.run.t, 1.45))
    assert world.run.x[held, -1, 2] == pytest.approx(0.4 - 9.81 / HAND**2, abs=1e-3)  # exp(−9·1.4), and the steps of its motion


def test_what_no_hand_does_is_refused_and_a_body_is_added_where_there_is_room():
    ball = ModelRerun("particle", carom.models.particle, num_steps=50)
    for said in (
        {"t": 9.0, "at": [0, 0], "track": [[0, 1]]},
        {"t": 0.1, "at": [0, 0], "track": []},
        {"t": 0.1, "at": [0, 0], "track": [[0, float("nan")]]},
        {"t": 0.1, "at": [0, 0], "track": [["1; import os", 2]]},
        {"t": 0.1, "at": [0], "track": [[0]]},
        {"t": 0.1, "at": [0, 0], "track": [[0, 1]], "speed": 0},
    ):
        assert not ball.pull(body="", **said) and ball.message and not ball.gestures, said
    assert not ball.add("ball") and "a World can be added to" in ball.message
    world = WorldRerun("dice", lambda: carom.models.dice(count=1), num_steps=20)
    assert not world.pull(0.0, "table", [0, 0, 0], [[0, 0, 1]]) and "'table' is fixed" in world.message
    assert not world.add("star") and "there are ball, cube" in world.message
    assert world.add("cube") and world.add("pill", 0.01) and world.run.names == ("table", "die 1", "added 1", "added 2")
    assert not world.add("cube", -1.0) and len(world.run.names) == 4 and world.reset() and len(world.run.names) == 2

"""Films: every picture shows its moment, and impacts between pictures are seen."""

import shutil

import numpy as np
import pytest
from PIL import Image

import carom
from carom.drawing import film
from carom.report import movie
from carom.report.plots import COLOURS
from carom.report.view import view_of

METHOD = carom.VariationalCollision(carom.Trapezoidal())


@pytest.fixture(scope="module")
def run():
    return carom.models.particle().solve(METHOD, num_steps=200)


def test_a_gif_has_the_pictures_it_should_have(run, tmp_path):
    run.animate(tmp_path / "deep" / "ball.gif", fps=10, width=3.0)
    with Image.open(tmp_path / "deep" / "ball.gif") as image:
        assert image.n_frames == 21 and image.info["duration"] == 100  # two seconds at ten a second, both ends
        first = np.asarray(image.convert("RGB")).copy()
        image.seek(3)
        assert np.any(np.asarray(image.convert("RGB")) != first)


def test_a_picture_shows_its_moment(run):
    stage = movie._Stage(run.film, run, 3.0)
    i = 57
    stage.show(run.t[i])
    np.testing.assert_allclose(stage.artists[0].get_xydata(), [run.q[i]], atol=1e-14)  # the frame itself
    between = 0.5 * (run.t[i] + run.t[i + 1])
    stage.show(between)
    np.testing.assert_allclose(stage.artists[0].get_xydata(), [0.5 * (run.q[i] + run.q[i + 1])], atol=1e-12)
    assert f"t = {between:.2f}" in stage.axis.get_title(loc="left")


def test_impacts_between_pictures_are_seen(run):
    stage, t = movie._Stage(run.film, run, 3.0), run.impacts.t[0]
    seen = []
    for moment in (t - 0.01, t + 0.05, t + 0.2):
        stage.show(moment, flash=0.1)
        seen.append(stage.artists[0].get_color())
    assert seen == [COLOURS[1], COLOURS[0], COLOURS[1]]


def test_long_paths_are_followed():
    run = carom.models.particle().solve(METHOD, num_steps=2000)
    stage = movie._Stage(run.film, run, 3.0)
    for t in (0.0, 10.0, 20.0):
        stage.show(t)
        low, high = stage.axis.get_xlim()
        assert (low + high) / 2 == pytest.approx(-2 * t, abs=0.03)  # the speed is 2; a grid point is at most 0.02 away


def test_the_view_holds_what_moves_and_follows_only_what_goes_far():
    """Star: follows. A bar as long as its path, in one line: shown whole. A fall straight down: the floor is in the view."""
    far = view_of(carom.models.star().solve(METHOD, num_steps=2000).film)
    assert far.follow and far.long == 0 and far.low[1] < 0 < far.high[1]

    def bar(q):
        return [np.array([[q[0], 0.0], [q[0] + 10.0, 0.0]])]

    still = view_of(film(bar, np.arange(3.0), np.arange(3.0)[:, None], None))
    assert not still.follow and still.low[0] < 0 and still.high[0] > 12 and still.high[1] > still.low[1]
    drop = view_of(film(carom.models.particle().shape, np.arange(2.0), np.array([[0.0, 5.0], [0.0, 4.0]]), {}))
    assert drop.low[1] < 0 and drop.high[1] > 5
    zeno, piston = (view_of(model.solve(num_steps=400).film) for model in (carom.models.zeno_ball(), carom.models.piston()))
    assert not zeno.follow and zeno.low[1] < 0 < 1 < zeno.high[1]  # a ball, and the floor that it falls on
    assert not piston.follow and piston.low[0] < 0 and piston.high[0] > 1  # and the walls that it goes between
    assert view_of(
        film(lambda q: [carom.drawing.disk(q[0], 0.0, 0.02)], np.arange(2.0), np.arange(2.0)[:, None], None)
    ).follow  # control


def test_what_is_high_does_not_touch_the_edge():
    stack = view_of(carom.models.stack(10).solve(num_steps=2).film)
    assert stack.high[1] - 10.0 >= 0.3 - 1e-9 and stack.low[1] <= -0.3 + 1e-9  # 3 % of its height; rounding
    wide = carom.models.bars().solve(num_steps=2).film
    seen = np.ptp(wide.points.reshape(-1, 2), axis=0)
    assert np.all(np.subtract(view_of(wide).high, view_of(wide).low)[0] <= 1.07 * seen[0])  # control: no more than that


def test_notebooks_get_a_player(run):
    film = run.animate(stop=0.2, fps=10, width=2.0)
    assert "<img" in film._repr_html_() and "anim" in film._repr_html_()


def test_bad_films(run, tmp_path, monkeypatch):
    for arguments, message in [
        ({"path": tmp_path / "film.avi"}, r"\*\.gif or \*\.mp4"),
        ({"start": 1.0, "stop": 0.5}, "start < stop"),
        ({"speed": -1.0}, "speed must be positive"),
    ]:
        with pytest.raises(carom.InputError, match=message):
            run.animate(**{"stop": 0.1, **arguments})
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(carom.InputError, match="ffmpeg"):
        run.animate(tmp_path / "film.mp4", stop=0.1)
    with pytest.raises(carom.InputError, match="no picture"):
        carom.models.particle().solve(METHOD, num_steps=2, shape=None).animate()

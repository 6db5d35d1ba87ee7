"""Elastic bodies on the stage of a live page: drawn as stiff ones are, whatever comes between two frames, and taken by a hand."""

import numpy as np
import pytest
from browser import needs_browser
from live_pages import grab, on_screen, until, visit

import carom
from carom.live.footage import of_solution
from carom.live.player import Player
from carom.live.playground import Playground

pytest.importorskip("viser", reason="pip install 'carom[live]'")

from carom.live.live_page import LivePage
from carom.live.play_page import PlayPage
from carom.live.stage import EDGES, LIT, _tubes


def test_an_elastic_bar_is_drawn_as_a_stiff_one_is():
    """It was an outline in one colour, and changed its looks at the first impact; now it has depth, its colour, and lights up."""
    footage = of_solution(carom.models.bars().solve(num_steps=80))
    assert len(footage.loose) == 2 and footage.flat
    with LivePage(Player(footage), plain=True) as page:
        until(lambda: page.frames)  # without anybody who looks it draws no more
        _check_bars(page.stages[0], footage)


def _check_bars(stage, footage):
    (_, one), (_, two) = stage.loose
    assert tuple(one.color) != tuple(two.color)
    ring = footage.loose[0].points
    for frame, struck in ((0, False), (60, True), (79, False)):
        stage.draw(footage, float(footage.t[frame]), struck, False)
        i, j, w = footage.frame(float(footage.t[frame]))
        now = ((1 - w) * ring[i] + w * ring[j])[:-1]
        front, back = one.vertices[: len(now)], one.vertices[len(now) : 2 * len(now)]
        assert np.allclose(0.5 * (front + back), now, atol=1e-5) and np.ptp(one.vertices[:, 1]) > 1  # single precision; its depth
        assert (tuple(one.color) == LIT) == struck


def test_footage_that_changes_while_a_frame_is_drawn_is_drawn_in_the_next(monkeypatch):
    """Bars that were stiff are loose a moment later: a page that had just made its stage for the one was told to draw the other,
    and stood still from then on, with an IndexError."""
    loose = of_solution(carom.models.bars().solve(num_steps=80))
    stiff = of_solution(carom.models.bars().solve(num_steps=20))
    assert not loose.solids and not stiff.loose
    player = Player(stiff)
    with LivePage(player, plain=True) as page:
        until(lambda: page.frames)
        other = {id(stiff): loose, id(loose): stiff}
        apart = page._set_apart
        monkeypatch.setattr(page, "_set_apart", lambda: (apart(), player.take(other[id(player.footage)])))  # another thread
        for _ in range(4):
            page._draw()
        with pytest.raises(IndexError):  # control: what a stage is not made for it cannot draw
            page.stages[0].draw(other[id(page.stages[0].footage)], 0.0, False, False)


def test_a_floor_without_an_end_comes_along():
    """Who followed the particle for some seconds saw it bounce on nothing: the slab under it had been left behind."""
    footage = of_solution(carom.models.particle(restitution=1.0).solve(num_steps=300))
    player = Player(footage)
    player.follow = 0
    with LivePage(player, plain=True) as page:
        until(lambda: page.frames)
        stage = page.stages[0]
        (floor,) = [batch for batch in stage.batches if batch.still]
        assert np.allclose(np.abs(floor.endless), [[1, 0, 0]])
        for away in ([40.0, 0.0, 0.0], [-7.0, 0.0, 0.5]):
            stage.shift(np.array(away))
            seen = np.asarray(stage.frame.position) + floor.handle.batched_positions[0] - floor.places[0, 0]
            assert np.allclose(seen, [0, 0, -away[2]], atol=1e-5)  # single precision: it stays where it is seen, up and down apart
        other = of_solution(carom.models.bowl().solve(num_steps=3))
        assert all(solid.endless is None for solid in other.solids)  # control: a bowl ends


@needs_browser
def test_an_elastic_bar_is_seen_whole_and_dragged(browser):
    """Its outline moves by itself, point by point; what it encloses can be taken hold of. Bars that hardly move fill their page."""
    with PlayPage(Playground("bars", carom.models.bars), plain=True) as played:
        ground, page = played.ground, played.page
        visit(browser, page, width=900)
        browser.wait("Number(document.querySelector('canvas[data-engine]')?.style.opacity || 1) > 0.1")  # viser fades in its scene
        until(lambda: ground.player.end > 0.1)
        outline = ground.player.footage.loose[0].points[0]
        ends = [on_screen(page, outline[k])[0] for k in (np.argmin(outline[:, 0]), np.argmax(outline[:, 0]))]
        assert ends[1] - ends[0] > 90  # pixels, of one of two bars in 900, a third of which are the panel's
        before = ground.player.footage.centre(0, ground.player.now)[0]
        x, y = grab(browser, page, ground, rise=30.0)
        for k in range(1, 11):
            browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - 8 * k, y=y, button="left", buttons=1)
        until(lambda: ground.player.footage.centre(0, ground.player.now)[0] < before - 0.05)  # against its speed
        browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=x - 80, y=y, button="left", buttons=0, clickCount=1)
        until(lambda: ground.hand is None)
        assert not page.trouble


@needs_browser
@pytest.mark.parametrize(("name", "node"), [("rolling_disk", 1), ("beam", 5)])
def test_what_is_drawn_as_a_line_is_dragged(browser, name, node):
    """A disk and a beam in space are lines, of which viser's hands take no hold: they turned the view."""
    with PlayPage(Playground(name, getattr(carom.models, name)), plain=True) as played:
        ground, page = played.ground, played.page
        visit(browser, page, width=900)
        browser.wait("Number(document.querySelector('canvas[data-engine]')?.style.opacity || 1) > 0.1")  # viser fades in its scene
        line = ground.player.footage.loose[0]
        assert line.kind == "line" and not page.stages[0]._filled(line)
        grab(browser, page, ground, rise=60.0, at=lambda: ground.player.footage.loose[0].points[0, node])
        until(lambda: ground.player.now > 0.0)  # what is taken hold of plays
        assert ground.player.playing and not page.trouble and not ground.message


def test_a_line_is_prisms_around_its_parts():
    """Whatever its direction, and also where two of its points are one."""
    line = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 2.0, -1.0]])
    vertices, triangles = _tubes(line, 0.1)
    assert vertices.shape == (3 * 2 * EDGES, 3) and triangles.shape == (3 * 2 * EDGES, 3) and triangles.max() == len(vertices) - 1
    assert np.all(np.isfinite(vertices))
    for k in (0, 2):
        a, b = line[k], line[k + 1]
        for end, ring in zip((a, b), vertices[2 * EDGES * k :][: 2 * EDGES].reshape(2, EDGES, 3), strict=True):
            assert np.allclose(np.linalg.norm(ring - end, axis=1), 0.1, atol=1e-6)  # single precision
            assert np.allclose((ring - end) @ (b - a), 0.0, atol=1e-6)  # across

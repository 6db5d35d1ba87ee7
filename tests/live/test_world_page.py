"""Worlds on a live page in a real browser: a scene plays, a body is added by a button, another is dragged by the mouse."""

import numpy as np
import pytest
from browser import Browser, needs_browser
from live_pages import button, grab, says, slide, until, visit

import carom

pytest.importorskip("viser", reason="pip install 'carom[live]'")

from carom.live import viewing
from carom.live.play_page import PlayPage
from carom.live.world_ground import WorldGround
from carom.models.world_model import WorldModel


def ball_and_box() -> WorldModel:
    """A ball that rests, and a box beside it; large and slow, so that a browser in software keeps up."""
    world = carom.World(gravity=(0, 0, -2.0))
    world.fix(carom.shapes.HalfSpace(), name="floor")
    world.add(carom.shapes.Sphere(0.5), density=1, position=(-1, 0, 0.5), name="ball")
    world.add(carom.shapes.Box(1, 1, 1), density=1, position=(1, 0, 0.5), name="box")
    world.material(friction=0.5)
    return WorldModel("ball_and_box", "two bodies at rest", world, 0.01, 500)


@pytest.fixture(scope="module")
def played():
    with PlayPage(WorldGround("ball_and_box", ball_and_box), plain=True) as page:
        yield page


@needs_browser
def test_a_scene_plays_and_a_body_is_added_by_a_button(browser, played):
    ground = played.ground
    visit(browser, played.page)
    button(browser, "Play")
    until(lambda: ground.player.now > 0.2)
    button(browser, "Add a body")
    until(lambda: "added 1" in ground.player.footage.bodies and not ground.message)
    until(lambda: len(ground.player.footage.hits) > 0)  # it falls on what is there
    says(browser, "added 1")
    slide(browser, "gravity", ["Home"])
    until(lambda: float(ground.takes[0].scene.gravity[2]) == 0.0)
    button(browser, "Pause")
    until(lambda: not ground.player.playing)
    button(browser, "Restart")
    until(lambda: ground.player.footage.bodies == ("ball", "box") and ground.player.now == 0.0)


@needs_browser
def test_a_body_of_a_world_is_dragged_by_the_mouse(browser):
    with PlayPage(WorldGround("ball_and_box", ball_and_box), plain=True) as page:
        _drag(browser, page)


def _drag(browser: Browser, page: PlayPage) -> None:
    ground = page.ground
    visit(browser, page.page, width=900)  # the panel must not lie over the ball
    browser.wait("Number(document.querySelector('canvas[data-engine]')?.style.opacity || 1) > 0.1")
    ground.player.follow = None
    ground.player.scrub(0.1)  # a way back along the timeline, and a knob: the hand goes on from there
    ground.turn("friction", 0.8)
    assert not ground.message and not ground.player.playing
    x, y = grab(browser, page.page, ground)
    assert ground.hand[0] == 0 and ground.player.playing  # what is taken hold of plays
    until(lambda: ground.player.footage.centre(0, ground.player.now)[2] > 0.7)  # lifted from the floor
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", buttons=0, clickCount=1)
    until(lambda: ground.hand is None)
    until(lambda: ground.player.footage.centre(0, ground.player.now)[2] < 0.51)  # let go, it falls
    assert ground.player.footage.centre(1, ground.player.now)[2] == pytest.approx(0.5, abs=1e-6)  # the other one was not touched


@needs_browser
def test_a_saved_run_of_a_world_is_watched_and_names_are_inert(browser, tmp_path):
    evil = "<img src=x onerror='window.hacked = 1'>"
    model = ball_and_box()
    model.world.bodies[1].name = f"ball{evil}"
    run = model.solve(num_steps=20)
    run.save(tmp_path / "run.zarr")
    with viewing.view_file(tmp_path / "run.zarr", show=False, plain=True) as page:
        visit(browser, page)
        page.player.follow = 0
        page.player.scrub(0.1)
        says(browser, "t = 0.1000")
        browser.wait("document.body.innerText.includes('follow')")
        assert browser.run("window.hacked === undefined && document.querySelectorAll('img[src=x]').length === 0")
        assert page.player.footage.bodies == (f"ball{evil}", "box") and not page.trouble


def test_a_world_in_a_notebook_and_as_it_stands():
    world = ball_and_box().world
    cell = world.view(server=False)._repr_html_()
    assert cell.startswith("<iframe") and "allow-same-origin" not in cell and cell.count("<script") == 0
    with world.view(show=False, server=True) as page:
        assert len(page.player.footage.t) == 1 and page.player.footage.bodies == ("ball", "box")
    with world.play(dt=0.01, show=False) as page:
        assert page.ground.name == "world" and "gravity" in page.sliders


def test_two_in_space_stand_side_by_side_as_one_looks_at_them():
    """Neither is nearer to the eye than the other; along x, the second would stand behind the first."""
    with PlayPage(WorldGround("ball_and_box", ball_and_box), plain=True) as page:
        page.ground.choose(other="half of dt")
        until(lambda: len(page.ground.players) == 2)
        page.page._set_stages()
        left, right = (stage.aside for stage in page.page.stages)
        camera = page.page.server.initial_camera
        ahead = np.asarray(camera.look_at) - np.asarray(camera.position)
        assert abs((right - left) @ ahead) < 1e-9 * np.linalg.norm(ahead)  # rounding of a cross product
        assert np.linalg.norm(right - left) > 2.0 and abs(np.array([1.0, 0, 0]) @ ahead) > 0.1  # control: x is no such direction

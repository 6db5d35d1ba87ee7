"""Where one looks from: what plays stays in sight of those who have not chosen another view, and cameras of others stay theirs."""

import contextlib
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from browser import needs_browser
from live_pages import button, until, visit

import carom
from carom.live.footage import of_solution
from carom.live.outlook import FARTHEST, Outlook, balls, excess, free_width
from carom.live.player import Player

pytest.importorskip("viser", reason="pip install 'carom[live]'")

from carom.live.live_page import LivePage
from carom.live.play_page import PlayPage
from carom.live.world_ground import WorldGround

ORIGIN = np.zeros((1, 3)), np.zeros(1)


def _camera(width: int = 1000) -> SimpleNamespace:
    look = {
        "look_at": np.zeros(3),
        "up_direction": np.array([0.0, 0.0, 1.0]),
        "fov": np.pi / 2,
    }  # as high as far away, to each side
    return SimpleNamespace(position=np.array([0.0, -2.0, 0.0]), image_width=width, image_height=500, **look)


def _client(camera: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(camera=camera, atomic=contextlib.nullcontext)


def _outlook() -> Outlook:
    outlook = Outlook()
    outlook.home = (np.zeros(3), np.array([0.0, -2.0, 0.0]))
    return outlook


def test_what_is_out_of_sight_is_known():
    """2 away, it sees 2 up and down, and 4 to the left; of the 4 to the right the panel takes 350 of 500 pixels."""
    at = lambda *point, r=0.0: excess(_camera(), np.array([point]), np.array([r]))  # noqa: E731
    assert at(0, 0, 1) == pytest.approx(0.5) and at(0, 0, -3) == pytest.approx(1.5)
    assert at(0, 0, 1, r=np.sqrt(0.5)) == pytest.approx(1.0)  # a ball that the edge, which rises by 1 in 1, just touches
    assert (
        at(-3, 0, 0) == pytest.approx(0.75)
        and at(3, 0, 0) == pytest.approx(0.75 / 0.3)
        and at(3, 8, 0) == pytest.approx(0.15 / 0.3)
    )
    assert free_width(400) == 400  # there the panel lies below
    assert excess(_camera(400), np.array([[1.0, 0.0, 0.0]]), np.zeros(1)) == pytest.approx(0.5 * 500 / 400)


def test_a_camera_steps_back_until_all_is_seen_and_no_further():
    outlook, camera = _outlook(), _camera()
    far = np.array([[-9.0, 0.0, 0.0]]), np.zeros(1)
    moved = [outlook.look({1: _client(camera)}, *far) for _ in range(100)]
    assert moved[1] and not moved[-1] and not any(now and not before for before, now in pairwise(moved[1:]))  # then it stands
    assert excess(camera, *far) == pytest.approx(1.0) and np.allclose(camera.position, [0, -4.5, 0]) and not np.any(camera.look_at)
    outlook.look({1: _client(camera)}, *ORIGIN)
    assert np.allclose(camera.position, [0, -4.5, 0])  # it does not come back: nothing should swing to and fro
    for _ in range(100):
        outlook.look({1: _client(camera)}, np.array([[-1e6, 0.0, 0.0]]), np.zeros(1))
    assert 2.0 * FARTHEST <= -camera.position[1] < 2.2 * FARTHEST  # what flies away is let go


@pytest.mark.parametrize("hand", [(0.5, -2.0, 0.0), (0.0, -1.5, 0.0), (0.0, -2.0, 0.3)])
def test_a_camera_that_a_hand_has_moved_stays_there(hand):
    """It is not yet where the page wants it when it first says where it is: that was no hand."""
    outlook, camera = _outlook(), _camera()
    look = lambda: outlook.look({1: _client(camera)}, np.array([[-9.0, 0.0, 0.0]]), np.zeros(1))  # noqa: E731
    camera.position = 5 * camera.position
    look()
    assert camera.position[1] == -10.0
    camera.position = np.array([0.0, -2.0, 0.0])
    outlook.look({1: _client(camera)}, *ORIGIN)
    camera.position = np.array(hand)
    for _ in range(10):
        look()
    assert np.array_equal(camera.position, hand)
    outlook.keep(2, camera)  # control: of somebody else, whom the page has put there
    outlook.look({2: _client(camera)}, np.array([[-9.0, 0.0, 0.0]]), np.zeros(1))
    assert not np.array_equal(camera.position, hand)


def test_what_is_outside_when_it_is_paused_comes_in():
    """A die that rolled towards the camera stayed cut off, wherever the page drew so slowly that it was paused before."""
    with LivePage(Player(of_solution(carom.models.particle().solve(num_steps=20)))) as page:
        until(lambda: page.frames)  # from then on its own clock waits for somebody who looks
        answers = [True, True, False]
        page.outlook = SimpleNamespace(look=lambda *_: answers.pop(0))
        page._keep_in_sight(0.1)
        assert len(answers) == 3  # control: what has not played is looked at as it is
        page.player.playing = True
        page._keep_in_sight(0.1)
        page.player.playing = False
        for _ in range(3):
            page._keep_in_sight(0.1)
        assert not answers  # once more, until all is seen, and then no more


@needs_browser
def test_dice_that_roll_apart_stay_in_the_picture(browser):
    with PlayPage(WorldGround("dice", carom.models.SCENES["dice"]), plain=True) as played:
        ground, page = played.ground, played.page
        visit(browser, page, width=700, height=500)
        client = max(page.server.get_clients().items())[1]
        until(lambda: np.allclose(client.camera.position, page.outlook.home[1], rtol=1e-4))  # single precision
        first = np.linalg.norm(client.camera.position - client.camera.look_at)
        seen = lambda: excess(client.camera, *_shifted(page))  # noqa: E731
        known = ("position", "look_at", "up_direction", "fov", "image_width", "image_height")
        home = SimpleNamespace(**{name: np.copy(getattr(client.camera, name)) for name in known})
        button(browser, "Play")
        until(lambda: excess(home, *_shifted(page)) > 1.2)  # control: from where it first looked one die is out of sight by now
        button(browser, "Pause")
        until(lambda: not ground.player.playing)
        until(lambda: seen() < 1.05)  # it may have been a beat behind
        away = np.linalg.norm(client.camera.position - client.camera.look_at)
        assert away > 1.1 * first, (seen(), away / first)
        assert not page.trouble


def _shifted(page):
    centres, radii = balls(page.player.footage, page.player.now)
    return centres + np.asarray(page.stages[0].frame.position), radii


def test_a_page_that_is_looked_after_seldom_steps_back_as_fast():
    """A ball that rolled away was out of sight for seconds where a processor drew: a step back was as long, and came less often."""
    far, away = (np.array([[-40.0, 0.0, 0.0]]), np.zeros(1)), {}
    for passed, looks in ((1 / 8, 16), (1.0, 2)):
        outlook, camera = _outlook(), _camera()
        outlook.look({1: _client(camera)}, *ORIGIN)
        for _ in range(looks):
            old = np.copy(camera.position)
            outlook.look({1: _client(camera)}, *far, passed)
            camera.position, told = old, camera.position  # what it says comes a moment late
            outlook.look({1: _client(camera)}, *ORIGIN)
            camera.position = told
        away[passed] = -camera.position[1]
    assert away[1.0] == pytest.approx(2 * 1.4**2) and away[1 / 8] == pytest.approx(2 * 1.05**16)  # 3.9 and 4.4: nearly as far
    camera.position = 0.8 * camera.position / 1.4  # control: nearer than it was told a moment ago, and that is a hand
    outlook.look({1: _client(camera)}, *far)
    assert -camera.position[1] == pytest.approx(0.8 * away[1.0] / 1.4)


def test_the_panel_is_as_wide_as_ever_on_screens_with_other_pixels():
    """A camera counts the pixels that are drawn: on a page that drew at half its resolution the panel was taken to be below."""
    point, one = np.array([[2.0, 0.0, 0.0]]), np.zeros(1)
    coarse, fine = _camera(500), _camera(2000)
    coarse.image_height, fine.image_height = 250, 1000
    outlook = _outlook()
    assert excess(coarse, point, one, outlook.width(coarse)) == pytest.approx(0.5)  # control: 500 pixels, all of them free
    outlook.pages = {"other": (800, 700), "this": (1000, 500)}
    for camera in (coarse, fine):
        assert outlook.width(camera) == 1000
        assert excess(camera, point, one, outlook.width(camera)) == pytest.approx(0.5 / 0.3)  # as in the first test

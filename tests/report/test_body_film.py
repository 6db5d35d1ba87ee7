"""Films of bodies: what is drawn is where the bodies are, and a hole in a mesh is closed."""

import numpy as np
import pytest
from PIL import Image

import carom
from carom.drawing import Film, Part
from carom.report.body_film import PAPER, _lids, save_film, still


def _square(x: float) -> np.ndarray:
    return x + np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)])


def _moving_square() -> Film:
    points = np.stack([_square(0.0), _square(3.0)])
    return Film(np.array([0.0, 1.0]), points, (Part(points[0]),), (0, 5))


def _ink(image) -> np.ndarray:
    """Where something is drawn, as fractions of the picture from its lower left corner: the middle."""
    pixels = np.asarray(image.convert("RGB"), int)
    rows, columns = np.nonzero(np.max(np.abs(pixels - PAPER), axis=2) > 60)
    return np.array([columns.mean() / pixels.shape[1], 1 - rows.mean() / pixels.shape[0]])


def test_a_square_is_drawn_where_it_is():
    reel = _moving_square()
    first, last = _ink(still(reel, 0.0)), _ink(still(reel, 1.0))
    # 4 wide with a margin of 8 % on both sides: the middles are at 0.5 and 3.5 of 4.
    np.testing.assert_allclose([first[0], last[0]], [(0.5 + 0.32) / 4.64, (3.5 + 0.32) / 4.64], atol=0.01)  # a pixel or two
    assert last[1] > first[1] + 0.5


def test_a_film_has_as_many_pictures_as_it_should(tmp_path):
    path = save_film(_moving_square(), tmp_path / "square.gif", seconds=1.0, fps=8, width=64)
    with Image.open(path) as film:
        assert film.n_frames == 8 and film.size[0] == 64
    with pytest.raises(carom.InputError, match=r"\*\.gif"):
        save_film(_moving_square(), tmp_path / "square.avi")
    with pytest.raises(carom.InputError, match="seconds"):
        save_film(_moving_square(), tmp_path / "square.gif", seconds=0)


def test_holes_are_closed():
    tetrahedron = np.array([(0, 2, 1), (0, 1, 3), (1, 2, 3), (2, 0, 3)])
    assert len(_lids(tetrahedron)) == 0  # control: there is none
    assert sorted(_lids(tetrahedron[:3])[0]) == [0, 2, 3]


@pytest.mark.parametrize("name", ["newtons_cradle", "arch", "card_house"])
def test_scenes_can_be_filmed(name, tmp_path):
    model = carom.models.SCENES[name]()
    run = model.solve(num_steps=3)
    reel = model.film(run)
    assert np.all(np.isfinite(reel.points)) and reel.starts[-1] == reel.points.shape[1]
    strings = [i for i, part in enumerate(reel.parts) if part.kind == "line" and len(part.points) == 2]
    assert len(strings) == (10 if name == "newtons_cradle" else 0)
    for i in strings:  # a string has a length that does not change
        length = np.linalg.norm(np.diff(reel.track(i), axis=1)[:, 0], axis=1)
        np.testing.assert_allclose(length, 0.12, rtol=1e-6)  # joints are kept at the order of the method: (2π/700)² per period
    assert save_film(reel, tmp_path / "scene.gif", seconds=0.2, view=model.view).stat().st_size > 1000

"""Pictures: every model can be drawn, in the plane and in space, and what is no picture is said to be none."""

import numpy as np
import pytest

import carom
from carom.drawing import disk, dots, film, line, mesh, moving, picture, wall
from carom.report import plot_motion


@pytest.mark.parametrize("name", carom.models.ALL)
def test_every_model_draws_itself(name):
    model = carom.models.ALL[name]()
    assert model.shape is not None
    t, q = np.array([0.0, 0.1]), np.stack([np.asarray(model.q0), np.asarray(model.q0) + 0.01])
    reel = film(model.shape, t, q, model.params)
    assert np.all(np.isfinite(reel.points)) and reel.points.shape[0] == 2
    body = [reel.points[:, reel.starts[i] : reel.starts[i + 1]] for i in moving(reel.parts)]
    assert any(np.any(part[0] != part[1]) for part in body)  # what moves, moves
    for i, part in enumerate(reel.parts):
        assert part.kind != "wall" or part.fixed
        np.testing.assert_array_equal(reel.part(0, i), part.points)


def test_a_star_touches_the_floor_with_its_corners():
    """The outline and the gaps come from different formulas: the lowest point of the one is the smallest of the other."""
    model = carom.models.star()
    for q in ([0.3, 1.2, 0.7], [0.0, 2.0, 4.0]):
        outline = picture(model.shape, np.array(q), 0.0, model.params)[0].points
        gaps = model.system.bind(model.params, 3).contacts.gaps(np.array(q), 0.0)
        assert outline[:, 1].min() == pytest.approx(float(gaps.min()), abs=1e-14)  # sums of a few numbers of order 1


def test_a_woodpecker_pecks_where_its_gaps_say():
    """Beak and sleeve are as far from the pole as in the contacts, which know small angles only."""
    model = carom.models.woodpecker()
    for q in ([0.0, -0.1, -0.28], [0.02, 0.08, 0.1]):
        sleeve, _, bird, *pole = picture(model.shape, np.array(q), 0.0, model.params)
        beak, *rims = np.asarray(model.system.bind(model.params, 3).contacts.gaps(np.array(q), 0.0))
        side = pole[1].points[0, 0]
        assert bird.points[0, 0] - side == pytest.approx(beak, abs=1e-15)  # sums of a few numbers of order 1e-2
        assert sorted(sleeve.points[1:3, 0] - side) == pytest.approx(sorted(rims), abs=1e-15)  # as above
        assert -pole[0].points[0, 0] == side == model.params["pole"]


def test_the_wall_of_the_piston_moves_with_time():
    model = carom.models.piston()
    reel = film(model.shape, np.array([0.0, 0.5]), np.array([[0.5], [0.5]]), model.params)
    assert reel.part(0, 2)[0, 0] == 1.0
    assert reel.part(1, 2)[0, 0] == pytest.approx(1 + 0.05 * np.sin(1.5), abs=1e-14)  # one sine


def test_pictures_in_space(tmp_path):
    def shape(q):
        corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]) + q[:3]
        return [mesh(corners, [[0, 1, 2], [0, 1, 3]]), dots([q[:3]]), line([q[:3], q[:3] + 1]), line([[0, 0, 0], [1, 1, 1]], True)]

    reel = film(shape, np.arange(3.0), np.arange(9.0).reshape(3, 3), None)
    assert reel.dim == 3 and reel.starts == (0, 4, 5, 7, 9) and moving(reel.parts) == [0, 1, 2]

    def lagrangian(v):
        return 0.5 * v @ v

    run = carom.solve(
        carom.System(lagrangian), carom.Variational(carom.Left()), [0.0] * 3, [1.0, 2, 3], dt=0.1, num_steps=5, shape=shape
    )
    figure = plot_motion(run, path=tmp_path / "space.png", frames=3)
    assert (tmp_path / "space.png").read_bytes().startswith(b"\x89PNG") and figure.axes[0].name == "3d"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (lambda q: [], "at least one part"),
        (lambda q: [np.zeros((2, 2)), np.zeros((2, 3))], "all in space"),
        (lambda q: [np.zeros((2, 4))], "must be an array"),
        (lambda q: [np.zeros((2 + int(q[0]), 2))], "other parts at t = 1"),
        (lambda q: [mesh(np.zeros((2, 3)), [[0, 1, 2]])], "names vertex 2"),
        (lambda q: [mesh(np.zeros((3, 2)), [[0, 1, 2]])], "a mesh needs"),
    ],
)
def test_what_is_no_picture_says_so(shape, message):
    with pytest.raises(carom.InputError, match=message):
        film(shape, np.array([0.0, 1.0]), np.array([[0.0], [1.0]]), None)


def test_a_shape_asks_by_name():
    with pytest.raises(TypeError, match="shape asks for 'velocity'"):
        film(lambda q, velocity: [], np.zeros(1), np.zeros((1, 1)), None)
    with pytest.raises(carom.InputError, match="no picture"):
        plot_motion(carom.models.particle().solve(num_steps=2, shape=None))


def test_scenery():
    assert disk(0, 0, 2.0)[0].tolist() == [2.0, 0.0]
    assert moving([wall((0, 0), (1, 0))]) == [0] and moving([wall((0, 0), (1, 0)), dots([[0, 0]])]) == [1]

"""Figures: nothing disappears by thinning, nothing global is touched, and they can be written to files."""

import sys

import numpy as np
import pytest
from PIL import Image

import carom
from carom.report import plot_energy, plot_motion, plot_solution
from carom.report.plots import envelope, largest, plot_card

METHOD = carom.VariationalCollision(carom.Trapezoidal())


@pytest.fixture(scope="module")
def run():
    return carom.models.particle().solve(METHOD, num_steps=20_000)


def _spiky():
    t = np.linspace(0.0, 1.0, 1_000_000)
    y = np.sin(40 * t)
    y[123_457], y[876_543] = 50.0, -60.0
    return t, y


def test_thinning_keeps_every_spike():
    t, y = _spiky()
    thin_t, thin_y = envelope(t, y)
    assert len(thin_y) <= 2 * 1500 + 2
    assert thin_y.max() == 50.0 and thin_y.min() == -60.0
    assert thin_t[np.argmax(thin_y)] == t[123_457]
    assert np.all(np.diff(thin_t) > 0) and thin_t[0] == t[0] and thin_t[-1] == t[-1]
    assert largest(t, y)[1].max() == 50.0
    every = y[:: len(y) // 3000]  # control: plain thinning loses them
    assert every.max() < 2 and every.min() > -2


def test_thinning_leaves_short_series_alone_and_skips_what_is_not_a_number():
    t = np.arange(5.0)
    y = np.array([0.0, np.nan, 2.0, np.inf, 1.0])
    thin_t, thin_y = envelope(t, y)
    assert thin_t.tolist() == [0.0, 2.0, 4.0] and thin_y.tolist() == [0.0, 2.0, 1.0]


def test_a_notebook_shows_it(run):
    """A figure of matplotlib's is shown by notebooks that have loaded pyplot, which this does not."""
    assert run.plot()._repr_png_().startswith(b"\x89PNG")


def test_a_solution_plots_itself(run, tmp_path):
    figure = run.plot(tmp_path / "new" / "run.png")  # the folder is made
    assert (tmp_path / "new" / "run.png").read_bytes().startswith(b"\x89PNG")
    labels = [axis.get_ylabel() for axis in figure.axes]
    assert labels == ["x", "y", "smallest gap", "(E − E₀) / |E₀|"]
    assert figure.axes[-1].get_xlabel() == "time"
    assert f"{len(run.impacts):,} impacts" in figure.axes[0].get_title(loc="left")
    energy = figure.axes[-1].lines[0].get_ydata()
    assert np.max(energy) == np.max(run.energy_error) and np.min(energy) == np.min(run.energy_error)


def test_impacts_are_marked(run):
    few = carom.models.particle().solve(METHOD, num_steps=256)
    axis = plot_solution(few).axes[-1]
    marks = [line.get_xdata()[0] for line in axis.lines[1:]]
    np.testing.assert_allclose(marks, few.impacts.t)
    ticks = plot_solution(run).axes[-1].lines[-1]  # too many for lines: ticks below
    np.testing.assert_allclose(ticks.get_xdata(), run.impacts.t)


def test_energies_of_several_runs_stand_beside_each_other(run, tmp_path):
    other = carom.models.particle(gravity=5.0).solve(METHOD, num_steps=20_000)
    figure = plot_energy({"earth": run, "elsewhere": other}, tmp_path / "energy.svg", title="two runs")
    assert (tmp_path / "energy.svg").read_text().lstrip().startswith("<?xml")
    above, below = figure.axes
    assert below.get_yscale() == "log" and above.get_yscale() == "linear"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["earth", "elsewhere"]
    assert np.max(below.lines[0].get_ydata()) == np.max(np.abs(run.energy_error))
    with pytest.raises(ValueError, match="at least one solution"):
        plot_energy({})


def test_bodies_draw_themselves(run, tmp_path):
    model = carom.models.particle()
    figure = plot_motion(run, model.shape, tmp_path / "motion.png", frames=10, until=5.0)
    assert len(figure.axes[0].lines) == 11  # and the floor, once
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[0.0, 1.0]]


def test_a_wall_is_drawn_where_the_motion_is(tmp_path):
    """The points that name a wall are not looked at: the woodpecker is a few centimetres high, and all of the picture."""
    run = carom.models.woodpecker().solve(num_steps=300)
    figure = plot_motion(run, frames=5)
    low, high = figure.axes[0].get_ylim()
    moved = np.ptp(run.film.points[:, : run.film.starts[3], 1])
    assert moved < high - low < 1.5 * moved
    plot_card(run, tmp_path / "flat.png")
    solid = carom.models.rigid_body().solve(num_steps=100)
    figure = plot_card(solid, tmp_path / "solid.png")
    for name in ("flat", "solid"):
        picture = np.asarray(Image.open(tmp_path / f"{name}.png").convert("L"))
        assert picture.shape == (450, 720)  # 5 to 8: that of a card
        drawn = np.argwhere(picture < 250)
        size = np.ptp(drawn, axis=0) / picture.shape
        assert size.max() > 0.85 and np.all(drawn.min(axis=0) > 2 if name == "solid" else True), name  # large, and not cut off
    assert not figure.axes[0].axison


def test_no_global_figures(run):
    plot_solution(run)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()

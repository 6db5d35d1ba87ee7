"""An ensemble can be looked at and kept."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from conftest import TRAPEZOIDAL

import carom
from carom.methods.status import RESTING


@pytest.fixture(scope="module")
def some():
    system = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [carom.Contact(lambda q: q[1])], space=carom.Euclidean(2, "xy"))
    starts = np.stack([np.zeros(9), np.linspace(0.5, 1.5, 9)], axis=1)
    return carom.ensemble(system, TRAPEZOIDAL, starts, [0.1, 0.0], dt=0.01, num_steps=60, save=10, progress=False, name="<balls>")


def test_it_is_drawn(some, tmp_path):
    figure = some.plot(tmp_path / "deep" / "some.png")
    assert (tmp_path / "deep" / "some.png").read_bytes().startswith(b"\x89PNG")
    assert [axis.get_ylabel() for axis in figure.axes][:3:2] == ["x", "y"] and figure.axes[2].get_xlabel() == "time"


def test_where_only_the_ends_were_kept_they_are_drawn_lane_by_lane(some):
    """Against time they stood on one line."""
    ends = replace(some, t=some.t[:, -1:], q=some.q[:, -1:], p=some.p[:, -1:], energy=some.energy[:, -1:])
    left = ends.plot().axes[2]
    assert np.array_equal(left.lines[0].get_xdata(), np.arange(9)) and left.get_xlabel() == "lane, at t = 0.6"
    assert np.array_equal(left.lines[0].get_ydata(), some.q[:, -1, 1])


def test_it_is_kept(some, tmp_path):
    for name in ("some.zarr", "some.nc"):
        if name.endswith(".nc"):
            pytest.importorskip("h5netcdf")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # zarr has no lasting format for texts of a fixed length
            path = some.save(tmp_path / name)
        with pytest.raises(carom.InputError, match=r"holds an ensemble, not a run: xarray\.open_"):
            carom.load(path)
        data = xr.open_zarr(path, consolidated=False) if name.endswith(".zarr") else xr.open_dataset(path, engine="h5netcdf")
        assert np.array_equal(data["q"].values, some.q) and data.sizes["lane"] == 9
        assert data["coordinate"].values.tolist() == ["x", "y"]
    with pytest.raises(carom.InputError, match=r"saved as \*.zarr or \*.nc"):
        some.save(tmp_path / "some.csv")


def test_a_notebook_shows_it(some):
    assert "&lt;balls&gt;" in some._repr_html_() and "<td>9</td>" in some._repr_html_()


def test_it_reports(some, tmp_path):
    page = some.report(tmp_path / "deep" / "some.html", title="a & b").read_text()
    assert "<h1>a &amp; b</h1>" in page and "&lt;balls&gt;" in page and "data:image/png;base64," in page
    assert "http" not in page.replace("http-equiv", "") and "VariationalCollision" in page  # it needs no network
    assert "that failed" not in page


def test_lanes_that_failed_are_told_in_a_report(some, tmp_path):
    failed = replace(some, codes=np.where(np.arange(9) == 3, RESTING, some.codes), single=True)
    page = failed.report(tmp_path / "some.html").read_text()
    assert "The first 1 of 1 lanes that failed" in page and "lane 3" in page and "MoreauJean" in page


def test_axes_have_units(tmp_path):
    space = carom.Euclidean(2, ("x", "angle"), units=("m", "rad"), time="s")
    system = carom.System(lambda q, v: 0.5 * v @ v - q @ q, space=space)
    run = carom.solve(system, TRAPEZOIDAL, [1.0, 0.5], [0.0, 0.0], dt=0.1, num_steps=5)
    axes = run.plot().axes
    assert [axis.get_ylabel() for axis in axes][:2] == ["x [m]", "angle [rad]"] and axes[-1].get_xlabel() == "time [s]"
    page = run.report(tmp_path / "run.html").read_text()
    assert '"angle [rad]"' in page and '"time": "time [s]"' in page
    run.save(tmp_path / "run.zarr")
    loaded = carom.load(tmp_path / "run.zarr")
    assert loaded.labels == run.labels and loaded.time_label == "time [s]" and loaded.coordinates == ("x", "angle")
    assert run.to_xarray()["time"].attrs["units"] == "s" and run.to_xarray()["unit"].values.tolist() == ["m", "rad"]
    both = carom.Product(carom.SO3(), space)
    assert both.units == ("", "", "", "", "m", "rad") and both.time_unit == "s" and carom.Power(space, 2).units[3] == "rad"
    lanes = carom.ensemble(system, TRAPEZOIDAL, [[1.0, 0.5]], [0.0, 0.0], dt=0.1, num_steps=5, progress=False)
    assert lanes.plot().axes[0].get_ylabel() == "x [m]"
    plain = carom.solve(carom.System(lambda v: 0.5 * v @ v), TRAPEZOIDAL, [1.0], [0.0], dt=0.1, num_steps=2)
    assert plain.labels == ("q0",) and plain.time_label == "time"  # the control
    with pytest.raises(carom.InputError, match="units must be"):
        carom.Euclidean(2, units=("m",))


def test_eight_curves_and_their_legend_do_not_overlap():
    chain = carom.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, space=carom.Euclidean(8, [f"link {i}" for i in range(8)]))
    run = carom.solve(chain, TRAPEZOIDAL, list(range(1, 9)), [0.0] * 8, dt=0.1, num_steps=50)
    figure = run.plot()
    figure.draw_without_rendering()
    axis = figure.axes[0]
    assert axis.get_legend().get_window_extent().x0 >= axis.get_window_extent().x1
    assert axis.get_legend().get_window_extent().x1 <= figure.bbox.x1

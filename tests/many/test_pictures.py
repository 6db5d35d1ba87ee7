"""An ensemble can be looked at and kept."""

import numpy as np
import pytest
import xarray as xr
from conftest import TRAPEZOIDAL

import carom


@pytest.fixture(scope="module")
def some():
    system = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [carom.Contact(lambda q: q[1])], space=carom.Euclidean(2, "xy"))
    starts = np.stack([np.zeros(9), np.linspace(0.5, 1.5, 9)], axis=1)
    return carom.ensemble(system, TRAPEZOIDAL, starts, [0.1, 0.0], dt=0.01, num_steps=60, save=10, progress=False, name="<balls>")


def test_it_is_drawn(some, tmp_path):
    figure = some.plot(tmp_path / "deep" / "some.png")
    assert (tmp_path / "deep" / "some.png").read_bytes().startswith(b"\x89PNG")
    assert [axis.get_ylabel() for axis in figure.axes][:3:2] == ["x", "y"]


def test_it_is_kept(some, tmp_path):
    for name in ("some.zarr", "some.nc"):
        if name.endswith(".nc"):
            pytest.importorskip("h5netcdf")
        path = some.save(tmp_path / name)
        data = xr.open_zarr(path, consolidated=False) if name.endswith(".zarr") else xr.open_dataset(path, engine="h5netcdf")
        assert np.array_equal(data["q"].values, some.q) and data.sizes["lane"] == 9
    with pytest.raises(carom.InputError, match=r"saved as \*.zarr or \*.nc"):
        some.save(tmp_path / "some.csv")


def test_a_notebook_shows_it(some):
    assert "&lt;balls&gt;" in some._repr_html_() and "<td>9</td>" in some._repr_html_()

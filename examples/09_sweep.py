# %% [markdown]
# # A parameter study
# Every combination of wall position and restitution, into one labelled dataset. With `out="study.zarr"` it is written on the way,
# and the same call goes on where it was stopped; more `workers`, or a dask `scheduler`, share the work.

# %%
import carom

if __name__ == "__main__":  # other processes import this file
    grid = {"wall": [0.0, 0.2, 0.4, 0.6], "angle": [-0.5, -1.0, -1.5]}
    method = carom.VariationalCollision(carom.Trapezoidal())
    study = carom.sweep("pendulum", grid, method=method, num_steps=1000, workers=0)
    print(study["impacts"].to_series().unstack("angle"))
    print(study.sel(wall=0.2, angle=-1.0).message.item())
    assert study["impacts"].sel(wall=0.0).min() > study["impacts"].sel(wall=0.6).min() and bool(study["done"].all())

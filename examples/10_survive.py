# %% [markdown]
# # Runs that survive
# A long run writes checkpoints; the same call resumes one that was killed, and ends bit for bit like one that was not. A finished
# run is one store, which opens anywhere.

# %%
import numpy as np

import carom

pendulum = carom.models.pendulum(wall=0.3)
method = carom.VariationalCollision(carom.Trapezoidal())
run = pendulum.solve(method, num_steps=5000, checkpoint="pendulum.zarr", every=1000)
again = pendulum.solve(method, num_steps=5000, checkpoint="pendulum.zarr", every=1000)  # finished: nothing is computed
np.testing.assert_array_equal(again.q, run.q)

# %%
data = run.to_xarray()
print(data)
loaded = carom.load("pendulum.zarr")
print(loaded, "energy kept to", f"{np.abs(loaded.energy_error).max():.1e}")
loaded.report("pendulum.html")
loaded.animate("pendulum.gif", stop=1.0, fps=10, width=3)

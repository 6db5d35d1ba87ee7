# %% [markdown]
# # A star on a floor
# A star tumbles on a floor, chaotically. At each impact a rule of order 2 changes the energy a little, by a random amount; the
# composition of order 4 does not.

# %%
import numpy as np

import carom

star = carom.models.star()
rules = {"order 2": carom.Trapezoidal(), "order 4": carom.Composition(carom.Trapezoidal(), 4)}
runs = {name: star.solve(carom.VariationalCollision(rule), num_steps=20_000, max_impacts=80) for name, rule in rules.items()}
for name, run in runs.items():
    print(f"{name}: {len(run.impacts)} impacts, energy kept to {np.abs(run.energy_error).max():.1e}")

# %% [markdown]
# `carom.report.plot_energy` draws them over each other; `plot_motion` draws the star itself.

# %%
figure = carom.report.plot_energy(runs)
picture = carom.report.plot_motion(runs["order 4"], frames=60, until=runs["order 4"].impacts.t[5])
assert np.abs(runs["order 2"].energy_error).max() > 1e4 * np.abs(runs["order 4"].energy_error).max()

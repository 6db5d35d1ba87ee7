# %% [markdown]
# # Elastic bars and a beam
# Two equal bars meet, stay together while a wave runs to the far ends and back, and leave with each other's speed: the exact
# solution of the wave equation. Bars are the same engine with lumped masses.

# %%
import numpy as np

import carom

model = carom.models.bars(elements=(40, 40))
run = model.solve(carom.VariationalCollision(carom.Trapezoidal()), num_steps=round(22 / model.dt))
contact = np.flatnonzero(carom.models.contact_force(run) > 0)
first, last = run.t[contact[0]], run.t[contact[-1]]
print(f"in contact from {first:.2f} to {last:.2f}; exactly from 0.50 to 20.50: twice the length over the speed of sound")
print(f"energy, largest change: {np.abs(run.energy_error).max():.1e}")
half = run.v.shape[1] // 2
for name, v in (("before", run.v[0]), ("after", run.v[-1])):
    print(f"mean velocities {name}: {v[:half].mean():+.3f}, {v[half:].mean():+.3f}")
assert abs(first - 0.5) < 0.2 and abs(last - 20.5) < 0.6 and np.abs(run.energy_error).max() < 0.05

# %% [markdown]
# A geometrically exact beam lives on rigid motions, node by node: it strikes a plane, and what the plane cannot change is kept.

# %%
beam = carom.models.beam(elements=5)
run = beam.solve(carom.VariationalCollision(carom.Trapezoidal()), num_steps=300)
kept = carom.models.momentum_maps(run)[:, [0, 1, 5]]  # p_x, p_y, J_z
print(f"the beam: {len(run.impacts)} contacts of its nodes, energy to {np.abs(run.energy_error).max():.1e}")
print(f"p_x, p_y and J_z change by {np.ptp(kept, axis=0).max():.1e}")
assert len(run.impacts) > 0 and np.ptp(kept, axis=0).max() < 1e-12 and np.abs(run.energy_error).max() < 1e-3

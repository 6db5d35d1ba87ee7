# %% [markdown]
# # A bouncing ball
# A system is a Lagrangian and its contacts, both plain functions. A thousand impacts later, the energy is what it was.

# %%
import numpy as np

import carom


def lagrangian(q, v, params):  # kinetic minus potential energy
    return 0.5 * params["mass"] * v @ v - params["mass"] * params["gravity"] * q[0]


def floor(q):  # a gap: positive while apart
    return q[0]


system = carom.System(lagrangian, contacts=[carom.Contact(floor)])
params = {"mass": 1.0, "gravity": 9.81}
run = carom.solve(system, carom.VariationalCollision(), [1.0], [0.0], dt=0.01, num_steps=90_000, params=params)
print(run)
print(run.impacts)

# %% [markdown]
# A ball dropped from height h comes back every 2√(2h/g), for ever.

# %%
period = np.diff(run.impacts.t)
exact = 2 * np.sqrt(2 / 9.81)
print(f"from impact to impact: {period.min():.12f} … {period.max():.12f}, exact {exact:.12f}")
print(f"energy, largest change: {np.abs(run.energy_error).max():.1e}")
assert np.abs(period - exact).max() < 1e-9 and np.abs(run.energy_error).max() < 1e-12

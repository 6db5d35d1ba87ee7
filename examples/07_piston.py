# %% [markdown]
# # A wall that moves
# A ball between a fixed wall and one that comes towards it gains twice the wall's speed at each hit: this is how a gas warms when
# it is compressed. Gaps may depend on time, by asking for `t`.

# %%
import numpy as np

import carom

piston = carom.models.piston(speed=-0.05, amplitude=0.0)
run = piston.solve(carom.VariationalCollision(carom.Trapezoidal()), dt=0.01, num_steps=1500)
hits = run.impacts.contact == run.impacts.names.index("piston")
speed = np.abs(run.impacts.p_after[hits, 0])
exact = [piston.exact["speed_after"](k, 1.0, 0.05) for k in range(1, hits.sum() + 1)]
print(f"{hits.sum()} hits: speeds {np.round(speed[:4], 6)} … {speed[-1]:.6f}, exactly {exact[-1]:.6f}")
np.testing.assert_allclose(speed, exact, rtol=1e-12)

# %% [markdown]
# Speed times width is an adiabatic invariant: it hardly changes while both do.

# %%
width = 1.0 - 0.05 * run.t
invariant = np.abs(run.v[:, 0]) * width
print(f"width {width[0]:.2f} → {width[-1]:.2f}, speed × width {invariant[0]:.2f} → {invariant[-1]:.2f}")
assert width[-1] < 0.3 and 0.9 < invariant[-1] / invariant[0] < 1.1

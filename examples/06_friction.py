# %% [markdown]
# # Friction and rest
# A block slides down a slope and stops. Contact that lasts needs another kind of method: `MoreauJean` takes all contacts and all
# impulses of a step at once, so rest, sliding and impacts that accumulate are nothing special to it.

# %%
import numpy as np

import carom
from carom.models.blocks import stopping_distance

block = carom.models.block(slope=0.2, friction=0.5, speed=2.0)
run = block.solve(carom.MoreauJean(), dt=0.002, num_steps=1000)
start = run.q[0]
distance = np.hypot(*(run.q[-1] - start)[:2])
exact = stopping_distance(2.0, 0.2, 0.5)
print(f"it slides {distance:.4f} and stays; exactly {exact:.4f}")
print(f"its speed at the end: {np.abs(run.v[-1]).max():.1e}")
assert abs(distance - exact) < 0.02 and np.abs(run.v[-1]).max() < 1e-9

# %% [markdown]
# # Newton's cradle
# When contacts close at the same instant, mechanics alone does not say what happens. Two laws are built in; both keep energy and
# momentum, and neither depends on the order in which contacts are listed.

# %%
import numpy as np

import carom

cradle = carom.models.cradle(n=4)
for law in ("reflections", "impulse"):
    method = carom.VariationalCollision(carom.Trapezoidal(), simultaneous=law)
    run = cradle.solve(method)
    print(f"{law:>12}: velocities {np.round(run.v[0], 3)} → {np.round(run.v[-1], 3)}")
    assert abs(run.p[-1].sum() - run.p[0].sum()) < 1e-14 and abs(run.energy_error[-1]) < 1e-14
    np.testing.assert_allclose(run.v[-1], cradle.exact["outcome"](4, law), atol=1e-13)

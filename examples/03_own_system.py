# %% [markdown]
# # A system of your own
# A pendulum hangs from a cart that rolls between two buffers. The mass matrix depends on the configuration; you write energies and
# gaps, and everything else is derived. `shape` says how the system looks.

# %%
import jax.numpy as jnp
import numpy as np

import carom
from carom.drawing import disk, wall


def lagrangian(q, v, params):
    m, cart, length = params["mass"], params["cart"], params["length"]
    bob = v[0] ** 2 + 2 * length * jnp.cos(q[1]) * v[0] * v[1] + (length * v[1]) ** 2
    return 0.5 * cart * v[0] ** 2 + 0.5 * m * bob + m * params["gravity"] * length * jnp.cos(q[1])


def buffers(q, params):  # two contacts with one law
    return jnp.stack([q[0] + params["track"], params["track"] - q[0]])


def shape(q, params):
    bob = q[0] + params["length"] * np.sin(q[1]), -params["length"] * np.cos(q[1])
    cart = np.array([[-0.2, 0], [0.2, 0], [0.2, 0.15], [-0.2, 0.15], [-0.2, 0]]) + np.array([q[0], 0])
    sides = [wall((x, 0), (x, 1)) for x in (-params["track"] - 0.2, params["track"] + 0.2)]
    return [cart, np.array([[q[0], 0.0], bob]), disk(*bob, 0.06), *sides]


system = carom.System(lagrangian, [carom.Contact(buffers, name="buffer")], space=carom.Euclidean(2, ("x", "angle")))
params = {"mass": 1.0, "cart": 2.0, "length": 1.0, "gravity": 9.81, "track": 0.5}
method = carom.VariationalCollision(carom.Trapezoidal())
run = carom.solve(system, method, [0.0, 2.0], [0.3, 0.0], dt=0.005, num_steps=4000, params=params, shape=shape, name="cart")
print(run, run.impacts, sep="\n")

# %%
run.report("cart.html")  # one file to play, scrub and zoom
assert len(run.impacts) > 5 and np.abs(run.energy_error).max() < 1e-3 and run.smallest_gap.min() > -1e-12

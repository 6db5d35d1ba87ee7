# %% [markdown]
# # Through the impact: derivatives
# How fast must a ball be thrown down so that, after its bounces, it is at a given height at a given time? `carom.rollout` is the
# inside of `solve` as a pure function; its derivative goes through the impacts, and Newton's method finds the speed.

# %%
import jax
import jax.numpy as jnp

import carom

ball = carom.models.particle()
method = carom.VariationalCollision(carom.Trapezoidal())


def height(speed):
    v0 = jnp.stack([jnp.zeros(()), -speed])
    run = carom.rollout(ball.system, method, [0.0, 1.0], v0, dt=0.01, num_steps=100, params=ball.params, max_impacts=8)
    return run.q[-1, 1]


value_and_slope = jax.jit(jax.value_and_grad(height))
target, speed = 0.7, jnp.asarray(1.0)
for _ in range(6):
    value, slope = value_and_slope(speed)
    print(f"thrown at {speed:.6f}: at height {value:.9f}, slope {slope:+.4f}")
    speed = speed - (value - target) / slope
assert abs(height(speed) - target) < 1e-12

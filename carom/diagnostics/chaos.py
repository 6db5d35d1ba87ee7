"""How fast neighbours part: Lyapunov exponents, through impacts.

A perturbation δx of the state x = (q, p) goes along with the exact derivative of the discrete flow, impacts included (that of an
impact time is in it, so nothing jumps). A frame of perturbations is carried over `every` steps and made orthogonal again,

    Φ'(x_k) Q_k = Q_{k+1} R_{k+1},        λ_i = Σ_k log (R_k)_ii / T.                                              (1)
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.calls import public, public_methods
from carom.diagnostics.begin import begin
from carom.errors import InputError
from carom.methods.method import State
from carom.methods.replay import run
from carom.results.impacts import counted
from carom.results.views import view
from carom.running.options import whole
from carom.system.system import System

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


@public_methods
@dataclass(frozen=True)
class Exponents:
    """Lyapunov exponents per unit of time, largest first; `so_far` shows how they settled, [blocks, exponents] at the times t.

    `impacts` counts those of each contact in each block, [blocks, contacts]: a billiard has its exponent often from one
    collision to the next, which is values * duration / impacts of the contacts that count.
    """

    values: np.ndarray
    t: np.ndarray
    so_far: np.ndarray
    impacts: np.ndarray
    q: np.ndarray  # the state at the end
    p: np.ndarray

    def __repr__(self) -> str:
        values, hits = ", ".join(f"{x:.4g}" for x in self.values), int(self.impacts.sum())
        return f"Lyapunov exponents {values} at t = {self.t[-1]:g}, after {counted(hits, 'impact')}"

    def plot(self, path: "str | Path | None" = None) -> "Figure":
        """How the exponents settled; saved if a path is given."""
        return view("plot_exponents")(self, path)


@public
def lyapunov(
    system: System,
    method: Any,
    q0: Any,
    v0: Any,
    *,
    dt: float,
    num_steps: int,
    params: Any = None,
    t0: float = 0.0,
    exponents: int | None = None,
    every: int = 10,
    max_impacts: int = 16,
) -> Exponents:
    """The largest Lyapunov exponents of a motion (by default all of them).

    Perturbations are made orthogonal after `every` steps, in which at most `max_impacts` impacts may happen.
    """
    at = begin("Lyapunov exponents", system, method, q0, v0, dt, num_steps, params, t0, max_impacts)
    n, rows, t_start = at.problem.q0.size, at.rows, float(at.problem.t0)
    count = 2 * n if exponents is None else whole(exponents, "exponents", most=2 * n)
    length = min(whole(every, "every"), at.num_steps)
    frame = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (2 * n, count)))[0]
    blocks = at.num_steps // length
    x, logs, hits, status = _carried(method, *at.fixed, at.x, frame, at.problem.t0, at.dt, blocks, length, rows)
    logs, status = np.asarray(logs), np.asarray(status)
    if np.any(status != 0):
        first = int(np.argmax(status != 0))
        raise InputError(
            f"the run failed between steps {first * length} and {(first + 1) * length} (or had more than {rows} impacts there): "
            "solve says why; a smaller `every` or a larger `max_impacts` may help"
        )
    t = float(at.dt) * length * np.arange(1, blocks + 1)
    so_far = np.cumsum(logs, axis=0) / t[:, None]
    x = np.asarray(x)
    return Exponents(so_far[-1], t_start + t, so_far, np.asarray(hits), x[:n], x[n:])


@eqx.filter_jit
def _carried(method, system, params, start, frame, t0, dt, blocks: int, length: int, rows: int):
    n = start.shape[0] // 2

    def block(carry, i):
        x, frame = carry

        def end(x):
            out = run(method, system, params, State(t0 + i * length * dt, x[:n], x[n:]), dt, length, rows)
            pushes = (out.impacts.impulse != 0) & (jnp.arange(rows) < out.num_impacts)[:, None]
            return jnp.concatenate([out.q[-1], out.p[-1]]), (jnp.sum(pushes, axis=0), out.status)

        along = lambda d: jax.jvp(end, (x,), (d,), has_aux=True)  # noqa: E731
        ends, pushed, seen = jax.vmap(along, out_axes=(None, 1, None), in_axes=1)(frame)
        q, r = jnp.linalg.qr(pushed)
        return (ends, q), (jnp.log(jnp.abs(jnp.diagonal(r))), *seen)

    (x, _), of_blocks = jax.lax.scan(block, (start, frame), jnp.arange(blocks))
    return x, *of_blocks

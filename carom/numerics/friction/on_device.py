"""Problems with very many contacts in a few compiled programs, on a GPU (or, slower, on the CPU): first order, then a polish.

(12) goes on as long as it halves the certificate in a hundred iterations. Then proximal points, (16) and (17), take over; where
they do not get there either, (12) goes on from where it was, for longer, and they begin again. Products alone are needed for both.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from carom.errors import InputError
from carom.numerics.friction import device_proximal
from carom.numerics.friction.device_arrays import Counts, Placed, certificate, cone, dot, length_of, place
from carom.numerics.friction.problem import FrictionProblem
from carom.numerics.friction.scaled import scale_problem
from carom.numerics.friction.stages import FrictionSolution

LOOKS = 50  #        iterations between two looks at the certificate
TURN, FASTER = 100, 0.5  # iterations in which (12) makes the certificate so much less, or the polish is tried
LONGER = 4  #        times as many in the next round
POLISH = 4000  #     products of a polish, in the first round
CHUNK = 1000  #      products of one call, between which the host looks at the clock
ROUNDING = 1e-13  #  of Âw: what a step shows of ℓ below this is noise
POWERS = 20  #       products to find ℓ


class Position(NamedTuple):
    """Where the iteration (12) is."""

    x: jax.Array
    rate: jax.Array  #   Âx
    last: jax.Array
    last_rate: jax.Array
    momentum: jax.Array
    bound: jax.Array  #  ℓ
    best: jax.Array
    least: jax.Array
    iteration: jax.Array


@dataclass(frozen=True, eq=False)
class DeviceSolution(FrictionSolution):
    """With `stage` start, gradient or proximal."""

    programs: float  #  seconds of them alone: what is left of `seconds` is the host, transfers, and compilation


class _Work:
    """What is left of iterations and seconds; programs are compiled before the clock starts."""

    def __init__(self, most: int, seconds: float):
        self.most, self.seconds, self.done, self.used = most, seconds, 0, 0.0

    @property
    def over(self) -> bool:
        return self.done >= self.most or self.used >= self.seconds

    def timed(self, call, before: int, after):
        """The result of a call that goes on to at most so many iterations; `after` reads how many it came to."""
        begin = time.perf_counter()
        made = call()
        self.done += int(after(made)) - before  # waits for the device
        self.used += time.perf_counter() - begin
        return made


def solve_on_device(
    problem: FrictionProblem,
    start: np.ndarray | None = None,
    tolerance: float = 1e-8,
    *,
    max_iterations: int = 100_000,
    seconds: float = np.inf,
    device: str | None = None,
    polish: bool = True,
) -> DeviceSolution:
    """From `start` until E ≤ tolerance, or so many iterations (products) or seconds of the programs are over (compilation apart):
    what was found then is the best of what was looked at, with converged = False. `device` is "gpu" or "cpu"; without it JAX
    chooses. `polish=False` is (12) alone. `stage` is what ended it: start, gradient, proximal. E is computed again by the host."""
    begin = time.perf_counter()
    where = choose_device(device)
    scaled = scale_problem(problem, form=False)
    work = _Work(max_iterations, seconds)
    with jax.default_device(where):
        placed, counts, rows = place(scaled)
        x = np.zeros(len(placed.q))
        if start is not None:
            x[rows] = scaled.unknowns(np.asarray(start, float))
        best, stage = _rounds(placed, counts, jnp.asarray(x), 0.5 * tolerance, work, polish)
    r = scaled.impulses(np.asarray(best, float)[rows])
    residual = problem.residual(r)
    known = r, problem.velocities(r), residual, residual <= tolerance, stage, work.done
    return DeviceSolution(*known, time.perf_counter() - begin, work.used)


def _rounds(placed: Placed, counts: Counts, x: jax.Array, tolerance: float, work: _Work, polish: bool) -> tuple[jax.Array, str]:
    position = _advance(placed, _begin(placed, x, counts), tolerance, 0, counts)  # compiles, and does nothing
    best, least, stage = x, float(position.least), "start"
    turns, products = 1, POLISH
    while least > tolerance and not work.over:
        position = _first_order(placed, counts, position, tolerance, work, turns if polish else work.most)
        if float(position.least) < least:
            best, least, stage = position.best, float(position.least), "gradient"
        if polish and least > tolerance and not work.over:
            point = _polish(placed, counts, position.best, tolerance, work, products)
            if float(point.least) < least:
                best, least, stage = point.best, float(point.least), "proximal"
        turns, products = LONGER * turns, 2 * products
    return best, stage


def _first_order(placed: Placed, counts: Counts, at: Position, tolerance: float, work: _Work, turns: int) -> Position:
    """(12) for so many turns at least, and as long as it is fast."""
    turn, least = 0, np.inf
    while least > tolerance and not work.over and (turn < turns or float(at.least) <= FASTER * least):
        turn, least, before = turn + 1, float(at.least), int(at.iteration)
        end = before + min(TURN, work.most - work.done)
        at = work.timed(lambda now=at, end=end: _advance(placed, now, tolerance, end, counts), before, lambda made: made.iteration)
    return at


def _polish(placed: Placed, counts: Counts, x: jax.Array, tolerance: float, work: _Work, products: int) -> device_proximal.Point:
    at = device_proximal.begin(placed, x, counts)
    at = device_proximal.advance(placed, at, tolerance, 0, counts)  # compiles, and does nothing
    most = min(products, work.most - work.done)
    while float(at.least) > tolerance and float(at.weight) <= device_proximal.LARGEST and not work.over:
        before = int(at.products)
        if before >= most:
            break
        end = min(before + CHUNK, most)
        go_on = lambda now=at, end=end: device_proximal.advance(placed, now, tolerance, end, counts)  # noqa: E731
        at = work.timed(go_on, before, lambda made: made.products)
    return at


def choose_device(name: str | None) -> jax.Device:
    """The first device of that kind; refused with a sentence where there is none, or where JAX computes in single precision."""
    if not jax.config.jax_enable_x64:
        raise InputError("contact problems need double precision: jax.config.update('jax_enable_x64', True), which carom does")
    if name is None:
        return jax.devices()[0]
    if not isinstance(name, str) or name not in ("gpu", "cpu"):
        raise InputError(f"device is {name!r}: choose 'gpu' or 'cpu'")
    try:
        return jax.devices(name)[0]
    except RuntimeError as error:
        raise InputError(f"there is no {name} that JAX can use here: leave device out, or choose 'cpu' ({error})") from error


# -- compiled ------------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="counts")
def _begin(placed: Placed, x: jax.Array, counts: Counts) -> Position:
    rate = placed.apply(x)
    least = certificate(placed, x, rate, counts)
    return Position(x, rate, x, rate, jnp.ones(()), _largest_value(placed), x, least, jnp.zeros((), int))


def _largest_value(placed: Placed) -> jax.Array:
    """As `gradient.largest_value`."""
    x = 1.0 + 0.5 * jnp.cos(jnp.arange(len(placed.q)))
    size = lambda x: jnp.sqrt(dot(x, x))  # noqa: E731
    product = lambda _, x: placed.apply(x / jnp.where(size(x) > 0, size(x), 1.0))  # noqa: E731
    found = size(jax.lax.fori_loop(0, POWERS, product, x))
    return jnp.where(found > 0, 1.1 * found, 1.0)


@partial(jax.jit, static_argnames="counts")
def _advance(placed: Placed, position: Position, tolerance, end, counts: Counts) -> Position:
    """(12) until the certificate is below the tolerance, or so many iterations are done."""

    def look(at: Position) -> Position:
        at = jax.lax.fori_loop(0, LOOKS, lambda _, inner: _iterate(placed, inner, counts), at)
        residual = certificate(placed, at.x, at.rate, counts)
        better = residual < at.least
        return at._replace(best=jnp.where(better, at.x, at.best), least=jnp.where(better, residual, at.least))

    return jax.lax.while_loop(lambda at: (at.least > tolerance) & (at.iteration < end), look, position)


def _iterate(placed: Placed, at: Position, counts: Counts) -> Position:
    following = 0.5 * (1 + jnp.sqrt(1 + 4 * at.momentum**2))
    ahead = (at.momentum - 1) / following
    w, rate = at.x + ahead * (at.x - at.last), at.rate + ahead * (at.rate - at.last_rate)
    new = _projected(w, rate + placed.q, at.bound, counts)
    new_rate = placed.apply(new)
    move, moved = new - w, new_rate - rate
    square = dot(move, move)
    steep = dot(move, moved) > 1.01 * at.bound * square + ROUNDING * jnp.sqrt(square * dot(new_rate, new_rate))
    restart = dot(move, new - at.x) < 0
    keep = lambda old, new: jnp.where(steep, old, new)  # noqa: E731
    return at._replace(
        x=keep(at.x, new),
        rate=keep(at.rate, new_rate),
        last=keep(at.last, at.x),
        last_rate=keep(at.last_rate, at.rate),
        momentum=keep(at.momentum, jnp.where(restart, 1.0, following)),
        bound=jnp.where(steep, 2 * at.bound, at.bound),
        iteration=at.iteration + 1,
    )


def _projected(w: jax.Array, z: jax.Array, bound: jax.Array, counts: Counts) -> jax.Array:
    """P_L(w − y / ℓ)."""
    rough, smooth, free = counts.split(w - z / bound)
    height = rough[:, 0] - length_of(counts.split(z)[0][:, 1:]) / bound
    return jnp.concatenate([cone(height, rough[:, 1:], 1.0).ravel(), jnp.maximum(smooth, 0.0), free])

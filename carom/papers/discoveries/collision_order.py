"""Does the order of L_d survive impacts with curved boundaries, and where does it stop? The conjecture of [fetecau2003, §4.3, §6].

A particle on two springs, ω = (1, 1.3), inside a circle: the motion between impacts is known in closed form, so that the exact one
needs only a scalar root and a reflection at each impact, and is found without carom (`graph_distance.bounce`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from carom.contact.contact import Contact
from carom.methods.variational.collision import VariationalCollision
from carom.methods.variational.rules import Composition, Trapezoidal
from carom.papers.discoveries.graph_distance import bounce, distance
from carom.papers.exhibit import Band, Row, axes, legend_below, state
from carom.running.solve import solve
from carom.system.system import System

OMEGA, CENTRE = np.array([1.0, 1.3]), np.array([0.15, -0.1])
START, SPEED = np.array([0.3, -0.2]), np.array([1.1, 0.7])
RADIUS, DURATION = 1.0, 6.0
ROUNDING = 3e-13  # errors of this size have no order: impacts magnify the rounding of some hundred steps


def _springs(q, v):
    return 0.5 * jnp.sum(v**2) - 0.5 * jnp.sum((OMEGA * q) ** 2)


def _circle(q, params):
    """The particle is inside (side 1) or outside (side −1) of a circle."""
    return params["side"] * (params["radius"] - jnp.sqrt(jnp.sum((q - CENTRE) ** 2)))


SYSTEM = System(_springs, [Contact(_circle, name="circle")])


def flow(q: np.ndarray, v: np.ndarray, t: Any) -> tuple[np.ndarray, np.ndarray]:
    c, s = np.cos(OMEGA * t), np.sin(OMEGA * t)
    return c * q + s * v / OMEGA, -OMEGA * s * q + c * v


def gap(q: np.ndarray, radius: float = RADIUS) -> float:
    return radius - float(np.linalg.norm(q - CENTRE))


def _normal(q: np.ndarray) -> np.ndarray:
    return CENTRE - q


def method_of(order: int) -> VariationalCollision:
    rule = Trapezoidal() if order == 2 else Composition(Trapezoidal(), order)  # pyright: ignore[reportCallIssue]
    return VariationalCollision(rule)  # pyright: ignore[reportCallIssue]


def _run(method: Any, steps: int, dt: float, radius: float = RADIUS, side: float = 1.0, speed: Any = SPEED) -> Any:
    return solve(SYSTEM, method, START, speed, dt=dt, num_steps=steps, params={"radius": radius, "side": side})


def fitted(sizes: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """The slope in a double logarithm with its standard error: how much it owes to where the impacts fall in their steps."""
    good = errors > ROUNDING
    x, y = np.log(sizes[good]), np.log(errors[good])
    if len(x) < 3:
        return np.nan, np.nan
    line = np.polyfit(x, y, 1)
    rest = y - np.polyval(line, x)
    return float(line[0]), float(np.sqrt(np.sum(rest**2) / (len(x) - 2) / np.sum((x - x.mean()) ** 2)))


def step_counts(order: int, many: int) -> np.ndarray:
    """Numbers of steps for which the error lies between 1e-2 and rounding."""
    low, high = {2: (60, 960), 4: (60, 600), 6: (60, 300), 8: (24, 48)}[order]
    return np.unique(np.geomspace(low, high, many).astype(int))


def order_row(order: int, sizes: np.ndarray, errors: np.ndarray, impacts: int) -> Row:
    slope, spread = fitted(sizes, errors)
    return state(
        f"order {order} survives {impacts} impacts with the circle, in the distance of graphs",
        f"slope {slope:.2f} ± {spread:.2f}, {np.sum(errors > ROUNDING)} steps from {sizes[0]:.2g} to {sizes[-1]:.2g}, errors "
        f"{errors[0]:.0e} to {errors[-1]:.0e}",
        Band(order - 0.5, order + 0.5, "this order and neither of its neighbours"),
        slope,
    )


def pointwise_row(method: Any, counts: np.ndarray, hits: Any) -> Row:
    """Steps that put a point of the grid between the first impact of the method and the exact one."""
    both = []
    for count in counts:
        dt = hits[0].t / count
        found = _run(method, int(count) + 1, dt).impacts.t[0]
        dt = 0.5 * (hits[0].t + found) / count  # halfway: one has hit at this point, and the other has not
        run = _run(method, int(DURATION / dt), dt)
        both.append(distance(run, flow, [hit for hit in hits if hit.t < run.t[-1]]))
    sizes = hits[0].t / counts
    naive, graph = (fitted(sizes, np.array([getattr(d, what) for d in both]))[0] for what in ("pointwise", "graph"))
    jump = float(np.max(np.abs(hits[0].after - hits[0].before)))
    return state(
        "at the points of the grid, whatever happened there, there is no order (rule of order 2, a point close to an impact)",
        f"errors {min(d.pointwise for d in both):.2f} to {max(d.pointwise for d in both):.2f}, the jump is {jump:.2f}: slope "
        f"{naive:.2f}; in the distance of graphs {graph:.2f}",
        Band(-0.25, 0.25, "slope 0: a quarter of the way to order 1"),
        naive,
    )


@dataclass(frozen=True)
class Graze:
    """A circle that the motion without it touches: from inside (side 1) or outside (−1), near a time. Which side of it a method
    flies on depends on the signs of its errors; these are hit."""

    speed: np.ndarray
    side: float
    near: float

    def touching(self) -> tuple[float, float]:
        """The time and the radius."""

        def aim(s: float) -> float:
            return self.side * gap(flow(START, self.speed, s)[0], 0.0)

        best = minimize_scalar(aim, bracket=(self.near - 0.05, self.near, self.near + 0.05), tol=1e-15)
        return float(best.x), -self.side * float(best.fun)


GRAZES = {2: Graze(SPEED, 1.0, 1.37), 4: Graze(np.array([0.9, -0.9]), -1.0, 21.47)}
PASSED = (4, GRAZES[2])  # the method of order 4 stays inside of the circle that the one of order 2 hits


def grazing(order: int, graze: Graze, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, errors at the end, and whether there was an impact: the circle is touched without one."""
    method, (time, radius) = method_of(order), graze.touching()
    duration, errors, struck = time + 0.7, [], []
    for count in counts:
        run = _run(method, int(count), duration / count, radius, graze.side, graze.speed)
        q, v = flow(START, graze.speed, duration)
        errors.append(float(max(np.max(np.abs(run.q[-1] - q)), np.max(np.abs(run.p[-1] - v)))))
        struck.append(len(run.impacts) > 0)
    return duration / counts, np.array(errors), np.array(struck)


def near_grazing(depths: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Errors of order 4 where the free motion would pass the circle by so much: geometric means over some numbers of steps, since
    the error of one depends on where in a step the impact falls."""
    time, radius = GRAZES[2].touching()
    duration, method, found = time + 0.7, method_of(4), []
    for depth in depths:
        hits = bounce(flow, lambda q, r=radius - depth: gap(q, r), _normal, START, SPEED, duration)
        errors = [distance(_run(method, int(n), duration / n, radius - depth), flow, hits).graph for n in counts]
        found.append(np.exp(np.mean(np.log(errors))))
    return np.array(found)


def _counts(order: int, graze: Graze, full: bool) -> np.ndarray:
    per_time = np.geomspace(10, 200 if order == 2 else 50, 16 if full else 6)
    return np.unique((per_time * (graze.near + 0.7)).astype(int))


def grazing_rows(full: bool) -> tuple[list[Row], dict[tuple[int, str], Any], tuple[np.ndarray, np.ndarray]]:
    rows, found = [], {}
    for order, graze in GRAZES.items():
        sizes, errors, struck = grazing(order, graze, _counts(order, graze, full))
        found[order, "hits"] = sizes[struck], errors[struck]
        slope = fitted(sizes[struck], errors[struck])[0]
        rows.append(
            state(
                f"a circle grazed from {'inside' if graze.side > 0 else 'outside'} leaves half of it: order {order // 2} where the "
                f"method of order {order} hits",
                f"slope {slope:.2f}; {struck.sum()} of {len(struck)} runs hit",
                Band(order / 2 - 0.3, order / 2 + 0.3, "a depth δ ∼ h^p is met at the speed √δ: p/2, and not p"),
                slope,
            )
        )
    order, graze = PASSED
    sizes, errors, struck = grazing(order, graze, _counts(order, graze, full))
    found[order, "passes"] = sizes[~struck], errors[~struck]
    slope = fitted(sizes[~struck], errors[~struck])[0]
    rows.append(
        state(
            f"and all of it, {order}, where the method of order {order} passes",
            f"slope {slope:.2f}; {np.sum(~struck)} of {len(struck)} runs pass the circle that order 2 hits",
            Band(order - 0.3, order + 0.3, "p, since nothing happens"),
            slope,
        )
    )
    depths, counts = np.geomspace(1e-2, 1e-6, 9 if full else 5), np.arange(92, 108)
    errors = near_grazing(depths, counts)
    slope, spread = fitted(depths, errors)
    rows.append(
        state(
            "towards grazing the constant grows as depth^(−½), the order being what it was (order 4, some 100 steps)",
            f"error ∼ depth^({slope:.2f} ± {spread:.2f}), depths {depths[0]:.0e} to {depths[-1]:.0e}, {len(counts)} steps each",
            Band(-0.6, -0.4, "an impact's time has the derivative 1/speed, and the speed is √depth; neither −⅓ nor −⅔"),
            slope,
        )
    )
    return rows, found, (depths, errors)


def collision_order(full: bool, draw: Path | None) -> list[Row]:
    """The chapter."""
    hits = bounce(flow, gap, _normal, START, SPEED, DURATION)
    rows, lines = [], {}
    for order in (2, 4, 6, 8):
        counts, method = step_counts(order, 16 if full else 8), method_of(order)
        errors = (
            np.array([distance(_run(method, int(n), DURATION / n), flow, hits).graph for n in counts])
            if full or order < 6
            else None
        )
        if errors is not None:
            lines[order] = DURATION / counts, errors
            rows.append(order_row(order, *lines[order], len(hits)))
    rows.append(pointwise_row(method_of(2), np.array([10, 14, 20, 28, 40, 57, 80]), hits))
    more, grazed, near = grazing_rows(full)
    if draw:
        _draw(draw, lines, grazed, near)
    return [*rows, *more]


def _draw(draw: Path, lines: dict[int, Any], grazed: dict[tuple[int, str], Any], near: tuple[np.ndarray, np.ndarray]) -> None:
    figure, ((left, middle, right),) = axes(1, 3, size=(4.4, 4.0))
    for order, (sizes, errors) in lines.items():
        left.loglog(sizes, errors, "o-", ms=3, label=f"order {order}: {fitted(sizes, errors)[0]:.2f}")
    left.set(xlabel="h", ylabel="distance of graphs", title="impacts with a circle")
    legend_below(left)
    for (order, words), (sizes, errors) in grazed.items():
        middle.loglog(sizes, errors, "o" if words == "hits" else "x", ms=4, label=f"order {order}, {words}")
    middle.set(xlabel="h", ylabel="error at the end", title="a circle that is grazed")
    legend_below(middle)
    right.loglog(*near, "o-", ms=3)
    right.set(xlabel="depth", ylabel="distance of graphs", title="towards grazing, order 4")
    figure.savefig(draw, dpi=110)

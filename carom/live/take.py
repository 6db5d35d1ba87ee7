"""One run that is computed while it is watched: stretch after stretch by `solve`, from where the last one ended.

Methods that look at velocities alone leave bodies in contact a little inside each other (a woodpecker's sleeve by 10⁻⁶ of a
metre), where `solve` starts no run. Such a run is continued by `extend`, as if it had been asked for in one piece; where a hand or
a knob has changed something, it starts from the closest place outside.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from carom.drawing import film, picture
from carom.errors import InsideObstacle
from carom.live.footage import Footage, curves_of, pieces
from carom.models.model import Model
from carom.results.solution import Solution
from carom.running.solve import solve

ROWS = 64  #        states of a stretch that are drawn: always as many, so that nothing is compiled twice
STRETCH = 0.5  #    seconds of motion computed at once, at full speed
HELD = 1 / 30  #    the same while a hand pulls: its spring pulls anew at every stretch
HAND = 9.0  #       the frequency of the spring in the hand, in 1/s; it is damped critically


@dataclass
class State:
    t: float
    q: np.ndarray
    p: np.ndarray


class Take:
    """A model with a method, computed up to some time."""

    def __init__(self, model: Model, method: Any, dt: float, start: State | None = None):
        self.model, self.method, self.dt = model, method, dt
        self.runs: list[Solution] = []
        self.footage: Footage | None = None
        self.state = start if start is not None else first_state(model)
        self.failed = False
        self.parts: list[int] = []  # the steps of the last of `runs`: those of `solve`, and those by which it was extended
        self._ended: State | None = None  # where that one ended

    @property
    def end(self) -> float:
        return self.state.t

    def stretch(self, speed: float, held: bool) -> float:
        """How much of the motion is computed at once, for somebody who watches at this speed: slow motion comes in short parts."""
        return min(speed, 1.0) * (HELD if held else STRETCH)

    def grow(self, seconds: float = STRETCH) -> Solution:
        """Compute a stretch more."""
        steps = self._steps(seconds)
        try:
            run = self._begin(self.state, steps)
        except InsideObstacle as refused:
            run = self._go_on(steps) if self.state is self._ended else self._begin(outside(self.state, refused), steps)
        self.state = self._ended = State(float(run.t[-1]), run.q[-1], run.p[-1])
        self.failed = not run.status.ok
        seen = footage_of(run, self.footage)
        self.footage = seen if self.footage is None else self.footage.recent().followed_by(seen)
        self.runs = [old for old in self.runs if old.t[-1] >= self.footage.t[0]]  # what nobody can go back to is forgotten
        return run

    def _begin(self, start: State, steps: int) -> Solution:
        run = solved(self.model, self.method, start, self.dt, steps)
        self.runs.append(run)
        self.parts = [steps]
        return run

    def _go_on(self, steps: int) -> Solution:
        """What the last run is extended by."""
        before = self.runs[-1]
        self.runs[-1] = before.extend(steps, throw=False, progress=False)
        self.parts.append(steps)
        return since(self.runs[-1], before)

    def _steps(self, seconds: float) -> int:
        return int(np.clip(round(seconds / self.dt), 1, 4000))

    def become(self, model: Model) -> None:
        """Go on as another model, with the position and the velocity that there are."""
        self._looks_the_same(model)
        self.state = state_with(model, self.state.t, self.state.q, velocity_of(self.model, self.state))
        self.dt *= model.dt / self.model.dt
        self.model = model

    def back_to(self, now: float) -> None:
        """Forget what was computed after `now`."""
        kept = [run for run in self.runs if run.t[0] < now] or self.runs[:1]
        last = kept[-1]
        row = int(np.clip(np.searchsorted(last.t, now, side="right") - 1, 0, len(last.t) - 1))
        hits = last.impacts
        self.state = State(float(last.t[row]), last.q[row], last.p[row])
        cut = replace(last, t=last.t[: row + 1], q=last.q[: row + 1], p=last.p[: row + 1], steps=row, record=None)
        early = hits.t <= self.state.t
        table = {name: getattr(hits, name)[early] for name in hits.__dataclass_fields__ if name != "names"}
        self.runs = [*kept[:-1], replace(cut, impacts=replace(hits, **table))]
        self.failed = False
        assert self.footage is not None
        self.footage = replace(self.footage.until(self.state.t), ok=True, message="")

    def pull(self, body: int, grab: np.ndarray, target: np.ndarray, speed: float = 1.0) -> None:
        """A hand's spring, from the point `grab` of a body to `target`, acts for a short while: its impulse, all at once. In slow
        motion it is as quick for those who watch, if steps allow it."""
        nearest = nearest_point(self.model, self.state, body, grab)
        seconds = self._steps(self.stretch(speed, True)) * self.dt
        rate = min(HAND / min(speed, 1.0), HAND * HELD / seconds)
        self.state = tugged(self.model, self.state, body, nearest, target, seconds, rate)

    def _looks_the_same(self, model: Model) -> None:
        """Forget the footage if another model has another picture at the same configuration: a size was changed."""
        q, t = self.state.q, self.state.t
        before, after = (picture(m.shape, q, t, m.params) for m in (self.model, model))  # pyright: ignore[reportArgumentType]
        same = len(before) == len(after) and all(
            a.points.shape == b.points.shape and np.allclose(a.points, b.points, rtol=0, atol=1e-12)
            for a, b in zip(before, after, strict=True)
        )
        if not same:
            self.footage = None


def solved(model: Model, method: Any, s: State, dt: float, steps: int) -> Solution:
    """A model from some state on."""
    start: dict[str, Any] = {"p0": s.p, "t0": s.t, "params": model.params}
    looks: dict[str, Any] = {"name": model.name, "shape": model.shape, "throw": False, "progress": False}
    return solve(model.system, method, s.q, dt=dt, num_steps=steps, **start, **looks)


def outside(s: State, refused: InsideObstacle) -> State:
    """A state at the closest place that is inside no obstacle; the refusal where none is known."""
    if refused.nearest is None:
        raise refused
    return replace(s, q=refused.nearest)


def since(whole: Solution, before: Solution) -> Solution:
    """The part of a run that came after another one."""
    first, hits = len(before.t) - 1, whole.impacts
    new = slice(len(before.impacts), None)
    table = {name: getattr(hits, name)[new] for name in hits.__dataclass_fields__ if name != "names"}
    grid = {name: getattr(whole, name)[first:] for name in ("t", "q", "p")}
    return replace(whole, **grid, impacts=replace(hits, **table), record=None)


def first_state(model: Model) -> State:
    """Where a model starts."""
    return state_with(model, 0.0, np.asarray(model.q0, float), np.asarray(model.v0, float))


def state_with(model: Model, t: float, q: np.ndarray, v: np.ndarray) -> State:
    """The state of a model with this motion."""
    bound = model.system.bind(_arrays(model.params), len(v))
    return State(t, q, np.asarray(bound.momentum(jnp.asarray(q), jnp.asarray(v), jnp.asarray(t))))


def velocity_of(model: Model, s: State) -> np.ndarray:
    bound = model.system.bind(_arrays(model.params), len(s.p))
    return np.asarray(bound.velocity(jnp.asarray(s.q), jnp.asarray(s.p), jnp.asarray(s.t)))


def footage_of(run: Solution, like: Footage | None) -> Footage:
    """A stretch at a few of its states and at its impacts."""
    rows = np.unique(np.linspace(0, len(run.t) - 1, ROWS).astype(int))
    always = np.linspace(0, len(run.t) - 1, ROWS).astype(int)
    thin = replace(run, t=run.t[always], q=run.q[always], p=run.p[always], record=None)
    hits = run.impacts
    t, q = np.concatenate([run.t[rows], hits.t]), np.concatenate([run.q[rows], hits.q])
    order = np.argsort(t, kind="stable")
    assert run.shape is not None
    good = order[np.all(np.isfinite(q[order]), axis=1)]
    reel = film(run.shape, t[good], q[good], run.params)
    solids, loose = pieces(reel, like)
    names = tuple(hits.names[c] for c in hits.contact)
    end = {"message": run.status.message, "ok": run.status.ok}
    return Footage(run.name, reel.dim == 2, reel.t, solids, loose, hits.t, names, curves_of(thin), **end)


def nearest_point(model: Model, s: State, body: int, grab: np.ndarray) -> int:
    """The number of the point of a body that is nearest to where a hand has taken hold of it."""
    return int(np.argmin(np.linalg.norm(body_points(model, s.q, s.t, body) - grab, axis=1)))


def tugged(model: Model, s: State, body: int, nearest: int, target: np.ndarray, seconds: float = HELD, rate: float = HAND) -> State:
    """The state after the impulse of a hand's spring, from a point of a body to `target`: what it does in so many seconds."""
    n = len(s.p)
    where = lambda q: body_points(model, q, s.t, body)[nearest]  # noqa: E731
    here, space, step = where(s.q), model.system.space, 1e-6
    at = lambda delta: where(  # noqa: E731
        s.q + delta if space is None else np.asarray(space.retract(jnp.asarray(s.q), jnp.asarray(delta)))
    )
    jacobian = np.zeros((3, n))
    for group in np.array_split(np.arange(n), max(1, round(np.sqrt(n)))):  # of an elastic body most coordinates are other places'
        delta = np.zeros(n)
        delta[group] = step * (1 + 0.1 * np.arange(len(group)))
        if np.array_equal(at(delta), here):
            continue
        for k in group:
            delta = step * (np.arange(n) == k)
            jacobian[:, k] = (at(delta) - at(-delta)) / (2 * step)
    moving, mobility = (np.asarray(x) for x in _answers(model.system, _arrays(model.params), *_arrays((s.q, s.p, s.t, jacobian))))
    wanted = rate**2 * (target - here) - 2 * rate * moving
    force = np.linalg.pinv(mobility, rcond=1e-6) @ wanted
    return replace(s, p=s.p + seconds * jacobian.T @ force)


def body_points(model: Model, q: np.ndarray, t: float, body: int) -> np.ndarray:
    parts = [part for part in picture(model.shape, q, t, model.params) if not part.fixed]  # pyright: ignore[reportArgumentType]
    points = parts[body].points
    if points.shape[1] == 3:
        return points
    return np.stack([points[:, 0], np.zeros(len(points)), points[:, 1]], axis=1)


def _arrays(tree: Any) -> Any:
    """Numbers as arrays: a program would be compiled anew for every value of a plain one."""
    return jax.tree.map(jnp.asarray, tree)


@eqx.filter_jit
def _answers(system: Any, params: Any, q: Any, p: Any, t: Any, jacobian: Any) -> tuple[Any, Any]:
    """The velocity of a point, and how it answers to forces on it: J v and J M⁻¹ Jᵀ."""
    bound = system.bind(params, p.shape[0])
    v = bound.velocity(q, p, t)
    answer = jax.vmap(lambda row: bound.velocity(q, p + row, t) - v)(jacobian)
    return jacobian @ v, jacobian @ answer.T

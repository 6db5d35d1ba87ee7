"""What a hand did to a run in the cell of a notebook, and the run with it: a spring pulls a body along a track, and lets go.

A page sends where the hand was, thirty times a second of watching; the run is computed with it, as often as it is computed.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from carom.bodies.run import Settings, WorldRun
from carom.drawing import picture
from carom.errors import InputError, InsideObstacle
from carom.live.take import HAND, State, body_points, nearest_point, outside, solved, tugged
from carom.live.world_take import WorldTake
from carom.models.model import Model
from carom.models.world_model import WorldModel
from carom.results.solution import Solution
from carom.running.chunked_run import joined
from carom.running.options import number

OFTEN = 30  #    places of a hand in a second of watching
LONGEST = 3600  # such places: two minutes
STEADY = 0.3  #  of a radian: as far as the spring in a hand turns between two of its places


@dataclass(frozen=True)
class Gesture:
    """At `t` a hand took hold of a body at the point `at`; then it was at the points of `track`, and let go."""

    t: float
    body: str  #  by its name, where it has one; otherwise it is the one that is nearest
    at: tuple[float, ...]
    track: tuple[tuple[float, ...], ...]
    speed: float  #  of the motion, for those who watched

    @classmethod
    def of(cls, t: Any, body: Any, at: Any, track: Any, speed: Any) -> "Gesture":
        """What a page said, if it is one."""
        try:
            points = np.array([at, *track], float)
        except (TypeError, ValueError) as error:
            raise InputError(f"a hand is at points, each of two or three numbers: {error}") from error
        if points.ndim != 2 or points.shape[1] not in (2, 3) or not 2 <= len(points) <= LONGEST or not np.all(np.isfinite(points)):
            raise InputError(f"a hand is at up to {LONGEST} points, each of two or three numbers; got an array of {points.shape}")
        speed = number(speed, "speed")
        if not speed > 0:
            raise InputError(f"speed must be positive; got {speed:g}")
        first, *rest = (tuple(row) for row in points.tolist())
        return cls(number(t, "t"), str(body), first, tuple(rest), speed)

    def stretch(self, dt: float) -> tuple[int, float]:
        """Steps between two places of the hand, and the frequency of its spring: 9 per second of watching, if steps allow it."""
        steps = max(1, round(self.speed / OFTEN / dt))
        return steps, min(HAND / self.speed, STEADY / (steps * dt))


def pulled_model(model: Model, method: Any, dt: float, num_steps: int, gestures: tuple[Gesture, ...]) -> Solution:
    """The run of a model with what a hand did on its way."""
    run: Solution = model.solve(method, throw=False, progress=False, dt=dt, num_steps=max(1, round(gestures[0].t / dt)))

    def on(state: State, steps: int) -> None:
        nonlocal run
        steps = min(steps, num_steps - run.num_steps)
        if run.status.ok and steps > 0:
            try:
                rest = solved(model, method, state, dt, steps)
            except InsideObstacle as refused:
                rest = solved(model, method, outside(state, refused), dt, steps)
            hits = replace(rest.impacts, step=rest.impacts.step + run.steps)
            run = joined(run, replace(rest, steps=run.steps + rest.steps, impacts=hits))

    end = lambda: State(float(run.t[-1]), run.q[-1], run.p[-1])  # noqa: E731
    for gesture in gestures:
        on(end(), round(gesture.t / dt) - run.num_steps)
        steps, rate = gesture.stretch(dt)
        body, nearest = _held(model, end(), _upright(gesture.at))
        for target in gesture.track:
            on(tugged(model, end(), body, nearest, _upright(target), steps * dt, rate), steps)
    on(end(), num_steps)
    return run


def _held(model: Model, s: State, at: np.ndarray) -> tuple[int, int]:
    """The body and the point of it that are nearest to where a hand is."""
    count = sum(not part.fixed for part in picture(model.shape, s.q, s.t, model.params))  # pyright: ignore[reportArgumentType]
    found = [(body, nearest_point(model, s, body, at)) for body in range(count)]
    return min(found, key=lambda one: float(np.linalg.norm(body_points(model, s.q, s.t, one[0])[one[1]] - at)))


def pulled_world(
    model: WorldModel, dt: float, num_steps: int, save_every: int, gestures: tuple[Gesture, ...], patience: float
) -> WorldRun:
    """The same of a world; as far as it comes in `patience` seconds."""
    take, clock = WorldTake(model, dt), time.monotonic()
    take.settings = Settings(save_every=save_every)

    def on(until: int) -> None:
        while take.step < min(until, num_steps) and not take.failed and time.monotonic() - clock < patience:
            take.advance(min(until, num_steps, take.step + max(1, num_steps // 40)) - take.step)

    for gesture in gestures:
        on(round(gesture.t / dt))
        body = _free(take, gesture.body)
        steps, _ = gesture.stretch(dt)
        take.pull(body, _upright(gesture.at), _upright(gesture.at), gesture.speed)
        held = take.hand
        assert held is not None
        for target in gesture.track:
            if take.step >= num_steps or take.failed or time.monotonic() - clock > patience:
                break
            take.hand = replace(held, target=(*target, 0.0)[:3])
            take.advance(min(steps, num_steps - take.step))
    take.hand = None
    on(num_steps)
    return take.whole()


def _free(take: WorldTake, name: str) -> int:
    """The number of a body among those that move."""
    scene = take.scene
    if name not in scene.names:
        raise InputError(f"a hand pulled {name!r}, and there is no such body now: Reset forgets what the hand did")
    i = scene.names.index(name)
    if not scene.free[i]:
        raise InputError(f"{name!r} is fixed: a hand cannot pull it")
    return int(np.sum(scene.free[:i]))


def _upright(point: tuple[float, ...]) -> np.ndarray:
    """A point of the plane stands upright in space, as pictures do."""
    return np.array(point) if len(point) == 3 else np.array([point[0], 0.0, point[1]])

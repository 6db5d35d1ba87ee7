"""Where to look: the part of the plane or of space that a film needs."""

from dataclasses import dataclass

import numpy as np

from carom.drawing import Film, moving

ACROSS = 40  # times as long as it is wide: a way that leads to a wall is followed only where nothing would be seen of the bodies


@dataclass(frozen=True)
class View:
    """A box around the motion and its walls; where it is much longer one way, the view better follows the bodies."""

    low: list[float]
    high: list[float]
    reach: float  #    the diagonal
    long: int  #       the direction in which it is longest, in the plane
    follow: bool


def view_of(reel: Film) -> View:
    seen = [reel.track(i).reshape(-1, reel.dim) for i in moving(reel.parts)]
    seen += [part.points for part in reel.parts if part.fixed and part.kind != "wall"]
    body = np.concatenate(seen)
    low, high = body.min(axis=0), body.max(axis=0)
    for a, b in (part.points for part in reel.parts if part.kind == "wall"):
        along = (b - a) / np.linalg.norm(b - a)
        foot = a + along * np.dot((low + high) / 2 - a, along)  # of the perpendicular from the middle of the motion
        low, high = np.minimum(low, foot), np.maximum(high, foot)
    size = high - low
    margin = 0.06 * max(size.max() if reel.dim == 3 else size.min(), 0.02 * size.max(), 1e-9)
    margin = np.maximum(margin, 0.03 * size)  # of a high stack, too: what touches the edge looks cut off
    low, high = low - margin, high + margin
    size = high - low
    long = int(np.argmax(size[:2]))
    if reel.dim == 3:
        return View(low.tolist(), high.tolist(), float(np.linalg.norm(size)), long, False)
    together = np.concatenate([reel.track(i)[:, :, long] for i in moving(reel.parts)], axis=1)
    length = float(np.max(np.ptp(together, axis=1)))  # of all bodies, at one moment
    follow = bool(size[long] > (ACROSS if _stands_across(reel, long) else 3) * max(size[1 - long], length))
    across = max(size[1 - long], 1.5 * length if follow else 0.02 * size[long])
    missing = (across - size[1 - long]) / 2
    low[1 - long], high[1 - long] = low[1 - long] - missing, high[1 - long] + missing
    return View(low.tolist(), high.tolist(), float(np.linalg.norm(size)), long, follow)


def _stands_across(reel: Film, long: int) -> bool:
    """Whether a wall stands across the way, a floor below what falls: it should be seen together with what comes to it."""
    walls = [part.points[1] - part.points[0] for part in reel.parts if part.kind == "wall"]
    return any(abs(along[long]) < 0.5 * np.linalg.norm(along) for along in walls)

"""Limits of sequences."""

from typing import Any

import numpy as np


def accumulation_time(t_impacts: Any) -> float | None:
    """Where a sequence of impact times accumulates, if its intervals shrink geometrically; otherwise None.

    With intervals Δ and their ratio r the sum of those to come is Δr/(1 − r). Exact for a ball on a floor with restitution
    r < 1 in uniform gravity; where r is reached only in the limit, the error is of the order of Δ²/(1 − r)².
    """
    t = np.asarray(t_impacts, float)
    spans = np.diff(t)
    # The shortest flights are as high as the rounding of a gap: they have no ratio to speak of, and hardly matter for the sum.
    useful = np.flatnonzero(spans > 1e-6 * np.max(np.abs(t), initial=0.0))
    if len(useful) < 3:
        return None
    last = useful[-1]
    recent = spans[max(useful[0], last - 4) : last + 1]
    ratios = recent[1:] / np.where(recent[:-1] > 0, recent[:-1], np.nan)
    ratio = float(ratios[-1])
    if not (0 < ratio < 1 and np.all(np.abs(ratios - ratio) < 0.2 * (1 - ratio))):
        return None
    return float(t[last + 1] + spans[last] * ratio / (1 - ratio))

"""Colliding bars, exactly: d'Alembert's waves with unilateral contact.

In each bar v = f + g with f running to the right and g to the left at the speed c = √(E S/M); the normal force is N = Z (g − f)
with the impedance Z = √(M E S) = M c, M the mass per length. At an end the incoming wave is what the other end sent L/c before,
and the outgoing one follows from the state of the contact there:

    free        N = 0:                      g_A = f_A,   f_B = g_B                                              (1)
    closed      common v and N:             v = 2 (Z_A f_A + Z_B g_B)/(Z_A + Z_B),  g_A = v − f_A,  f_B = v − g_B      (2)
    wall        v = 0:                      f = −g                                                           (3)

A contact is closed while its gap is zero and free ends would approach, f_A > g_B, which is N < 0. Bars that start without strain
have waves that are constant between finitely many events: arrivals of jumps, and gaps that close. Time goes from one to the next.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from carom.calls import check_options_of, public
from carom.models.bars import check_counts
from carom.wanted import NotNegatives, Numbers, Positive, Positives, Whole

_SAME = 1e-12  # of the duration, or of the largest speed: what is closer than this is the same, to rounding


@dataclass
class _Wave:
    """A piecewise constant function of the time at which it was sent."""

    t: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def send(self, t: float, value: float) -> None:
        if not self.t or value != self.value[-1]:
            self.t.append(t)
            self.value.append(value)

    def at(self, t: Any) -> Any:
        """The value at t, the limit from the right at a jump."""
        return np.asarray(self.value)[np.searchsorted(self.t, t, side="right") - 1]

    def next_jump(self, t: float) -> float:
        i = bisect_right(self.t, t)
        return self.t[i] if i < len(self.t) else np.inf


@dataclass(frozen=True)
class BarsExact:
    """The exact motion up to `t_end`. Contacts count from the left, the wall (if any) first."""

    t_end: float
    contacts: tuple[tuple[int, float, float], ...]  #  (contact, from, until); until = t_end where it lasts on
    events: np.ndarray  #                              [m]     times at which something changes
    forces: np.ndarray  #                              [m, k]  pressure in each contact from that time on
    lengths: tuple[float, ...]
    celerities: tuple[float, ...]
    masses: tuple[float, ...]  #                       of the bars
    speeds: tuple[float, ...]
    rightward: tuple[_Wave, ...] = field(repr=False)  # f at the left end of each bar, by time of departure
    leftward: tuple[_Wave, ...] = field(repr=False)  #  g at the right end

    def velocity(self, bar: int, s: Any, t: float) -> np.ndarray:
        """v at the material points s ∈ [0, L] of one bar."""
        s, c, length = np.asarray(s, float), self.celerities[bar], self.lengths[bar]
        return self.rightward[bar].at(t - s / c) + self.leftward[bar].at(t - (length - s) / c)

    def mean_velocity(self, bar: int, t: float) -> float:
        """Momentum over mass: what the contacts have pushed until t."""
        wall = self.forces.shape[1] - (len(self.lengths) - 1)
        spans = np.clip(np.append(self.events[1:], self.t_end), None, t) - np.clip(self.events, None, t)
        pushed = spans @ self.forces
        left = pushed[bar - 1 + wall] if bar - 1 + wall >= 0 else 0.0
        right = pushed[bar + wall] if bar + wall < len(pushed) else 0.0
        return float(self.speeds[bar] + (left - right) / self.masses[bar])


@public
def bars_exact(
    lengths: Positives = (10.0, 10.0),
    densities: Positives = (1.0, 1.0),
    moduli: Positives = (1.0, 1.0),
    speeds: Numbers = (0.1, -0.1),
    gaps: NotNegatives = (0.1,),
    section: Positive = 1.0,
    wall: Whole = 0,
    t_end: Positive = 40.0,
    **discretisation: Any,
) -> BarsExact:
    """The exact solution of `carom.models.bars` with the same arguments; `elements`, `integrator` and `tip` change nothing."""
    check_options_of("bars_exact", discretisation, ("elements", "integrator", "tip"))
    check_counts("bars_exact", len(lengths), {"densities": densities, "moduli": moduli, "speeds": speeds}, gaps, wall)
    count, walls = len(lengths), int(bool(wall))
    z = [np.sqrt(y * section * d) for y, d in zip(moduli, densities, strict=True)]
    c = [np.sqrt(y * section / d) for y, d in zip(moduli, densities, strict=True)]
    right, left = tuple(_Wave() for _ in lengths), tuple(_Wave() for _ in lengths)
    for i in range(count):
        right[i].send(-np.inf, 0.5 * speeds[i])
        left[i].send(-np.inf, 0.5 * speeds[i])
    delays = [length / speed for length, speed in zip(lengths, c, strict=True)]
    gap, closed = np.array(gaps, float), np.zeros(len(gaps), bool)
    begun: dict[int, float] = {}
    same, small = _SAME * t_end, _SAME * max(map(abs, speeds))
    contacts, events, forces, t = [], [], [], 0.0
    while True:
        f_in = [float(right[i].at(t - delays[i] + same)) for i in range(count)]  # at the right ends
        g_in = [float(left[i].at(t - delays[i] + same)) for i in range(count)]  #  at the left ends
        was = closed
        closed, rates, force, g_out, f_out = _ends(gap, f_in, g_in, z, walls, small)
        for k in np.flatnonzero(closed & ~was):
            begun[int(k)] = t
        for k in np.flatnonzero(was & ~closed):
            contacts.append((int(k), begun.pop(int(k)), t))
        for i in range(count):
            left[i].send(t, g_out[i])
            right[i].send(t, f_out[i])
        events.append(t)
        forces.append(force)
        arrivals = [w[i].next_jump(t - delays[i] + same) + delays[i] for w in (right, left) for i in range(count)]
        closing = [t - g / r if r < 0 else np.inf for g, r in zip(gap, rates, strict=True)]
        following = min(*arrivals, *closing, t_end)
        gap = np.where(np.array(closing) <= following + same, 0.0, gap + rates * (following - t)) if len(gap) else gap
        t = following
        if t >= t_end:
            break
    contacts += [(k, begin, t_end) for k, begin in begun.items()]
    return BarsExact(
        t_end, tuple(sorted(contacts, key=lambda x: x[1])), np.array(events), np.array(forces), tuple(lengths), tuple(c),
        tuple(d * length for d, length in zip(densities, lengths, strict=True)), tuple(speeds), right, left,
    )  # fmt: skip


def _ends(gap: np.ndarray, f_in: list[float], g_in: list[float], z: list[float], walls: int, small: float):
    """What contacts make of incoming waves: which are closed, rates of the open gaps, pressures, outgoing waves g and f."""
    closed, rates, force = np.zeros(len(gap), bool), np.zeros(len(gap)), np.zeros(len(gap))
    g_out, f_out = list(f_in), list(g_in)  # (1)
    for k in range(len(gap)):
        a, b = k - walls, k - walls + 1
        arriving = f_in[a] if a >= 0 else 0.0
        closed[k] = gap[k] <= 0 and arriving > g_in[b] + small
        if not closed[k]:
            rates[k] = 2 * g_in[b] - 2 * arriving
            continue
        v = 2 * (z[a] * f_in[a] + z[b] * g_in[b]) / (z[a] + z[b]) if a >= 0 else 0.0  # (2), (3)
        force[k] = z[b] * (v - 2 * g_in[b])
        f_out[b] = v - g_in[b]
        if a >= 0:
            g_out[a] = v - f_in[a]
    return closed, rates, force, g_out, f_out

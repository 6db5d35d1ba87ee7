"""The player without a page: what time it is, how fast it goes, and where a hand sends it."""

import threading
from dataclasses import dataclass, field

import numpy as np

from carom.live.footage import Footage

SPEEDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
ALL = -1  # to follow: the middle of everything that moves
GLOW = 0.15  # seconds for which an impact is seen,
FLASHES = 3  # if there are no more of them in a second of watching: what flashes more often harms (WCAG 2.3.1), and tells nothing
THRIFT, HURRY = 0.3, 0.06  # seconds that footage is made to last while more of it is computed; while a hand waits for an answer


def natural_speed(duration: float) -> float:
    """As fast as it is, if that takes neither a moment nor minutes; otherwise so that it takes about ten seconds."""
    return 1.0 if 2 <= duration <= 60 else min(SPEEDS, key=lambda s: abs(np.log(duration / s / 10)))


@dataclass
class Player:
    """Time in the footage, moved by a clock or by hand. Safe to use from several threads: pages have several clients."""

    footage: Footage
    speed: float = 1.0
    now: float = field(init=False)
    playing: bool = field(default=False, init=False)
    follow: int | None = None  #           the body that the view goes with, or ALL
    growing: bool = False  #               more footage is on its way: the end is not the end
    name: str = ""  #                      what it is called beside another one
    thrift: float = field(default=THRIFT, init=False)
    beside: "list[Player]" = field(default_factory=list, init=False, repr=False)  # those that show the same moments of other runs
    _glow: float = field(default=0.0, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def __post_init__(self) -> None:
        self.now = self.start
        if not self.growing and self.end > self.start:
            self.speed = natural_speed(self.end - self.start)

    @property
    def start(self) -> float:
        return float(self.footage.t[0])

    @property
    def end(self) -> float:
        return float(self.footage.t[-1])

    @property
    def edge(self) -> float:
        """Up to where it can be played now: of those that are side by side none runs ahead of what there is of the other."""
        return min([self.end, *(other.end for other in self.beside if other.growing)])

    @property
    def struck(self) -> bool:
        """Whether an impact is to be seen now."""
        return self._glow > 0 or bool(np.any(self.footage.hits == self.now))

    @property
    def waiting(self) -> bool:
        """Played nearly to the end of what there is, and more is coming: it goes as fast as that is computed."""
        return self.playing and self.growing and self.edge - self.now < self.speed * self.thrift

    def take(self, footage: Footage, growing: bool | None = None) -> None:
        """Other footage, or more of the same; time stays what it is, if there is such a time."""
        with self._lock:
            self.footage = footage
            self.growing = self.growing if growing is None else growing
            self.now = min(max(self.now, self.start), self.end)

    def play(self, on: bool | None = None) -> None:
        """Play, or pause; from the start if this is the end."""
        with self._lock:
            self.playing = not self.playing if on is None else on
            if self.playing and self.now >= self.end and not self.growing:
                self.now = self.start

    def tick(self, seconds: float) -> None:
        """So much time has passed for the person who watches."""
        with self._lock:
            self._glow = max(0.0, self._glow - seconds)
            if not self.playing:
                return
            step = self.speed * seconds
            if self.growing:  # slower towards the end of what there is, instead of halting there until more has come
                step = min(step, max(0.0, self.edge - self.now) * min(1.0, seconds / self.thrift))
            self._pass(min(self.now + step, self.end))
            if self.now >= self.end and not self.growing:
                self.playing = False

    def _pass(self, now: float) -> None:
        """On to a moment: an impact on the way is seen, however many frames a second there are."""
        before, self.now = self.now, now
        early, last, late = np.searchsorted(self.footage.hits, [now - self.speed, before, now], side="right")
        if last < late <= early + FLASHES:
            self._glow = GLOW

    def go_with(self, other: "Player", seconds: float) -> None:
        """The same moment as another player, as far as there is one."""
        with self._lock:
            self._glow = max(0.0, self._glow - seconds)
            self.speed, self.playing, self.thrift = other.speed, other.playing, other.thrift
            now = float(np.clip(other.now, self.start, self.end))
            if other.playing and now > self.now:
                self._pass(now)
            elif now != self.now:
                self.now, self._glow = now, 0.0

    def scrub(self, now: float) -> None:
        """Go to a time, and stay there."""
        with self._lock:
            self.playing, self._glow = False, 0.0
            self.now = float(np.clip(now, self.start, self.end))

    def step(self, count: int = 1) -> None:
        """To the next frame, or back."""
        with self._lock:
            t = self.footage.t
            if count > 0:
                i = int(np.searchsorted(t, self.now, side="right")) + count - 1
            else:
                i = int(np.searchsorted(t, self.now, side="left")) + count
            self.scrub(float(t[np.clip(i, 0, len(t) - 1)]))

    def next_impact(self, count: int = 1) -> None:
        """To the next impact, or to the one before; to the end or the start if there is none."""
        with self._lock:
            hits = self.footage.hits
            later, earlier = hits[hits > self.now], hits[hits < self.now]
            if count > 0:
                self.scrub(float(later[0]) if len(later) else self.end)
            else:
                self.scrub(float(earlier[-1]) if len(earlier) else self.start)

    def words(self) -> str:
        """What has happened up to now, in a sentence."""
        hits = self.footage.hits
        count = int(np.searchsorted(hits, self.now, side="right"))
        if not count:
            return f"{len(hits)} impact{'' if len(hits) == 1 else 's'} ahead" if len(hits) else "no impacts"
        return f"impact {count} of {len(hits)}: {self.footage.hit_names[count - 1]} at t = {hits[count - 1]:.6g}"

"""How many frames a second: as many as the slowest page can draw.

Frames are numbered, and pages say which they have seen, and how long a picture takes them. Without that a browser that draws
slowly, in software or on a small machine, would fall behind by as much as one cares to wait, for viser sends whatever it is given.
"""

import threading
import time

FASTEST, SLOWEST = 60.0, 4.0  # frames a second
LATE, EARLY = 0.8, 0.5  #       seconds between sending a frame and hearing of it; a quarter of a second passes between two words
SPARE = 1.25  #                 frames that are sent for each that is drawn: a page that gets faster must be able to show it
FORGOTTEN = 3.0  #              seconds without a word: gone, or hidden behind another window


def next_beat(due: float, now: float, rate: float) -> float:
    """When a frame is due after one that was due at `due` and came at `now`. Threads wake up late, by some tenths of a millisecond:
    counted from when they came, sixty frames a second would be fifty-nine. What was missed altogether is not made up for."""
    return max(due + 1 / rate, now)


class Pace:
    def __init__(self) -> None:
        self.rate = FASTEST
        self._sent: dict[int, float] = {}
        self._pages: dict[str, tuple[float, int, float]] = {}  # when it spoke last, of which frame, and how late
        self._gaps: dict[str, float] = {}
        self._lock = threading.Lock()

    def sent(self, frame: int, now: float | None = None) -> None:
        """A numbered frame has been handed over."""
        now = time.perf_counter() if now is None else now
        with self._lock:
            self._sent[frame] = now
            for old in [f for f in self._sent if f < frame - 2000]:
                del self._sent[old]

    def seen(self, who: str, frame: int, now: float | None = None, gap: float = 0.0) -> None:
        """A page has drawn it; `gap` are the seconds between two of its pictures."""
        now = time.perf_counter() if now is None else now
        with self._lock:
            when = self._sent.get(frame)
            if when is None:
                return
            self._pages[who] = (now, frame, now - when)
            self._gaps[who] = gap
            self._pages = {page: told for page, told in self._pages.items() if now - told[0] < FORGOTTEN}
            slowest = max(self._gaps.get(page, 0.0) for page in self._pages)
            most = min(FASTEST, max(SLOWEST, SPARE / slowest)) if slowest > 0 else FASTEST
            late = max(told[2] for told in self._pages.values())
            if late > LATE:
                self.rate = max(SLOWEST, 0.7 * self.rate)
            elif late < EARLY:
                self.rate = 1.15 * self.rate + 0.5
            self.rate = min(self.rate, most)

    def waiting(self, frame: int, now: float | None = None) -> bool:
        """Whether some page is so far behind that nothing more should be sent for now."""
        now = time.perf_counter() if now is None else now
        with self._lock:
            behind = [told for told in self._pages.values() if now - told[0] < FORGOTTEN]
            if not behind:
                return False
            oldest = min(told[1] for told in behind)
            unseen = [when for number, when in self._sent.items() if number > oldest]
            return bool(unseen) and now - min(unseen) > 2 * LATE

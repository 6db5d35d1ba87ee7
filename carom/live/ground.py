"""What plays on a page for as long as one watches: takes and their players, knobs, hands. Models and worlds are two kinds of it."""

import contextlib
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from carom.errors import CaromError
from carom.live.footage import Footage
from carom.live.knobs import SUITS, Knob, distinct
from carom.live.player import HURRY, THRIFT, Player

AHEAD = 1.0  # seconds of watching that are computed in advance


class Reel(Protocol):
    """One run that is computed while it is watched: `take.Take` of a model, `world_take.WorldTake` of a world."""

    model: Any
    dt: float
    footage: Footage | None
    failed: bool

    @property
    def end(self) -> float: ...
    def stretch(self, speed: float, held: bool) -> float: ...
    def grow(self, seconds: float) -> Any: ...
    def back_to(self, now: float) -> None: ...
    def become(self, model: Any) -> None: ...
    def pull(self, body: int, grab: np.ndarray, target: np.ndarray, speed: float) -> None: ...


class Ground(ABC):
    """Any thread may turn its knobs; one thread calls `work`, which computes.

    A kind of ground says how its model is made of the knobs (`model`), how a take of it starts (`_take`), whether two models start
    alike (`_same_start`), and what is kept of it all (`_tell`, `save`, `script`)."""

    takes: list[Any]
    shapes: tuple[str, ...] = ()  # of bodies that can be added, by name
    size: float = 1.0  #            of such a body, by default
    follow: int | None = None  #    what the view goes with, where there are several bodies
    derived: Set[str] = frozenset()  # knobs that follow from others,
    by_hand: Set[str] = frozenset()  # but for those that a person has set

    def __init__(self, name: str, knobs: dict[str, Knob], methods: Mapping[str, Any], speed: float = 1.0):
        self.name, self.knobs, self.methods = name, knobs, methods
        self.values = {key: knob.value for key, knob in knobs.items()}
        self.method = SUITS
        self.other: str | None = None
        self.pace = 1.0
        self.message = ""  #                what could not be done, and why
        self.busy = False  #                with what somebody has asked for: another method has to be compiled
        self.lock = threading.RLock()
        self.hand: tuple[int, np.ndarray, np.ndarray] | None = None
        self.takes = [self._take(self.method)]
        self.takes[0].grow(self.takes[0].stretch(speed, False))
        self.players = [Player(self._seen(0), speed, growing=True)]
        self.player.follow = 0 if len(self.player.footage.bodies) == 1 else self.follow  # a body alone may go far
        self._tell(fresh=True)

    @property
    def player(self) -> Player:
        return self.players[0]

    def _seen(self, i: int) -> Footage:
        footage = self.takes[i].footage
        assert footage is not None
        return footage

    # -- what each kind says -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def choices(self) -> tuple[str, ...]:
        """The methods that one may choose from; none where there is but one."""

    @abstractmethod
    def _called(self, method: str, take: Any) -> str:
        """What a take is called beside another one."""

    @abstractmethod
    def model(self, values: dict[str, float] | None = None) -> Any:
        """The model with the knobs as they are."""

    @abstractmethod
    def _take(self, method: str) -> Reel: ...

    @abstractmethod
    def _same_start(self, old: Any, new: Any) -> bool: ...

    @abstractmethod
    def _tell(self, fresh: bool = False) -> None:
        """Keep what it takes to compute the last stretch again."""

    @abstractmethod
    def save(self, path: str | Path) -> Path:
        """What was computed since something was changed, as a run."""

    @abstractmethod
    def film(self, path: str | Path, progress: Any = None) -> Any:
        """The same as a film; see `carom.report.movie` for `progress`."""

    @abstractmethod
    def script(self) -> str | None:
        """The program that computes all of it again, changes and pulls of the hand included; None where there is none to write."""

    # -- knobs -------------------------------------------------------------------------------------------------------

    def turn(self, knob: str, value: float) -> None:
        """Another value: the motion goes on with it from now, or starts anew if it says how the motion starts."""
        with self._asked():
            before = dict(self.values)
            self.values[knob] = float(value)
            try:
                new = self.model()
                if self._same_start(self.takes[0].model, new):
                    self._go_on(new)
                else:
                    self._anew()
                self.message = ""
            except CaromError as error:
                self.values = before
                self.message = str(error)
                self._anew()

    def _go_on(self, model: Any) -> None:
        """From the present moment with what has been chosen."""
        for take, player in zip(self.takes, self.players, strict=True):
            take.back_to(player.now)
            take.become(model)
            take.grow(take.stretch(player.speed, False))
        self._show()
        self._tell()

    def _anew(self) -> None:
        names = [self.method, *([self.other] if self.other else [])]
        self.takes = [self._take(name) for name in names]
        speed = self.player.speed
        for take in self.takes:
            take.grow(take.stretch(speed, False))
        while len(self.players) < len(self.takes):
            self.players.append(Player(self._seen(len(self.players)), speed, growing=True))
        self.players = self.players[: len(self.takes)]
        for player, name in zip(self.players, distinct(map(self._called, names, self.takes)), strict=True):
            player.name = name
        self.player.beside = self.players[1:]
        self._show()
        playing = self.player.playing  # as it is now: somebody may have pressed Play while this was computed
        for player in self.players:
            player.scrub(player.start)
            player.play(playing)
        self._tell(fresh=True)

    def restart(self) -> None:
        """The same start again."""
        with self._asked():
            self.pull(0, None, None)
            self._guarded(self._anew)

    def choose(self, method: str | None = None, pace: float | None = None, other: str | None = "same") -> None:
        """Another method, another step (times that of the model), or a second method beside it (None for none)."""
        with self._asked():
            before = (self.method, self.pace, self.other)
            self.method = self.method if method is None else method
            self.pace = self.pace if pace is None else pace
            self.other = self.other if other == "same" else other
            if not self._guarded(self._anew):
                self.method, self.pace, self.other = before
                self._guarded(self._anew, quiet=True)

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """While something is done that somebody asked for: a page says so."""
        self.busy = True
        try:
            with self.lock:
                yield
        finally:
            self.busy = False

    def _guarded(self, act: Callable[[], Any], quiet: bool = False) -> bool:
        try:
            act()
        except CaromError as error:
            self.message = str(error)
            return False
        self.message = self.message if quiet else ""
        return True

    # -- hands -------------------------------------------------------------------------------------------------------

    def pull(self, body: int, grab: np.ndarray | None, target: np.ndarray | None) -> None:
        """A hand holds a body at `grab` and is at `target`; None when it lets go. What is taken hold of plays."""
        with self.lock:
            held, self.hand = self.hand, None if grab is None or target is None else (body, grab, target)
            for player in self.players:
                player.thrift = THRIFT if self.hand is None else HURRY
            if self.hand is not None and held is None:
                for take, player in zip(self.takes, self.players, strict=True):
                    take.back_to(player.now)
                self._show()
                for player in self.players:
                    player.play(True)

    def add_body(self, shape: str, size: float | None = None) -> None:
        """One more body of a shape of `shapes`, where the kind of ground can take one."""
        self.message = f"{self.name} has the bodies that it has: a World can be added to"

    # -- work --------------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Compute a stretch more, if the person who watches is about to need it; whether anything was done."""
        with self.lock:
            done = False
            held = self.hand is not None
            for take, player in zip(self.takes, self.players, strict=True):
                stretch = take.stretch(player.speed, held)
                ahead = 2 * stretch if held else max(AHEAD * player.speed, stretch)
                if take.failed or take.end > player.now + ahead or (held and not player.playing):
                    continue
                if self.hand is not None:
                    take.pull(*self.hand, player.speed)
                try:
                    take.grow(stretch)
                except Exception as error:  # it would come again and again: told as a run that fails, until something is changed
                    self._fail(take, error)
                done = True
                if take is self.takes[0]:
                    self._tell()
            if done:
                self._show()
            return done

    def _fail(self, take: Any, error: Exception) -> None:
        message = str(error)
        if not isinstance(error, CaromError):  # of ours, or of a function that a person wrote
            traceback.print_exception(error)
            message = f"{type(error).__name__}: {message}"
        take.failed, take.footage = True, replace(take.footage, ok=False, message=message)

    def _show(self) -> None:
        for take, player in zip(self.takes, self.players, strict=True):
            assert take.footage is not None
            player.take(take.footage, growing=not take.failed)

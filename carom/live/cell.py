"""A model to play with in the cell of a notebook: knobs beside the report's player (extra `notebook`).

Everything goes through the kernel's own channel: no port, no server, so that the kernel may be on any machine. The page asks
(`turn`, `choose`, `last`, `pull`, `add`, `reset`), and gets numbers, texts and a packed run: nothing that either sends is ever
executed.
"""

import gzip
from importlib import resources
from typing import Any

import anywidget
import traitlets

from carom.errors import InputError
from carom.live.knobs import Knob
from carom.live.rerun import Rerun, paces
from carom.report.html import fill_page

NONE = "nothing"


def _client(name: str) -> str:
    return (resources.files("carom.live") / "client" / name).read_text("utf-8")


class PlayCell(anywidget.AnyWidget):
    """What `carom.play` shows in a notebook. `run` is the run with the knobs as they are; `turn`, `choose`, `last`, `pull`,
    `add` and `reset` are what the controls call, and can be called from other cells: there what cannot be is an InputError."""

    _esm = _client("cell.js")
    _css = _client("cell.css")

    name = traitlets.Unicode().tag(sync=True)
    page = traitlets.Bytes().tag(sync=True)  #     the player with the first run in it; packed
    shown = traitlets.Bytes().tag(sync=True)  #    another run for it, empty at first; packed
    knobs = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)  #   methods, steps and what to compare with: names to choose from
    chosen = traitlets.Dict().tag(sync=True)  #    which of them, and how many steps
    message = traitlets.Unicode().tag(sync=True)

    def __init__(self, rerun: Rerun):
        self.rerun = rerun
        options = {"method": list(rerun.choices), "dt": list(paces(rerun.dt)), "beside": [NONE, *rerun.methods]}
        options |= {"shape": list(rerun.shapes), "size": rerun.size}
        first = _packed(fill_page(rerun.contents()).replace("</body>", f"<script>{_client('hand.js')}</script></body>"))
        super().__init__(
            name=rerun.name, page=first, knobs=[_told(knob) for knob in rerun.knobs.values()], options=options, **self._now()
        )
        self.on_msg(self._heard)

    @property
    def run(self) -> Any:
        """The run that is shown, with the knobs as they are: a `Solution`, or a `WorldRun`."""
        return self.rerun.run

    # -- what a person does, on the page or in another cell ----------------------------------------------------------

    def turn(self, knob: str, value: float) -> None:
        """Another value of a number of the model."""
        self._show(self.rerun.turn(knob, value))

    def choose(self, method: str | None = None, dt: str | None = None, beside: str | None = None) -> None:
        """Another method, another step, or a method to compare energies with, by the names that the page has."""
        steps = paces(self.rerun.dt)
        pace = None if dt is None else steps.get(dt, dt)  # what is no name is answered as no number
        other = "same" if beside is None else None if beside == NONE else beside
        self._show(self.rerun.choose(method, pace, other))  # pyright: ignore[reportArgumentType]

    def last(self, num_steps: int) -> None:
        """A run of so many steps."""
        self._show(self.rerun.last(num_steps))

    def pull(self, t: float, body: str, at: Any, track: Any, speed: float = 1.0, held: bool = False) -> None:
        """A hand took hold of a body, by its name, at the time `t` and the point `at`, and was at the points of `track`, thirty of
        them a second of watching at that speed; then it let go, unless it is still `held`. A spring in it pulls the body along."""
        self._show(self.rerun.pull(t, body, at, track, speed, held))

    def add(self, shape: str, size: float | None = None) -> None:
        """One more body in a world, of a shape by its name and that half size."""
        self._show(self.rerun.add(shape, size))

    def reset(self) -> None:
        """Every knob as it was at first, no body more, and nothing that a hand did."""
        self._show(self.rerun.reset())

    def _show(self, done: bool) -> None:
        with self.hold_sync():
            if done:
                self.shown = _packed(self.rerun.contents().as_json())
            for name, value in self._now().items():
                setattr(self, name, value)
        if not done:
            raise InputError(self.message)

    def _now(self) -> dict[str, Any]:
        rerun = self.rerun
        dt = (
            next(name for name, share in paces(rerun.dt).items() if share == rerun.pace)
            if rerun.pace in paces(1.0).values()
            else ""
        )
        chosen = {
            "method": rerun.method,
            "dt": dt,
            "beside": rerun.other or NONE,
            "num_steps": rerun.num_steps,
            "t": float(rerun.run.t[-1]),
        }
        return {"values": dict(rerun.values), "chosen": chosen, "message": rerun.message}

    # -- what the page says ------------------------------------------------------------------------------------------

    def _heard(self, _: Any, said: Any, __: Any) -> None:
        """A page asks for something; it hears when that is done, whatever has come of it."""
        said = said if isinstance(said, dict) else {}
        acts = {name: getattr(self, name) for name in ("turn", "choose", "last", "pull", "add", "reset")}
        try:
            act = acts.get(str(said.get("do")))
            if act is not None:
                act(**said.get("with", {}))
        except InputError:
            pass  # the message says it
        except KeyboardInterrupt:
            self.message = "stopped: the run before it is shown"
        except Exception as error:  # a page that waits for ever without a word would be worse
            self.message = f"{type(error).__name__}: {error}"
        finally:
            self.send({"answered": said.get("ask")})


def _told(knob: Knob) -> dict[str, Any]:
    step = 1 if knob.whole else (knob.high - knob.low) / 200
    return {"name": knob.name, "low": knob.low, "high": knob.high, "step": step, "whole": knob.whole}


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode("utf-8"), 6, mtime=0)

"""How a run ended, in words: what happened, where, when, and what to try."""

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from carom.methods import status as codes
from carom.numerics.sequences import accumulation_time

if TYPE_CHECKING:
    from carom.results.impacts import Impacts


class _Told(NamedTuple):
    words: tuple[str, ...]

    def __call__(self) -> tuple[str, ...]:
        return self.words


@dataclass(frozen=True)
class Status:
    """How a run ended. `ok` means that nothing went wrong: every step asked for was taken, the number of impacts asked for
    reached, a stop met, or the run was ended by a callback or interrupted by hand."""

    name: str
    message: str
    ok: bool
    step: int
    t: float
    look: Callable[[], tuple[str, ...]] | None = field(default=None, compare=False, repr=False)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a run that ended well still has to say (`Solution.caveats`). Looked for when asked for: it needs the
        energies and gaps of the whole run; `str(status)` and notebooks ask."""
        return () if self.look is None else self.look()

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, and for a copy without its run: the caveats as they are."""
        return Status, (self.name, self.message, self.ok, self.step, self.t, _Told(self.caveats))

    def __str__(self) -> str:
        return "; ".join([self.message, *(f"but {words}" for words in self.caveats)])

    def _repr_html_(self) -> str:
        colour = "inherit" if self.ok and not self.caveats else "#c4502d"
        return f'<span style="color: {colour}"><b>{html.escape(self.name)}</b>: {html.escape(str(self))}</span>'


def describe(code: int, step: int, t: float, impacts: "Impacts", method: Any, where: str) -> Status:
    """A code from the compiled loop as a sentence."""
    at = f"step {step} (t = {t:.9g})"
    if code in (codes.TOO_MANY_IMPACTS, codes.RESTING):
        return _came_to_rest(code, at, step, t, impacts, method)
    if code == codes.UNSETTLED:
        text = (
            f"{at}: the law of impact did not settle: contacts that are closed together keep approaching{where}. "
            "Try simultaneous='impulse', less friction, or one restitution for all contacts"
        )
        return Status("unsettled", text, False, step, t)
    if code == codes.NOT_CONVERGED:
        cause = "Newton did not converge, or the error tolerance could not be met"
        text = f"{at}: no next state was found: {cause}{where}. Try a smaller dt"
        return Status("not_converged", text, False, step, t)
    if code == codes.NOT_FINITE:
        text = f"{at}: the state became infinite or not a number{where}. Try a smaller dt"
        return Status("not_finite", text, False, step, t)
    if code == codes.CONTACT_UNSOLVED:
        text = (
            f"{at}: the contact problem of the step was not solved to its tolerance{where}. "
            "Try a smaller dt or less friction; contacts and joints that contradict one another have no solution"
        )
        return Status("contact_unsolved", text, False, step, t)
    if code == codes.TABLE_FULL:
        text = f"{at}: {codes.Outcome(code).sentence}{where}: more of them fall into one step than are kept. Take a smaller dt"
        return Status("table_full", text, False, step, t)
    raise AssertionError(f"unknown status code {code}")


def _came_to_rest(code: int, at: str, step: int, t: float, impacts: "Impacts", method: Any) -> Status:
    recent = impacts.contact[-method.impacts_reserved :]
    busiest = int(np.bincount(recent).argmax()) if len(recent) else 0
    contact = f"contact {impacts.names[busiest]!r}"
    limit = accumulation_time(impacts.t[impacts.contact == busiest])
    when = "" if limit is None else f": the impacts accumulate at t = {limit:.9g}"
    if code == codes.RESTING:
        text = f"{at}: the motion has come to rest or slides on {contact}{when}"
    else:
        many = f"too many impacts in one step, mostly on {contact}"
        text = f"{at}: {many}; the motion is coming to rest or sliding there{when}"
    text += ". This method ends at resting contact: choose MoreauJean or TimeDG, or ask for fewer steps" + (
        ", or, if the impacts are genuine, take a smaller dt or a larger max_impacts_per_step" if code != codes.RESTING else ""
    )
    return Status("resting" if code == codes.RESTING else "too_many_impacts", text, False, step, t)

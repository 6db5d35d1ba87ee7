"""How a computation can end: codes for compiled programs, each with a sentence."""

import enum


class Outcome(enum.IntEnum):
    """What ended a computation. The sentence says what happened; `carom.results` adds where, when and what to try."""

    OK = 0
    TOO_MANY_IMPACTS = 1
    UNSETTLED = 2
    NOT_CONVERGED = 3
    NOT_FINITE = 4
    TABLE_FULL = 5
    RESTING = 6
    CONTACT_UNSOLVED = 7
    CONTACTS_FULL = 8
    STOPPED = 9

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Outcome.OK: "every step was taken",
    Outcome.TOO_MANY_IMPACTS: "impacts accumulate in one step",
    Outcome.UNSETTLED: "the law of impact did not settle: contacts that are closed together keep approaching",
    Outcome.NOT_CONVERGED: "no next state was found",
    Outcome.NOT_FINITE: "the state became infinite or not a number",
    Outcome.TABLE_FULL: "there is no room for more impacts",
    Outcome.RESTING: "the motion has come to rest or slides",
    Outcome.CONTACT_UNSOLVED: "the contact problem of the step was not solved to its tolerance",
    Outcome.CONTACTS_FULL: "there is no room for more closed contacts",
    Outcome.STOPPED: "a function that was to end the run changed its sign",
}

# Plain numbers, for arrays.
OK, TOO_MANY_IMPACTS, UNSETTLED, NOT_CONVERGED, NOT_FINITE, TABLE_FULL, RESTING, CONTACT_UNSOLVED, CONTACTS_FULL, STOPPED = (
    int(o) for o in Outcome
)

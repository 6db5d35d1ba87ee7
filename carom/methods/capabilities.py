"""What systems need, what methods take, what can be done with them: declared on the classes, checked here, for every verb.

`System.needs` says what a system asks of a method, `Method.takes` what a method can do, `Method.refuses` which combinations it
cannot, `Method.offers` the verbs it serves. Nothing else asks a method or a system what it is.
"""

from typing import Any

from carom.closures.per_object import per_object
from carom.errors import InputError
from carom.methods.method import Method

NEEDS = {  # as a sentence about a system goes on: "… does not take systems with …"
    "contacts": "contacts",
    "restitution": "impacts that lose energy",
    "friction": "friction",
    "laws of speed": "restitution, friction or impulses that depend on speed",
    "rolling": "rolling resistance",
    "poisson": "Poisson's law of impact",
    "moving walls": "walls that move",
    "obstacles": "obstacles with several faces",
    "forces": "forces beside the lagrangian",
    "controller": "a controller that is sampled",
    "constraints": "velocity constraints",
    "joints": "joints",
    "hamiltonian": "a hamiltonian instead of a lagrangian",
    "degenerate hamiltonian": "a hamiltonian that determines no lagrangian (∂²H/∂p² has no inverse)",
    "rotations": "rotations in its configuration",
    "nodes": "masses at nodes",
    "supports": "directions that are held or moved from outside",
    "dry friction": "dry friction along coordinates",
    "interfaces": "interfaces that the motion goes through",
    "energy not quadratic": "a kinetic energy that is not quadratic in the velocities",
    "massless": "directions without kinetic energy",
    "contacts along massless directions": "gaps that change along directions without kinetic energy",
}
VERBS = {
    "solve": "carom.solve",
    "gradients": "carom.rollout and its derivatives",
    "ensemble": "carom.ensemble",
    "sweep": "carom.sweep",
    "checkpoint": "checkpoints",
    "dense output": "dense output",
}
HINTS = {"obstacles": "or write one Contact per face"}


def known_methods() -> list[Method]:
    """One of each kind, as they are by default. Loaded here: a run needs one of them, and EventDriven stands on diffrax, whose
    import takes a second."""
    from carom.methods.event_driven import EventDriven
    from carom.methods.hybrid import Hybrid
    from carom.methods.timestepping.moreau import MoreauJean
    from carom.methods.timestepping.time_dg import TimeDG
    from carom.methods.variational.collision import VariationalCollision

    return [VariationalCollision(), EventDriven(), MoreauJean(), MoreauJean(theta=1.0), TimeDG(), Hybrid()]


def refusal(needs: frozenset[str], method: Method, verb: str) -> str | None:
    """Why this method cannot serve this verb for a system with these needs; None if it can."""
    name = type(method).__name__
    if verb not in method.offers:
        return f"{name} does not offer {VERBS[verb]}"
    beyond = needs - method.takes
    missing = [need for need in NEEDS if need in beyond]
    if missing:
        return f"{name} does not take systems with {NEEDS[missing[0]]}"
    reason = method.refuses(needs)
    return None if reason is None else f"{name} does not take this system: {reason}"


def alternatives(needs: frozenset[str], verb: str) -> list[str]:
    """The methods that would do."""
    names = []
    for method in known_methods():
        if refusal(needs, method, verb) is None:
            special = _is_implicit(method)
            name = "MoreauJean(theta=1)" if special else f"{type(method).__name__}()"
            if not (special and "MoreauJean()" in names):
                names.append(name)
    return names


@per_object
def _taken(method: Method) -> set[tuple[frozenset[str], str]]:
    """What was asked of this method before, and was not refused."""
    return set()


def require(needs: frozenset[str], method: Any, verb: str) -> None:
    """Refuse, before anything is compiled, what a method cannot do, and name what would."""
    if not isinstance(method, Method):
        raise InputError(
            f"method must be a method of carom, such as carom.VariationalCollision(); got {method!r}"
            + (": call it" if isinstance(method, type) else "")
        )
    good = _taken(method)
    if (needs, verb) in good:
        return
    why = refusal(needs, method, verb)
    if why is None:
        good.add((needs, verb))
        return
    names = alternatives(needs, verb)
    hints = [HINTS[need] for need in HINTS if need in needs - method.takes]
    choose = f"; choose {' or '.join([', '.join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]}" if names else ""
    nothing = "" if names else "; no method of carom does"
    raise InputError(why + choose + nothing + "".join(f", {hint}" for hint in hints))


def table() -> str:
    """What the methods take and offer, as a table for the documentation."""
    methods = [method for method in known_methods() if not _is_implicit(method)]
    names = [type(method).__name__ for method in methods]
    lines = ["| a system with | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for need, words in NEEDS.items():
        lines.append(f"| {words} | " + " | ".join("yes" if need in method.takes else "–" for method in methods) + " |")
    lines += ["", "| verb | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for verb, words in VERBS.items():
        lines.append(f"| {words} | " + " | ".join("yes" if verb in method.offers else "–" for method in methods) + " |")
    return "\n".join(lines)


def _is_implicit(method: Method) -> bool:
    from carom.methods.timestepping.moreau import MoreauJean

    return isinstance(method, MoreauJean) and float(method.theta) == 1.0

"""One velocity problem: impulses of contacts and joints, and the velocities after them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from carom.bodies.compiled import by_loops
from carom.bodies.contact_rows import Rows, block_problem, delassus, problem
from carom.bodies.dense_interior import HEIGHTS, solve_inside
from carom.bodies.dense_newton import (
    BLURRED,
    FEW_ROWS,
    HALF_BIT,
    MOST_ROWS,
    Dense,
    Found,
    from_gradient,
    newton,
    projected_gradient,
    solve_small,
)
from carom.bodies.dense_proximal import FAR, NEAR, solve_proximal
from carom.bodies.islands import bunches, islands
from carom.bodies.large_on_device import solve_there, wanted
from carom.bodies.pivoting import pivot
from carom.bodies.posed import Posed
from carom.bodies.quaternions import apply, lengths
from carom.numerics.friction import compiled
from carom.numerics.friction.problem import RESTING, FrictionProblem, natural_residual, project_coulomb
from carom.numerics.friction.stages import SCHEDULE, solve_friction
from carom.numerics.friction.together import solve_hard, solve_together

MANY_ROWS = 600  # from here on all islands are solved at once, up to here contacts are added as they close
CLOSINGS = 100  # rounds of that (a stack closes from below, one contact in a round); then all are
ROUNDS = 2  # of the last stages, for large islands,
ROUNDS_LEFT = 1  # and where proximal points have been tried in vain: half a step is sooner solved
STAGES = ("open", "small", "device", "together", "start", "interior", "proximal", "gradient", "long")
WEIGHTS = (1e4, 1e2, 1e-2)  # of ρ: a contact with x = 1e-7 and y = 1e-9 counts as carrying with one and as open with another
LONG = 3000  # steps of a projected gradient
PATIENT = 150  # rows: for larger islands half a step is sooner solved than the whole by the last stages, which take minutes
HURRIED = 2000  # rows, beyond which half a step is tried at once where proximal points have missed
NEARLY = 0.9  # of the tolerance: how exactly one island that is nearly all there is has to be solved
TOGETHER = 0.25  # of the tolerance: how exactly all islands together are solved, so that few miss it each by itself
SAFELY = 0.9  # of the tolerance of an island by itself: its certificate is computed again, in other units
ALONE = 0.9  # of all rows: a problem with an island larger than this is as good as that one
ENOUGH = 0.1  # of the tolerance: a certificate at which Newton's method stops where it makes no progress


@dataclass(frozen=True)
class Answer:
    """Velocities and momenta after the impulses, and how well they solve the problem."""

    v: np.ndarray  #         [n, 3]
    L: np.ndarray  #         [n, 3]
    impulses: np.ndarray  #  [rows]
    u: np.ndarray  #         [rows]  velocities after
    scale: np.ndarray  #     [n]     the largest velocity that the problem of each body was about
    residual: float
    converged: bool
    stage: str
    iterations: int

    def asked_about(self, shift: np.ndarray) -> "Answer":
        """The same with the rates that the law was asked about."""
        if not np.count_nonzero(shift):
            return self
        told = self.scale, self.residual, self.converged, self.stage, self.iterations
        return Answer(self.v, self.L, self.impulses, self.u + shift, *told)


def solve_velocities(
    posed: Posed, v: np.ndarray, L: np.ndarray, offset: np.ndarray, start: np.ndarray | None, tolerance: float
) -> Answer:
    """Impulses r with u + offset complementary to r in Coulomb's cone, for contacts; u + offset = 0 for joints."""
    scene, rows = posed.scene, posed.rows
    spin = posed.spin(L)
    if len(rows.a) == 0:
        scale = lengths(v) + scene.reach * lengths(spin)
        return Answer(v, L, np.zeros(0), np.zeros(0), scale, 0.0, True, "open", 0)
    q = rows.rates(v, spin) + offset
    blur = lambda: rows.rounding(v, spin)  # noqa: E731
    impulses, residual, stage, iterations = _impulses(posed, q, start, tolerance, blur)
    met = bool(residual <= tolerance) or bool(residual <= rounding(posed, q, impulses, blur))
    return kicked(posed, v, L, impulses, np.abs(q), float(residual), met, stage, iterations)


def kicked(
    posed: Posed,
    v: np.ndarray,
    L: np.ndarray,
    impulses: np.ndarray,
    size: np.ndarray,
    residual: float,
    converged: bool,
    stage,
    taken,
) -> Answer:
    """The answer that impulses are; `size` [rows], or one a contact, is what the problem of each was about."""
    v, L, spin, u, scale = velocities_after(posed, v, L, impulses, size)
    posed.knows(v, L, spin, u)
    return Answer(v, L, impulses, u, scale, residual, converged, stage, taken)


@by_loops("rows_loops")
def velocities_after(posed: Posed, v: np.ndarray, L: np.ndarray, impulses: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, ...]:
    """Velocities, momenta and spins after the impulses, the rates of the rows, and the `scale` of an answer."""
    scene, rows = posed.scene, posed.rows
    scale = lengths(v) + scene.reach * lengths(posed.spin(L))
    for body in (rows.a, rows.b) if len(size) == len(rows.a) else (posed.contacts.a, posed.contacts.b):
        np.maximum.at(scale, body, size)
    p, dL = rows.kick(impulses)
    v, L = v + scene.lightness * p, L + scene.free_column * dL  # what is not free has no lightness
    return v, L, posed.spin(L), posed.rates(v, L), scale


def _impulses(
    posed: Posed, q: np.ndarray, start: np.ndarray | None, tolerance: float, blur: Callable[[], float]
) -> tuple[np.ndarray, float, str, int]:
    """Impulses, certificate, stage and iterations; larger problems island by island, or all at once."""
    if not q.any():
        return np.zeros(len(q)), 0.0, "open", 0
    if len(q) <= MOST_ROWS:
        little = Dense(posed.delassus, q, posed.friction, posed.rows.tangents, 0.0, blur)
        ask = lambda: problem(posed.scene, posed.rows, posed.inverse, posed.inertia, q, posed.friction)  # noqa: E731
        return _small(little, ask, start, tolerance)
    return (_in_rounds if len(q) <= MANY_ROWS else _large)(posed, q, start, tolerance)


def _in_rounds(posed: Posed, q: np.ndarray, start: np.ndarray | None, tolerance: float) -> tuple[np.ndarray, float, str, int]:
    """Most contacts that are near enough to be looked at stay open. Those that close without impulses, or pressed in the step
    before, are solved for first; where others then close, again with them: r = 0 and u_N ≥ 0 is the law for all others. What is
    left to solve for is mostly small enough for dense matrices: a falling row of dominoes takes a sixth of what `_large` does."""
    rows, width = posed.rows, 1 + posed.rows.tangents
    normal = slice(0, width * rows.contacts, width)
    active = q[normal] < 0 if start is None else (q[normal] < 0) | (start[normal] > 0)
    stage, iterations, solved = "open", 0, {}
    for turn in range(CLOSINGS):
        if turn == CLOSINGS - 1:
            active[:] = True
        chosen = np.concatenate([np.repeat(active, width), np.ones(len(q) - width * rows.contacts, bool)])
        r, name, taken = _some(posed, np.flatnonzero(chosen), q, start, tolerance, solved)
        start = r
        stage, iterations = max(stage, name, key=STAGES.index), iterations + taken
        closes = ~active & (rates_after(posed, q, r)[normal] < 0)
        if not np.any(closes):
            break
        active |= closes
    return r, certificate(posed, q, r), stage, iterations


def _large(posed: Posed, q: np.ndarray, start: np.ndarray | None, tolerance: float) -> tuple[np.ndarray, float, str, int]:
    """All islands at once, with all contacts that are near; then each of those that miss the tolerance by itself. Where no island
    is nearly all there is, that comes soon: one that is hard holds back all others in every step that is made for all. Impulses
    that are good enough are left as they are: mostly they are an answer, to which contacts farther away were added."""
    island = islands(posed.scene, posed.rows)[posed.rows.owner(posed.scene.free)]
    stage, iterations, met, late = "together", 0, False, False
    if wanted(posed.scene, len(q)):
        asked = problem(posed.scene, posed.rows, posed.inverse, posed.inertia, q, posed.friction)
        r, met, iterations = solve_there(posed.scene, asked, start, TOGETHER * tolerance)
        start, stage = r, "device"
    if not met:
        late = bool(np.max(np.bincount(island)) >= ALONE * len(q))
        r = start
        if not (late and r is not None and np.max(island_residuals(posed, q, r, island)) <= NEARLY * tolerance):
            turns = "early" if late else "first"
            r, taken = _together(posed, posed.rows, posed.friction, q, start, TOGETHER * tolerance, 0.0, turns)
            stage, iterations = "together", iterations + taken
    missed = island_residuals(posed, q, r, island) > (NEARLY if late else 0.5) * tolerance
    if not np.any(missed):
        return r, certificate(posed, q, r), stage, iterations
    again = np.flatnonzero(missed[island])
    better, stage, taken = _some(posed, again, q, r, tolerance, None, late)
    r[again] = better[again]
    return r, certificate(posed, q, r), stage, iterations + taken


def _together(
    posed: Posed,
    rows: Rows,
    friction: np.ndarray,
    q: np.ndarray,
    start: np.ndarray | None,
    tolerance: float,
    least: float,
    turns: str = "all",
) -> tuple[np.ndarray, int]:
    """Impulses near the solution and the iterations they took: by compiled loops, with these turns, or where numba is missing by
    arrays."""
    if compiled.available():
        from carom.numerics.friction.compiled import block_solver  # numba takes its time to be imported

        asked = block_problem(posed.scene, rows, posed.inverse, q, friction, least)
        found = block_solver.solve_in_blocks(asked, start, tolerance, turns)
        return found.impulses, found.iterations
    asked = replace(problem(posed.scene, rows, posed.inverse, posed.inertia, q, friction), least_size=least)
    return solve_together(asked, start, tolerance)


def _some(
    posed: Posed,
    index: np.ndarray,
    q: np.ndarray,
    start: np.ndarray | None,
    tolerance: float,
    solved: dict[bytes, np.ndarray] | None,
    late: bool = False,
) -> tuple[np.ndarray, str, int]:
    """Impulses of some rows, island by island; the others have none. `solved` remembers islands from round to round; None: these
    are whole islands that `_together` has left, after its early turns if it is `late`."""
    r, stage, iterations = np.zeros(len(q)), "open", 0
    size, width, edge = float(np.linalg.norm(q)), 1 + posed.rows.tangents, (1 + posed.rows.tangents) * posed.rows.contacts
    known = posed.rows.take(index, int(np.sum(index < edge)) // width)
    for local in bunches(posed.scene, known):
        mine = index[local]
        if solved is not None and (before := solved.get(mine.tobytes())) is not None:
            r[mine] = before
            continue
        contacts = mine[mine < edge][::width] // width
        least = RESTING * size * np.sqrt(len(mine) / len(q))
        part = posed.rows.take(mine, len(contacts))
        begin = None if start is None else start[mine]
        island = part, posed.friction[contacts], q[mine], begin
        r[mine], _, name, taken = _island(posed, *island, (NEARLY if late else 0.5) * tolerance, least, solved is None, late)
        if solved is not None:
            solved[mine.tobytes()] = r[mine]
        stage, iterations = max(stage, name, key=STAGES.index), iterations + taken
    return r, stage, iterations


def _island(
    posed: Posed,
    rows: Rows,
    friction: np.ndarray,
    q: np.ndarray,
    start: np.ndarray | None,
    tolerance: float,
    least: float,
    hard: bool,
    late: bool,
) -> tuple[np.ndarray, float, str, int]:
    """The same for some islands. Small ones are tried, and finished, by Newton's method in dense matrices. `hard`: `_together` has
    tried them."""
    if not q.any():
        return np.zeros(len(q)), 0.0, "open", 0
    ask = lambda: replace(problem(posed.scene, rows, posed.inverse, posed.inertia, q, friction), least_size=least)  # noqa: E731
    if len(q) <= MOST_ROWS:
        return _small(Dense(delassus(posed.scene, rows, posed.inverse), q, friction, rows.tangents, least), ask, start, tolerance)
    asked = ask()
    r, taken = (
        _together(posed, rows, friction, q, start, SAFELY * tolerance, least, "late" if late else "all")
        if not hard or compiled.available()
        else (start, 0)
    )
    if (residual := asked.residual(r)) <= tolerance:
        return r, residual, "together", taken
    if not hard and not compiled.available():
        found = solve_friction(asked, start, tolerance)
        if not found.converged and start is not None:
            again = solve_friction(asked, None, tolerance)
            found = again if again.residual < found.residual else found
        return found.impulses, found.residual, found.stage, found.iterations
    if compiled.available() and len(q) > HURRIED:
        return r, residual, "together", taken
    r, more = solve_hard(asked, r, tolerance)
    if (residual := asked.residual(r)) <= tolerance:
        return r, residual, "interior", taken + more
    rounds = (ROUNDS_LEFT if compiled.available() else ROUNDS) if len(q) > PATIENT else len(SCHEDULE)
    found = solve_friction(asked, r, tolerance, rounds=rounds)
    return found.impulses, found.residual, found.stage, taken + more + found.iterations


def _small(
    little: Dense, ask: Callable[[], FrictionProblem], start: np.ndarray | None, tolerance: float
) -> tuple[np.ndarray, float, str, int]:
    """Newton's method, and where it fails one try after the other: the first answer that meets the tolerance, or the best."""
    r, residual, iterations = solve_small(little, start, ENOUGH * tolerance)
    stage = "small"
    if residual <= tolerance or residual <= little.rounding(r):
        return r, residual, stage, iterations
    for name, better, finer, taken in _tries(little, r, residual, ask, start, tolerance):
        iterations += taken
        if finer < residual:
            r, residual, stage = better, finer, name
        if residual <= tolerance or residual <= little.rounding(r):
            break
    return r, residual, stage, iterations


def _tries(little: Dense, r, residual, ask, start, tolerance: float) -> Iterator[tuple[str, np.ndarray, float, int]]:
    """Impulses with their certificate, and finished by pivots where they miss it: what Newton's method left, paths through the
    inside of the cones, proximal points from there and from zero, a projected gradient, a long one, and the stages of the full
    solver, a few and then all."""
    enough = ENOUGH * tolerance
    if len(little.q) <= FEW_ROWS:
        yield "small", *_pivoted(little, (r, residual, 0), enough)
    best = (r, residual, 0)
    for height in HEIGHTS:
        best = min(best, found := _pivoted(little, solve_inside(little, height, enough), enough), key=lambda one: one[1])
        yield "interior", *found
    for begin, price in ((best[0], NEAR), (np.zeros_like(r), FAR)):  # one of them may go round in circles
        best = min(best, found := solve_proximal(little, begin, tolerance, price), key=lambda one: one[1])
        yield "proximal", *found
    for weight in WEIGHTS:
        yield "interior", *pivot(little.weighted(weight), best[0], enough)
    better = from_gradient(little)
    yield "small", *_pivoted(little, better if better[1] < residual else (r, residual, better[2]), enough)
    better, finer, taken = newton(little, projected_gradient(little, LONG))
    yield "small", *_pivoted(little, (better, finer, LONG + taken), enough)
    for rounds in (1, len(SCHEDULE)):
        found = solve_friction(ask(), start, tolerance, rounds=rounds)
        better, finer, taken = newton(little, found.impulses)
        yield found.stage, *_pivoted(little, (better, finer, found.iterations + taken), enough)


def _pivoted(little: Dense, found: Found, enough: float) -> Found:
    """The same, and finished by contacts that give way one at a time where that is needed."""
    r, residual, taken = found
    if residual <= enough:
        return found
    r, residual, pivots = pivot(little, r, enough)
    return r, residual, taken + pivots


def rates_after(posed: Posed, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """u = Wr + q."""
    scene = posed.scene
    p, L = posed.rows.kick(r)
    u = q + posed.rows.rates(scene.lightness * p, apply(posed.inverse, L))
    return u if posed.rows.compliance is None else u + posed.rows.compliance * r


def rounding(posed: Posed, q: np.ndarray, r: np.ndarray, blur: Callable[[], float]) -> float:
    """`Dense.rounding` for the whole problem."""
    if len(q) <= MOST_ROWS:
        return Dense(posed.delassus, q, posed.friction, posed.rows.tangents, 0.0, blur).rounding(r)
    scene, rows = posed.scene, posed.rows
    lines, twists = np.zeros((len(scene.mass), 3)), np.zeros((len(scene.mass), 3))
    for body, turn in ((rows.a, rows.turn_a), (rows.b, rows.turn_b)):
        np.add.at(lines, body, np.abs(r)[:, None] * np.abs(rows.linear))
        np.add.at(twists, body, np.abs(r)[:, None] * np.abs(turn))
    lines, twists = scene.lightness * lines, apply(np.abs(posed.inverse), twists)
    moved = np.vecdot(np.abs(rows.linear), lines[rows.a] + lines[rows.b])
    moved += np.vecdot(np.abs(rows.turn_a), twists[rows.a]) + np.vecdot(np.abs(rows.turn_b), twists[rows.b])
    size = float(np.linalg.norm(q))
    return min((HALF_BIT * float(np.linalg.norm(moved)) + blur()) / size, BLURRED) if size > 0 else 0.0


def certificate(posed: Posed, q: np.ndarray, r: np.ndarray) -> float:
    """E of `carom.numerics.friction.problem` for the whole problem, from its rows: no matrix is formed."""
    trace = float(np.sum(_weights(posed)))
    u = rates_after(posed, q, r)
    return natural_residual(u, r, q, posed.friction, posed.rows.tangents, len(q) / trace if trace > 0 else 1.0)


def island_residuals(posed: Posed, q: np.ndarray, r: np.ndarray, island: np.ndarray) -> np.ndarray:
    """E of each island by itself; `island` [rows] is the number of that of each row."""
    rows, width = posed.rows, 1 + posed.rows.tangents
    edge, u = width * rows.contacts, rates_after(posed, q, r)
    added = lambda values: np.bincount(island, values, len(posed.scene.mass))  # noqa: E731
    count, trace = added(None), added(_weights(posed))
    rho = np.where(trace > 0, count / np.where(trace > 0, trace, 1.0), 1.0)
    step = rho[island]
    change = step * u
    rates, contact = posed.rows.by_contact(u).copy(), rows.by_contact(r)
    rates[:, 0] += posed.friction * lengths(rates[:, 1:])
    change[:edge] = (contact - project_coulomb(contact - rows.by_contact(step)[:, :1] * rates, posed.friction)).ravel()
    total = np.sqrt(added(change**2)) + np.finfo(float).eps * np.sqrt(added(r**2))
    size = np.maximum(np.sqrt(added(q**2)), RESTING * np.linalg.norm(q) * np.sqrt(count / len(q)))
    return np.where(size > 0, total / np.where(size > 0, rho * size, 1.0), (total > 0).astype(float))


def _weights(posed: Posed) -> np.ndarray:
    """[rows] the diagonal of W."""
    scene, rows = posed.scene, posed.rows
    linear = (scene.inverse_mass[rows.a] + scene.inverse_mass[rows.b]) * np.vecdot(rows.linear, rows.linear)
    turns = ((rows.a, rows.turn_a), (rows.b, rows.turn_b))
    weights = linear + sum(np.vecdot(turn, apply(posed.inverse[body], turn)) for body, turn in turns)
    return weights if rows.compliance is None else weights + rows.compliance

"""Time-discontinuous Galerkin methods: high order between impacts, impacts at the ends of steps."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from carom.calls import public
from carom.contact.laws import SIMULTANEOUS
from carom.errors import InputError
from carom.methods.method import StepRecord
from carom.methods.status import CONTACT_UNSOLVED, NOT_CONVERGED, OK, UNSETTLED
from carom.methods.timestepping.contact_phase import ClosedContacts, find_closed, finish
from carom.methods.timestepping.moreau import MoreauJean
from carom.methods.timestepping.motion import Motion, Step, Timestepping
from carom.methods.timestepping.printed import printed_step
from carom.numerics.held_fixed import held_fixed
from carom.numerics.linalg import matvec, solve
from carom.numerics.newton import polish, polish_root
from carom.numerics.quadrature import clenshaw_curtis, gauss, integrals, lagrange_basis
from carom.system.contacts_in_step import Near, near_contacts
from carom.wanted import Flag, one_of
from carom.xla.kernel import once, sealed

WEIGHTINGS = ("reduced", "full")
STAGE_ITERATIONS = 100
IMPACT_ITERATIONS = 12


class Tableau(NamedTuple):
    """The numbers of one method, on the unit interval."""

    nodes: np.ndarray  #       c_l
    weights: np.ndarray  #     β_k
    positions: np.ndarray  #   b_lk: q_l = q₀ + h Σ b_lk v_k
    velocities: np.ndarray  #  a_lk: v_l = v₀ + h Σ a_lk v̇_k + κ_l M⁻¹p
    kicks: np.ndarray  #       κ_l


def tableau(degree: int, side: str, weighting: str = "reduced") -> Tableau:
    """From the Lagrange bases of (65) and their integrals (66) of [schindler2014]."""
    nodes, weights = clenshaw_curtis(degree)
    known = slice(0, -1) if side == "-" else slice(1, None)  # where v̇ is known: it has degree M − 1
    tests = _tests(nodes, weights, nodes[known], weighting)
    rates = np.linalg.solve(tests[known], np.diag(weights[known]))  # v̇ there, by M⁻¹(f + Zᵀr) there: 1, with (60)
    velocities, kicks = np.zeros((degree + 1, degree + 1)), np.zeros(degree + 1)
    velocities[:, known] = integrals(nodes[known], nodes) @ rates  # (74), the sums of (70)
    if side == "+":
        velocities[:, 0] = weights[0]
        velocities[:, 1:] -= tests[0] @ rates  # (69)
        kicks = velocities[:, -1] / weights[-1]
    return Tableau(nodes, weights, integrals(nodes), velocities, kicks)


def _tests(nodes: np.ndarray, weights: np.ndarray, known: np.ndarray, weighting: str) -> np.ndarray:
    """∫ l_l l̃_k, for what stands under the sums on the left of (54), (55): as it is, or by the quadrature (60)."""
    if weighting == "reduced":
        return weights[:, None] * lagrange_basis(known, nodes)
    x, w = gauss(len(nodes))  # exact for degree 2M + 1; it is 2M − 1
    return (w[:, None] * lagrange_basis(nodes, x)).T @ lagrange_basis(known, x)


def tableaus(degrees: tuple[int, ...], side: str, weighting: str, number) -> tuple[Tableau, Float[Array, "s s"]]:
    """The numbers of the step with this number, and what takes values at its nodes to the nodes of the highest degree.

    Lower degrees are filled up with copies of their last node, of no weight: they cost what the highest costs.
    """
    most, kinds = max(degrees), sorted(set(degrees))

    def filled(kind: int) -> tuple[Any, ...]:
        plain, short = tableau(kind, side, weighting), most - kind
        copied = lambda x: np.pad(x, [(0, short)] + [(0, 0)] * (x.ndim - 1), mode="edge")  # noqa: E731
        more = lambda x: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, short)])  # noqa: E731
        matrices = [more(copied(x)) for x in (plain.positions, plain.velocities)]
        seen_from = more(lagrange_basis(plain.nodes, clenshaw_curtis(most)[0]))
        return copied(plain.nodes), more(plain.weights), *matrices, copied(plain.kicks), seen_from

    index = jnp.asarray([kinds.index(degree) for degree in degrees])[jnp.minimum(number, len(degrees) - 1)]
    *numbers, seen_from = (jnp.asarray(np.stack(each))[index] for each in zip(*map(filled, kinds), strict=True))
    return Tableau(*numbers), seen_from


def _degree(given: Any) -> int | tuple[int, ...]:
    """One degree, or one for each step."""
    listed = isinstance(given, Iterable) and not isinstance(given, str) and getattr(given, "ndim", 1) > 0
    several, lowest = (list(given) if listed else [given]), 1 if listed else 0
    for degree in several:
        try:
            good = not isinstance(degree, str) and np.ndim(degree) == 0 and int(degree) == degree and lowest <= degree <= 12
        except Exception:  # a masked number has an error of its own
            good = False
        if not good:
            raise InputError(
                f"degree must be a whole number from {lowest} to 12{', in each step' if listed else ''}; got {degree!r}"
            )
    if not several:
        raise InputError("degree is an empty list: give the degree of each step, or one for all")
    return tuple(int(degree) for degree in several) if listed else int(given)


@public
class TimeDG(Timestepping):
    """Time-discontinuous Galerkin timestepping: velocities are polynomials of degree M in each step and jump between steps.

    With the Clenshaw–Curtis nodes c_l and weights β_l, accelerations v̇_l = M⁻¹(f_l + Zᵀr_l) and the impulse p at the end,

        q_l = q₀ + h Σ b_lk v_k,                          q₁ = q₀ + h Σ β_k v_k                                (1)
        v_l = v₀ + h Σ a_lk v̇_k + κ_l M⁻¹Zᵀp,             v₁ = v₀ + h Σ β_k v̇_k + M⁻¹Zᵀp                      (2)
        contacts that are closed at the start: 0 ≤ r_l ⊥ φ̈_l ≥ 0 with friction, at every node                  (3)
        contacts that press at the end keep φ̇ = 0; those that have closed follow the law of impact, by p       (4)

    Both families have the same b and β. a, κ integrate v̇ through all nodes but the last, κ = 0 (side "-", the jump follows the
    step: forecasting); or through all but the first (side "+", the jump precedes it: contemplating).

    A contact is closed where gap and rate are zero to rounding, so q and v say all there is to know. A contact that meets slower
    than twice what the forces change in a step meets plastically. q₁ is projected onto the contacts that press and out of the
    others. Friction acts on the impulse of the whole step, r and p, where the sliding would turn round or stop.

    *Preserves*: non-penetration at the nodes of the grid; resting and sticking velocities are zero to rounding. *Order*: M + 1 in
    smooth motion, with contacts that press or without, M + 2 for even M at the nodes of the grid; 1 in L1 through impacts.
    *Choose it for* long smooth phases between impacts, contact forces of high order, rest after accumulating impacts. Side "+" for
    stiff dampers: v̇ = −λv decays for every λh > 0, while "-" needs λh ≤ 2, 5.4, 14, 21, 34 for M = 1 … 5. Neither for stiff
    springs: an undamped oscillator needs ωh ≤ 2 (M = 1), 2.8 (M = 2), 3.0 ("+", M = 3), 3.1 ("+", M = 4), 5.0 ("-", M = 5); "-"
    with M = 3, 4 and "+" with M = 5, 6 amplify it slowly at any h.

    (1), (2) are (67)–(71) and (72)–(75) of [schindler2014], for M = 1 its Algorithms 3.3 and 3.4; (3) is (19), (4) is (20).
    `degree` 0 is `MoreauJean`: θ = 0 for side "-", θ = 1 for side "+".

    - `degree`: M, of the velocities; or a list, the degree of each step from the start of the run, its last one for all that
      follow: the multi-index α = (M₁, …, M_N) of §3.1. The order is then that of the lowest. Steps of different length are asked
      for by `dt` in `carom.solve`.
    - `side`: "-" or "+".
    - `simultaneous`: "impulse", one impulse on all contacts, or "reflections", see `carom.contact.laws`.
    - `weighting`: "reduced", the weighting integrals by quadrature, (58)–(60), as in all of the paper's schemes; or "full", as they
      stand in (53)–(55). They are the same for M = 1 and 2; from there on "full" has order 3 (odd M) or 5 (even M) only, see
      docs/theory/time_dg.md. For comparison.
    - `printed`: Algorithm 3.4 of [schindler2014] alone, without what is done here beyond it
      (`carom/methods/timestepping/printed.py`): for degree 1, side "-", without friction and joints. For comparison.
    """

    degree: int | tuple[int, ...] = eqx.field(static=True)
    side: str = eqx.field(static=True)
    simultaneous: str = eqx.field(static=True)
    printed: bool = eqx.field(static=True)
    weighting: str = eqx.field(static=True)

    @property
    def preserves(self) -> tuple[str, ...]:
        return () if self.printed else ("rest", "non-penetration")

    def __init__(
        self,
        degree: int | Sequence[int] = 1,
        side: Literal["-", "+"] = "-",
        *,
        simultaneous: str = "impulse",
        printed: Flag = False,
        weighting: str = "reduced",
    ):
        chosen = _degree(degree)
        one_of(simultaneous, SIMULTANEOUS, "simultaneous")
        one_of(weighting, WEIGHTINGS, "weighting")
        if printed and (chosen, side, simultaneous) != (1, "-", "impulse"):
            raise InputError("printed=True is Algorithm 3.4, of degree 1 and side '-', with one impulse on all contacts")
        self.degree, self.side, self.simultaneous = chosen, side, simultaneous
        self.printed, self.weighting = bool(printed), weighting

    @property
    def order(self) -> int:
        full = self.weighting == "full"
        reduced = lambda degree: degree + 1 + (degree % 2 == 0 and degree > 0)  # noqa: E731
        return min((3 if degree % 2 else 5) if full and degree > 2 else reduced(degree) for degree in self._degrees)

    @property
    def _degrees(self) -> tuple[int, ...]:
        return self.degree if isinstance(self.degree, tuple) else (self.degree,)

    @property
    def nodes(self) -> np.ndarray:
        return clenshaw_curtis(max(self._degrees))[0] if self.degree else np.zeros(1)

    def refuses(self, needs: frozenset[str]) -> str | None:
        if "poisson" in needs and self.simultaneous != "reflections":
            return "Poisson's law has two phases, which one impulse per step does not: pass simultaneous='reflections'"
        if self.printed and needs & {"friction", "joints", "constraints"}:
            return "Algorithm 3.4 is written here for contacts without friction, and without joints: leave printed=True out"
        return super().refuses(needs)

    def near(self, motion: Motion, q, v, t, dt) -> Near | None:
        """The contacts that may close before the end of the step: twice what velocity and forces alone change."""
        if self.degree == 0:
            return self._moreau.near(motion, q, v, t, dt)
        contacts = motion.mechanics.contacts
        if contacts.has_room:
            return None
        _, rates = contacts.approach(q, v, t)
        _, change = contacts.approach(q, dt * motion.acceleration(q, v, t), t)
        return near_contacts(contacts, q, v, t, dt, 2 * dt * (jnp.maximum(-rates, 0.0) + jnp.abs(change)))

    def missed(self, motion: Motion, near: Near, done: Step, t_end) -> Bool[Array, ""]:
        if self.degree == 0:
            return jnp.asarray(False)
        seen = near.spread(near.live.astype(jnp.int32), motion.contacts.num_faces) > 0
        return jnp.any((motion.contacts.faces(done.q, t_end) <= 0) & ~seen)

    @property
    def _moreau(self) -> MoreauJean:
        """Degree 0."""
        return MoreauJean(float(self.side == "+"), simultaneous=self.simultaneous)

    def timestep(self, motion: Motion, q, v, t, dt, number, *, differentiable: bool = False) -> Step:
        if self.degree == 0:
            return self._moreau.timestep(motion, q, v, t, dt, number, differentiable=differentiable)
        if self.printed:
            return printed_step(motion, q, v, t, dt, differentiable)
        if isinstance(self.degree, int):
            return _step(self, motion, tableau(self.degree, self.side, self.weighting), q, v, t, dt, differentiable)
        numbers, seen_from = tableaus(self.degree, self.side, self.weighting, number)
        step = _step(self, motion, numbers, q, v, t, dt, differentiable)
        # Polynomials of any degree, by their values at the nodes of the highest: a record has one shape.
        record = step.record
        values = [_product(seen_from, x) for x in (record.velocities, record.forces)]
        return step._replace(record=StepRecord(*values, record.impulses))


class _Stages(NamedTuple):
    velocities: Float[Array, "s n"]
    accelerations: Float[Array, "s n"]
    forces: Float[Array, "s r"]
    solved: Bool[Array, ""]
    change: Float[Array, ""]
    rounds: Array


class _Whole(NamedTuple):
    """A step with its impulse; side "+" goes round once more while the impulse still changes the stages."""

    step: Step
    kick: Float[Array, " n"]  #    M⁻¹Zᵀp
    change: Float[Array, ""]
    rounds: Array


def _step(method: TimeDG, motion: Motion, numbers: Tableau, q, v, t, dt, differentiable: bool) -> Step:
    # A velocity below whose rounding nothing matters.
    pace = held_fixed(lambda q, v, t, dt: dt * jnp.max(jnp.abs(motion.acceleration(q, v, t))) + 1e-300)(q, v, t, dt)
    closed = sealed(lambda q, v, t: find_closed(motion, q, v, t, dt))(q, v, t)
    end = sealed(lambda *args: finish(motion, method.simultaneous, differentiable, *args))
    weights = jnp.asarray(numbers.weights)

    def whole(kick, sets=None):
        stages = _solve_stages(motion, numbers, closed, q, v, t, dt, kick, pace, differentiable)
        q_free = q + dt * matvec(stages.velocities.T, weights)  # (1)
        v_free = v + dt * matvec(stages.accelerations.T, weights)  # (2)
        carried = dt * matvec(stages.forces.T, weights)
        last = end(closed, sets, q_free, v_free, t + dt, dt, stages.forces[-1], carried)
        converged = stages.change <= 1e-9  # linear convergence: what is missing is of the same size
        good = stages.solved & last.solved
        status = jnp.select([~converged, ~good, ~last.settled], [NOT_CONVERGED, CONTACT_UNSOLVED, UNSETTLED], OK)
        record = StepRecord(stages.velocities, stages.forces, last.impulses)
        return Step(last.q, v_free + last.kick, record, last.jump, last.hits, status), last.kick, last.sets

    if method.side == "-" or motion.contacts.num_contacts + motion.num_held == 0:
        return whole(jnp.zeros_like(v))[0]
    return _with_early_kick(whole, v, pace, differentiable)


def _with_early_kick(whole, v, pace, differentiable: bool) -> Step:
    """Side "+": the impulse of a step acts at its start, and is known at its end. A fixed point."""

    def again(now: _Whole) -> _Whole:
        step, kick, _ = whole(now.kick, sets)
        size = jnp.max(jnp.abs(step.v)) + jnp.max(jnp.abs(kick)) + pace
        return _Whole(step, kick, jnp.max(jnp.abs(kick - now.kick)) / size, now.rounds + 1)

    first, kick, sets = whole(jnp.zeros_like(v))
    start = _Whole(first, kick, jnp.where(jnp.any(kick != 0), jnp.inf, 0.0), jnp.zeros((), int))
    final = jax.lax.while_loop(lambda now: (now.change > 1e-14) & (now.rounds < IMPACT_ITERATIONS), again, start)
    failed = (final.change > 1e-9) & (final.step.status == OK)
    step = final.step
    if differentiable:
        kick = polish_root(lambda x: x - whole(x, sets)[1], final.kick)
        step = whole(kick, sets)[0]
    return step._replace(status=jnp.where(failed, NOT_CONVERGED, final.step.status))


def _solve_stages(motion: Motion, numbers: Tableau, closed: ClosedContacts, q, v, t, dt, kick, pace, differentiable) -> _Stages:
    """(1)–(3) by simplified Newton iteration: forces at the nodes, velocities and positions from them, and again. Its matrix, that
    of the start of the step, takes away what stiff forces would amplify; it is 1 where forces depend on neither q nor v."""
    a, b = jnp.asarray(numbers.velocities), jnp.asarray(numbers.positions)
    kicks = jnp.asarray(numbers.kicks)[:, None] * kick
    times = t + dt * jnp.asarray(numbers.nodes)
    size = jax.lax.stop_gradient(jnp.max(jnp.abs(v)) + jnp.max(jnp.abs(kick)) + pace)

    def forces_at(velocities):
        places = q + dt * _product(b, velocities)  # (1)
        at_node = lambda node: closed.accelerate(motion, *node, differentiable)  # noqa: E731
        return jax.lax.map(at_node, (places, velocities, times))  # (3)

    def velocities(accelerations):
        return v + dt * _product(a, accelerations) + kicks  # (2)

    def improve(now: _Stages, correct) -> _Stages:
        found = forces_at(now.velocities)
        new = now.velocities + correct(velocities(found.acceleration) - now.velocities)
        scale = size + dt * jnp.max(jnp.abs(found.acceleration))
        change = jnp.max(jnp.abs(new - now.velocities)) / scale
        return _Stages(new, found.acceleration, found.forces, jnp.all(found.solved), change, now.rounds + 1)

    def unfinished(now: _Stages):
        return (now.change > 1e-15) & (now.rounds < STAGE_ITERATIONS) & ~((now.change < 1e-13) & (now.rounds > 30))

    start = jnp.broadcast_to(v, (len(numbers.nodes), v.shape[0])) + kicks
    nothing = jnp.zeros((len(numbers.nodes), motion.rows))
    yes, zero = jnp.asarray(True), jnp.zeros((), int)

    def iterate(start):
        correct = _corrector(motion, numbers, closed, q, v, t, dt)
        first = _Stages(start, 0 * start, nothing, yes, jnp.asarray(jnp.inf), zero)
        return once(jax.lax.while_loop(unfinished, lambda now: improve(now, correct), first))

    if not differentiable:
        return iterate(start)
    stages, shape = held_fixed(iterate)(start), start.shape

    def defect(x):
        found = forces_at(x.reshape(shape))
        return x - velocities(found.acceleration).reshape(-1), (found.acceleration, found.forces)

    exact, (accelerations, forces) = polish(defect, stages.velocities.reshape(-1))
    return stages._replace(velocities=exact.reshape(shape), accelerations=accelerations, forces=forces)


def _corrector(motion: Motion, numbers: Tableau, closed: ClosedContacts, q, v, t, dt):
    """Newton's correction of all stages from their defect: (1 − h a ⊗ ∂v̇/∂v − h² ab ⊗ ∂v̇/∂q)⁻¹."""
    if motion.explicit:
        return lambda defect: defect
    by_q, by_v = sealed(lambda closed, q, v, t: closed.stiffness(motion, q, v, t))(closed, q, v, t)
    a, ab = numbers.velocities, numbers.velocities @ numbers.positions
    s, n = len(numbers.nodes), v.shape[0]
    blocks = dt * a[:, None, :, None] * by_v[None, :, None, :] + dt**2 * ab[:, None, :, None] * by_q[None, :, None, :]
    matrix = once(jnp.eye(s * n) - blocks.reshape(s * n, s * n))
    return lambda defect: solve(matrix, defect.reshape(-1)).reshape(s, n)


def _product(matrix: Float[Array, "a b"], rows: Float[Array, "b c"]) -> Float[Array, "a c"]:
    """A sum of outer products: a plain matrix product would be a call of its own."""
    return jnp.sum(matrix[:, :, None] * rows[None, :, :], axis=1)

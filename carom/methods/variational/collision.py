"""Variational collision integrators: flow, locate, resolve, go on."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from carom.calls import public
from carom.contact.laws import SIMULTANEOUS
from carom.errors import InputError
from carom.kept.keep import keep_quick
from carom.methods import replay
from carom.methods.method import LAW_OF_IMPACT, Method, State, StepEnd, StepStart
from carom.methods.status import NOT_CONVERGED, OK
from carom.methods.variational import interfaces
from carom.methods.variational.flow import FlowMap
from carom.methods.variational.kicks import FEW
from carom.methods.variational.rules import DIRECTIONS, Composition, Rule, Trapezoidal
from carom.methods.variational.step import Moment, collision_step, glide_step
from carom.system.mechanics import Mechanics
from carom.system.system import System
from carom.wanted import Count, one_of
from carom.xla.kernel import sealed
from carom.xla.programs import WRITTEN_OUT, ask_for
from carom.xla.structure import operations

# Operations of a flow, from which on a program holds it once: compiling it takes as long as a million steps save; or a brief run.
LONG, LONG_BRIEFLY = 1200, 400
NODES_ALONE = {"interfaces": "interfaces are located", "supports": "supports hold", "dry friction": "dry friction is written"}


@public
class VariationalCollision(Method):
    """Discrete Lagrangian flow between impacts, Weierstrass–Erdmann conditions at each [fetecau2003].

    With a rule Φ_s, its energies E_start, E_end and the contacts φᵢ ≥ 0, a step from (q, p) over h is

        flow      (q₁, p₁) = Φ_h(q, p); if no gap closed on the way, this is the step                         (1)
        locate    the first τ with φᵢ(Φ_τ(q, p)) = 0 for some i; there (q̃, p⁻), E⁻ = E_end                    (2)
        resolve   p⁺ = p⁻ + κ d, d in the normal cone of the closed contacts, from the law of impact;          (3)
                  elastic: κ from E_start(Φ_s(q̃, p⁺)) = E⁻ over the next leg s; otherwise κ = 1
        go on     with s = h − τ, or up to the next contact, as often as needed                               (4)

    *Preserves*: momentum maps of symmetries that leave the contacts alone, and non-penetration; the symplectic form where nothing
    is lost or held: elastic impacts with their balance, without friction, forces and velocity constraints. *Order*: that of the
    rule, through impacts too; with constraints or joints, of a rule of order 2 and its compositions.
    *Choose it for* hard, isolated impacts over long times. Not for resting or accumulating contact: it stops there and says so.

    (1)–(4) are (46)–(49) and (78)–(79) of [fetecau2003]; corners as in its §5, (86).

    - `rule`: the discrete Lagrangian, by default the composition of order 4 of the trapezoidal rule.
    - `simultaneous`: how contacts that close at the same instant are resolved, see `carom.contact.laws`.
    - `direction`: where a step looks at the velocity constraints, if there are any: "symmetric" (second order, and as high as
      a `Composition` goes), "forward" or "backward", the (+) and (−) schemes of [rodriguez2025] (first order); (6) of `rules`.
    - `max_impacts_per_step`: so many in one step are taken as coming to rest. By default only impacts with loss are counted (64),
      and those between which no time passes: elastic ones may be many, and end by themselves.
    - `elastic`: the size of an elastic impulse: "balance" takes κ from (3), "reflection" κ = 1, which reflects the momenta at t̃.
    - `crossing`: at interfaces, "free" goes through without an impulse, λ = 0 of (4.14) in [demoures2017], "balance" with the ±λ
      that keeps the discrete energy, (4.15) and (4.17) there; (4) of `interfaces`.
    """

    takes: ClassVar = frozenset(
        {
            "contacts", "restitution", "friction", "laws of speed", "rolling", "poisson", "moving walls",
            "obstacles", "forces", "constraints", "joints", "hamiltonian",
            "rotations", "nodes", "supports", "dry friction", "interfaces", "energy not quadratic", "massless", "controller",
        }
    )  # fmt: skip
    offers: ClassVar = Method.offers | {"gradients", "dense output", "lanes", "one kernel", "discrete action"}
    not_together: ClassVar = LAW_OF_IMPACT
    keeps_nodes: ClassVar = True

    rule: Rule
    simultaneous: str = eqx.field(static=True)
    direction: str = eqx.field(static=True)
    max_impacts_per_step: int | None = eqx.field(static=True)
    elastic: str = eqx.field(static=True)
    crossing: str = eqx.field(static=True)

    def __init__(
        self,
        rule: Rule | None = None,
        *,
        simultaneous: str = "reflections",
        direction: str = "symmetric",
        max_impacts_per_step: Count | None = None,
        elastic: str = "balance",
        crossing: str = "free",
    ):
        rule = Composition(Trapezoidal(), 4) if rule is None else rule  # pyright: ignore[reportCallIssue]
        one_of(simultaneous, SIMULTANEOUS, "simultaneous")
        one_of(direction, DIRECTIONS, "direction")
        one_of(elastic, ("balance", "reflection"), "elastic")
        self.rule, self.simultaneous, self.direction = rule, simultaneous, direction
        one_of(crossing, interfaces.CROSSINGS, "crossing")
        self.max_impacts_per_step, self.elastic, self.crossing = max_impacts_per_step, elastic, crossing

    # -- declarations --------------------------------------------------------------------------------------------------------

    @property
    def balances(self) -> bool:
        return self.elastic == "balance"

    @property
    def order(self) -> int:
        return self.rule.order

    @property
    def preserves(self) -> tuple[str, ...]:
        return ("momentum", "non-penetration")

    def also_preserves(self, system: System) -> tuple[str, ...]:
        spoils = {"restitution", "friction", "forces", "constraints", "interfaces", "massless", "supports", "dry friction"}
        reflected = "contacts" in system.needs and not self.balances
        charts = "rotations" in system.needs and not self.rule.moves_on_groups  # their centres move along
        return () if reflected or charts or system.needs & spoils else ("symplectic",)

    def refuses(self, needs: frozenset[str]) -> str | None:
        if "forces" in needs and not self.rule.takes_forces:
            return "a discrete Lagrangian of one's own does not say how forces enter it"
        for need in NODES_ALONE if not self.rule.steps_nodes else ():
            if need in needs:
                return f"{NODES_ALONE[need]} for Trapezoidal() and compositions of it"
        if "dry friction" in needs and self.rule.goes_back:
            return "a composition goes back in time for a part of each step, and dry friction does not: take rule=Trapezoidal()"
        return super().refuses(needs)

    @property
    def impacts_reserved(self) -> int:
        return 64 if self.max_impacts_per_step is None else self.max_impacts_per_step

    def stability_limit(self, frequency: float) -> float:
        return self.rule.stability_limit / frequency

    # -- one step ------------------------------------------------------------------------------------------------------------

    def bind(self, system: System, params: Any, n: int) -> Mechanics:
        """Masses at nodes as such, where the rule knows how to step them."""
        return system.bind(params, n, general=not self.rule.steps_nodes).with_lagrangian()

    def flow(self, mechanics: Mechanics, without_energy: bool = False) -> FlowMap:
        """(1): the discrete flow of the rule; the same object again, which is then traced once."""
        key = self.rule, without_energy, self.direction
        if key not in mechanics.flows:
            mechanics.flows[key] = self.rule.flow(mechanics, without_energy, self.direction)
        return mechanics.flows[key]

    def needs_chart(self, mechanics: Mechanics) -> bool:
        return super().needs_chart(mechanics) and not self.rule.moves_on_groups

    def prepare(self, mechanics: Mechanics) -> None:
        self.flow(mechanics)
        if not self.flies_once(mechanics):
            self.flow(mechanics, without_energy=True)

    def flies_once(self, mechanics: Mechanics) -> bool:
        """Is every step taken with care, for one copy of the flow in a program instead of two? In charts it is so; and where the
        flow is so long that what care adds to it is little, and a second copy takes as long to compile as the first."""
        if mechanics.functions.is_chart:
            return True
        if mechanics.system.transmits or (mechanics.dim <= FEW and self.flow(mechanics, without_energy=True).written_out):
            return False
        if "is long" not in mechanics.flows:
            flow = self.flow(mechanics, without_energy=mechanics.contacts.num_contacts == 0)
            example = jnp.zeros(mechanics.size), jnp.zeros(mechanics.dim), jnp.zeros(()), jnp.zeros(())
            mechanics.flows["is long"] = operations(flow, *example) >= (LONG_BRIEFLY if mechanics.brief else LONG)
        return mechanics.flows["is long"]

    def memory(self, mechanics: Mechanics, q, p, t, dt) -> Any:
        return interfaces.sides(mechanics, q, p, t, dt) if mechanics.system.transmits else ()

    def glide(self, mechanics: Mechanics):
        return None if self.flies_once(mechanics) else self.glide_of(mechanics)

    def glide_of(self, mechanics: Mechanics):
        """`glide` for flows of any length."""
        flow = self.flow(mechanics, without_energy=True)
        if mechanics.system.transmits:
            return interfaces.glide(mechanics, flow)
        if flow.written_out:
            ask_for(WRITTEN_OUT)
        see = sealed(mechanics.approach)
        return see, lambda q, p, t, dt, seen, memory: glide_step(flow, see, q, p, t, dt, seen)

    def one_step(self, mechanics: Mechanics, start: StepStart) -> StepEnd:
        if mechanics.contacts.num_contacts == 0:
            out = self.flow(mechanics, without_energy=True)(start.q, start.p, start.t, start.dt)
            return start.end(out.q, out.p, jnp.where(out.converged, OK, NOT_CONVERGED))
        if mechanics.system.transmits:
            return interfaces.step(self, mechanics, start)
        begin = Moment.begin(start.q, start.p, start.t, mechanics.contacts.num_faces, start.table, start.num_impacts, ~start.asked)
        rare = self.flies_once(mechanics)  # impacts, among the steps taken with care
        done = collision_step(self, mechanics, self.flow(mechanics), begin, start.t_end, start.step, rare)
        return StepEnd(done.q, done.p, done.status, done.table, done.num_impacts, start.memory)  # pyright: ignore[reportArgumentType]

    def replayed_by(self) -> tuple[Any, Any]:
        return self, None

    def replayed_flow(self, mechanics: Mechanics) -> FlowMap:
        return self.flow(mechanics)

    def step(self, system: System, state: State, dt: Any, params: Any = None) -> State:
        """One step, as a pure function that can be jitted, vmapped and differentiated, through impacts too."""
        return replay.one_step(self, system, state, dt, params)

    def check(self, system: System, params: Any, state: State, dt: float) -> None:
        """The discrete Lagrangian must determine the next step."""
        if system.massless is None:
            return
        matrix = np.asarray(_step_matrix(self, system, params, state, jnp.asarray(dt)))
        size = np.abs(matrix).max(axis=1, keepdims=True)
        if not (np.all(size > 0) and np.linalg.cond(matrix / size) < 1e12):
            direction = np.array2string(np.abs(np.asarray(system.massless[0])), precision=3, suppress_small=True)
            raise InputError(
                f"the lagrangian is degenerate (no kinetic energy along v = {direction}) and {self.rule.name} cannot step it: "
                "D₁D₂L_d is singular at the initial state. Try Midpoint() or Galerkin(2), which see the potential at inner points, "
                "or EventDriven()"
            )


@public
def Variational(rule: Rule | None = None) -> VariationalCollision:
    """A variational integrator for systems without contacts: the same method, the same rules."""
    return VariationalCollision(rule)


@keep_quick
def _step_matrix(method: VariationalCollision, system: System, params: Any, state: State, dt):
    return method.rule.matrix(system.bind(params, state.q.shape[0]), state, dt, method.direction)

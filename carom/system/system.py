"""What moves: a Lagrangian or a Hamiltonian, contacts, velocity constraints, joints and forces."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import floats, public
from carom.closures.per_object import per_object
from carom.contact.contact import Contact, contacts_of
from carom.contact.joint import Joint, joints_of
from carom.errors import InputError
from carom.named import Named
from carom.spaces.space import Space
from carom.system.controller import Controller
from carom.system.functions import Functions
from carom.system.hamiltonian import HamiltonianMechanics
from carom.system.mechanics import LagrangianMechanics, Mechanics


def _directions(massless: Any) -> Float[Array, "r n"]:
    try:
        rows = jnp.atleast_2d(jnp.asarray(massless if isinstance(massless, jax.Array) else floats(massless)))
        good = rows.ndim == 2 and rows.size > 0
        if good and not isinstance(rows, jax.core.Tracer):
            good = bool(np.isfinite(rows).all() and np.any(rows, axis=1).all())
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InputError(f"massless must be finite directions other than zero, one per row, such as [[0, 1]]; got {massless!r}")
    return rows


@public
class System(eqx.Module):
    """The physics, and nothing of the numerics.

    - `lagrangian(q, v, t, params)`: any subset of these, by name. Mass may depend on the configuration, terms linear in v
      and an explicit time are fine.
    - `contacts`: a list of `Contact`.
    - `force(q, v, t, u, params)`: a covector added by the Lagrange–d'Alembert principle (drag, drive, control, dampers). `u` is the
      command of the controller.
    - `joints`: a list of `Joint`.
    - `space`: a `Euclidean(n, names)`, to name the coordinates (otherwise the length of q0 decides); or `SO3()`, `SE3()`, a
      `Product` or a `Power` with them: q then holds unit quaternions, v angular velocities (and velocities) in the body, and
      forces and constraints are written for these.
    - `constraints(q, t, params)`: the matrix A of velocity constraints A v = 0, one row each (rolling, blades, skates).
    - `hamiltonian(q, p, t, params)`: instead of a Lagrangian.
    - `massless`: directions in which the Lagrangian has no kinetic energy, one per row. `solve` finds them by itself; a pure
      `rollout` has to be told.
    - `controller`: a `Controller`, asked at fixed instants, whose command `u` is held in between.
    """

    transmits = False  # carom/system/lumped.py: contacts that the motion goes through
    highest_frequency = None

    lagrangian: Named | None
    contacts: tuple[Contact, ...]
    force: Named | None
    space: Space | None
    joints: tuple[Joint, ...]
    constraints: Named | None
    hamiltonian: Named | None
    massless: Float[Array, "r n"] | None
    controller: Controller | None
    command: Float[Array, " m"] | None  # that is held at the moment: set by the loop

    def __init__(
        self,
        lagrangian: Callable[..., Any] | None = None,
        contacts: Sequence[Contact] = (),
        force: Callable[..., Any] | None = None,
        space: Space | None = None,
        joints: Sequence[Joint] = (),
        *,
        constraints: Callable[..., Any] | None = None,
        hamiltonian: Callable[..., Any] | None = None,
        massless: Any = None,
        controller: Controller | None = None,
    ):
        known = ("q", "v", "t", "params")
        if (lagrangian is None) == (hamiltonian is None):
            raise InputError("a System is given by a lagrangian or by a hamiltonian=: pass one of the two")
        self.lagrangian = None if lagrangian is None else Named(lagrangian, known, "lagrangian")
        self.hamiltonian = None if hamiltonian is None else Named(hamiltonian, ("q", "p", "t", "params"), "hamiltonian")
        self.constraints = None if constraints is None else Named(constraints, ("q", "t", "params"), "constraints")
        self.massless = None if massless is None else _directions(massless)
        self.contacts = contacts_of(contacts)
        if len({contact.law for contact in self.contacts}) > 1:
            raise InputError("all contacts of a system follow one law of impact, 'newton' or 'poisson'; here are both")
        self.force = None if force is None else Named(force, (*known, "u"), "force")
        self.controller, self.command = controller, None
        self._check_controller()
        self.space = space
        self.joints = joints_of(joints)
        if self.hamiltonian is not None and self.joints:
            raise InputError(
                "joints are written for a lagrangian: give the system by one, or write the joints as velocity constraints"
            )

    def _check_controller(self) -> None:
        asks = self.force is not None and self.force.asks_for("u")
        if asks and self.controller is None:
            raise InputError("the force asks for 'u', the command of a controller: pass controller=carom.Controller(rule, every=…)")
        if self.controller is not None and not asks:
            raise InputError("there is a controller, but no force that asks for its command 'u': write force=lambda u: …")

    def on_grid(self, dt: Any) -> "System":
        """With a controller that counts in steps of dt."""
        if self.controller is None:
            return self
        return eqx.tree_at(lambda s: s.controller, self, self.controller.on_grid(dt))

    def holding(self, command: Any) -> "System":
        """While this command is held."""
        return eqx.tree_at(lambda s: s.command, self, command, is_leaf=lambda x: x is None)

    @property
    def other_functions(self) -> tuple[Named, ...]:
        """Of q, t and params, that a kind of system has beside those of all systems."""
        return ()

    @property
    @per_object
    def needs(self) -> frozenset[str]:
        """What this system asks of a method, as far as its parts tell: see `carom.methods.capabilities`."""
        found = set()
        if self.contacts:
            found.add("interfaces" if self.transmits else "contacts")
        for contact in self.contacts:
            found |= contact.needs
        parts = {"forces": self.force, "constraints": self.constraints, "hamiltonian": self.hamiltonian}
        found |= {need for need, part in {**parts, "controller": self.controller}.items() if part is not None}
        if self.joints:
            found.add("joints")
        if self.massless is not None:
            found.add("massless")
        if self.space is not None and self.space.size != self.space.dim:
            found.add("rotations")
        return frozenset(found)

    def bind(self, params: Any, dim: int, *, general: bool = False) -> Mechanics:
        """The system with its parameters filled in: what the methods compute with. `general` asks for the kind that knows nothing
        of masses at nodes."""
        functions = Functions(self, params, dim)
        return LagrangianMechanics(functions) if self.hamiltonian is None else HamiltonianMechanics(functions)

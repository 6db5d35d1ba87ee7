"""carom: mechanical systems with collisions, simulated so that what mechanics conserves stays conserved.

Three nouns and one verb: a `System` is the physics, a method the numerics, a `Solution` the data; `solve` runs them.
"""

from importlib.metadata import version as _version

if _version("jax") == "0.10.2":
    raise ImportError(
        "jax 0.10.2 silently returns wrong numbers on the CPU (jax issue 39103). Install another version: pip install 'jax!=0.10.2'"
    )

import jax as _jax

_jax.config.update("jax_enable_x64", True)

from carom import diagnostics, drawing, models
from carom.bodies import motions, shapes
from carom.bodies.run import WorldRun
from carom.bodies.world import World
from carom.contact.contact import Contact
from carom.contact.joint import Joint
from carom.errors import CaromError, InputError, SolveError, SweepError
from carom.many.ensemble import ensemble
from carom.many.expectation import expectation
from carom.many.sweep import sweep
from carom.many.trajectories import Ensemble
from carom.methods.hybrid import Hybrid
from carom.methods.timestepping.moreau import MoreauJean
from carom.methods.timestepping.time_dg import TimeDG
from carom.methods.variational.collision import Variational, VariationalCollision
from carom.methods.variational.rules import Composition, Galerkin, Gamma, Left, Midpoint, Right, Rule, Trapezoidal
from carom.results.solution import Impacts, Solution, Status
from carom.results.store import load
from carom.running.rollout import rollout
from carom.running.solve import solve
from carom.spaces.groups import SE3, SO3
from carom.spaces.space import Euclidean, Power, Product
from carom.system.impact_map import impact_map
from carom.system.lumped import LumpedSystem
from carom.system.system import System

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """EventDriven stands on diffrax and carom.report on matplotlib, whose imports take a second: loaded when asked for."""
    if name == "report":
        import importlib

        return importlib.import_module("carom.report")
    if name == "EventDriven":
        from carom.methods.event_driven import EventDriven

        return EventDriven
    raise AttributeError(f"module 'carom' has no attribute {name!r}")


__all__ = [
    "CaromError",
    "Composition",
    "Contact",
    "Ensemble",
    "Euclidean",
    "EventDriven",
    "Galerkin",
    "Gamma",
    "Hybrid",
    "Impacts",
    "InputError",
    "Joint",
    "Left",
    "LumpedSystem",
    "Midpoint",
    "MoreauJean",
    "SE3",
    "SO3",
    "Power",
    "Product",
    "Right",
    "Rule",
    "Solution",
    "SolveError",
    "Status",
    "SweepError",
    "System",
    "TimeDG",
    "Trapezoidal",
    "Variational",
    "VariationalCollision",
    "World",
    "WorldRun",
    "diagnostics",
    "impact_map",
    "drawing",
    "ensemble",
    "expectation",
    "load",
    "models",
    "motions",
    "rollout",
    "shapes",
    "solve",
    "sweep",
]

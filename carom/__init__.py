"""carom: mechanical systems with collisions, simulated so that what mechanics conserves stays conserved.

Three nouns and one verb: a `System` is the physics, a method the numerics, a `Solution` the data; `solve` runs them.
"""

import os as _os
import signal as _signal
import sys as _sys
from contextlib import suppress as _suppress


def _leave(*_: object) -> None:
    _os.write(2, b"stopped while carom was being loaded\n")
    _os._exit(130)  # an exception would come out of the middle of somebody's import, and not as what it is


_words = {_os.path.basename(word) for word in _sys.orig_argv[:3]}
if _words & {"carom", "carom.exe", "carom.cli"} and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    with _suppress(ValueError):  # Ctrl-C while the command line is being loaded ends it with a line; carom.cli takes over then
        _signal.signal(_signal.SIGINT, _leave)

from importlib.metadata import version as _version  # not before: it takes a tenth of a second, in which Ctrl-C may be pressed

if _version("jax") == "0.10.2":
    raise ImportError(
        "jax 0.10.2 silently returns wrong numbers on the CPU (jax issue 39103). Install another version: pip install 'jax!=0.10.2'"
    )

import jax as _jax

_jax.config.update("jax_enable_x64", True)

from carom.xla.programs import keep_programs as _keep_programs

_keep_programs()

from carom.xla.forks import watch_forks as _watch_forks

_watch_forks()

from carom.results.views import register as _register

_register(
    report="carom.report.html:write_report",
    animate="carom.report.movie:animate",
    plot="carom.report.plots:plot_solution",
    save="carom.results.store:save",
    dense="carom.results.dense:dense_output",
    reactions="carom.results.reactions:reactions",
    extend="carom.running.extending:extend",
    plot_ensemble="carom.report.ensembles:plot_ensemble",
    report_ensemble="carom.report.still_page:report_ensemble",
    report_billiard="carom.report.still_page:report_billiard",
    plot_billiard="carom.report.ensembles:plot_billiard",
    plot_diagram="carom.report.diagrams:plot_diagram",
    plot_exponents="carom.report.diagrams:plot_exponents",
    plot_section="carom.report.diagrams:plot_section",
    view="carom.live.viewing:view_solution",
    view_world="carom.live.viewing:view_world",
    view_run="carom.live.viewing:view_run",
    play_world="carom.live.viewing:play_world",
    play_model="carom.live.viewing:play_model",
    report_world="carom.report.worlds:write_report",
    save_world="carom.bodies.world_store:save",
    load_world="carom.bodies.world_store:load",
    extend_world="carom.bodies.march:extend",
)

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for readers, type checkers and the documentation; _HOMES says the same
    from carom import diagnostics, drawing, models
    from carom.bodies import motions, shapes
    from carom.bodies.run import WorldRun
    from carom.bodies.world import World
    from carom.contact.contact import Contact
    from carom.contact.convex import Convex, separations
    from carom.contact.joint import Joint
    from carom.errors import CaromError, InputError, SolveError, SweepError
    from carom.live.viewing import play
    from carom.many.ensemble import ensemble
    from carom.many.expectation import expectation
    from carom.many.sweep import sweep
    from carom.many.trajectories import Ensemble
    from carom.methods.adaptive import Adaptive
    from carom.methods.event_driven import EventDriven
    from carom.methods.hybrid import Hybrid
    from carom.methods.stops import Stop
    from carom.methods.timestepping.moreau import MoreauJean
    from carom.methods.timestepping.time_dg import TimeDG
    from carom.methods.variational.collision import Variational, VariationalCollision
    from carom.methods.variational.discrete_action import DiscreteLagrangian, discrete_lagrangian
    from carom.methods.variational.rules import Composition, Galerkin, Gamma, Left, Midpoint, Right, Rule, Trapezoidal
    from carom.results.solution import Impacts, Solution, Status
    from carom.results.store import load
    from carom.running.rollout import rollout
    from carom.running.solve import solve
    from carom.spaces.groups import SE3, SO3
    from carom.spaces.sliding import rigid_velocity, sliding_velocity
    from carom.spaces.space import Euclidean, Power, Product
    from carom.system.chain import Chain
    from carom.system.controller import Controller
    from carom.system.impact_map import impact_map
    from carom.system.lumped import LumpedSystem
    from carom.system.supports import Supports
    from carom.system.system import System

__version__ = "0.1.0"

# Loaded when first asked for: what a program does not use costs it no time. tests/test_house.py compares this with the list above.
_HOMES = {
    "carom.bodies.run": "WorldRun",
    "carom.bodies.world": "World",
    "carom.contact.contact": "Contact",
    "carom.contact.convex": "Convex separations",
    "carom.contact.joint": "Joint",
    "carom.errors": "CaromError InputError SolveError SweepError",
    "carom.live.viewing": "play",
    "carom.many.ensemble": "ensemble",
    "carom.many.expectation": "expectation",
    "carom.many.sweep": "sweep",
    "carom.many.trajectories": "Ensemble",
    "carom.methods.event_driven": "EventDriven",
    "carom.methods.adaptive": "Adaptive",
    "carom.methods.hybrid": "Hybrid",
    "carom.methods.stops": "Stop",
    "carom.methods.timestepping.moreau": "MoreauJean",
    "carom.methods.timestepping.time_dg": "TimeDG",
    "carom.methods.variational.collision": "Variational VariationalCollision",
    "carom.methods.variational.discrete_action": "DiscreteLagrangian discrete_lagrangian",
    "carom.methods.variational.rules": "Composition Galerkin Gamma Left Midpoint Right Rule Trapezoidal",
    "carom.results.solution": "Impacts Solution Status",
    "carom.results.store": "load",
    "carom.running.rollout": "rollout",
    "carom.running.solve": "solve",
    "carom.spaces.groups": "SE3 SO3",
    "carom.spaces.sliding": "rigid_velocity sliding_velocity",
    "carom.spaces.space": "Euclidean Power Product",
    "carom.system.controller": "Controller",
    "carom.system.chain": "Chain",
    "carom.system.impact_map": "impact_map",
    "carom.system.lumped": "LumpedSystem",
    "carom.system.supports": "Supports",
    "carom.system.system": "System",
}
_MODULES = {
    "diagnostics": "carom.diagnostics",
    "drawing": "carom.drawing",
    "models": "carom.models",
    "motions": "carom.bodies.motions",
    "report": "carom.report",
    "shapes": "carom.bodies.shapes",
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    import gc
    from importlib import import_module

    if name not in _WHERE and name not in _MODULES:
        raise AttributeError(f"module 'carom' has no attribute {name!r}")
    collecting = gc.isenabled()
    gc.disable()  # loading leaves nothing to collect, and with JAX in memory a collection takes as long as all of it
    try:
        if name in _MODULES:
            return import_module(_MODULES[name])
        found = globals()[name] = getattr(import_module(_WHERE[name]), name)
        return found
    finally:
        if collecting:
            gc.enable()


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


__all__ = [
    "CaromError",
    "Chain",
    "Composition",
    "Contact",
    "Controller",
    "Convex",
    "DiscreteLagrangian",
    "Ensemble",
    "Euclidean",
    "EventDriven",
    "Galerkin",
    "Gamma",
    "Adaptive",
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
    "Stop",
    "Supports",
    "SweepError",
    "System",
    "TimeDG",
    "Trapezoidal",
    "Variational",
    "VariationalCollision",
    "World",
    "WorldRun",
    "diagnostics",
    "discrete_lagrangian",
    "impact_map",
    "drawing",
    "ensemble",
    "expectation",
    "load",
    "models",
    "play",
    "motions",
    "rigid_velocity",
    "rollout",
    "separations",
    "shapes",
    "sliding_velocity",
    "solve",
    "sweep",
]

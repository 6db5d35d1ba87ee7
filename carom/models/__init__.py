"""Ready-made systems: the examples of the papers and a few classics, with exact answers where they are known."""

import gc
import sys
import types
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for readers, type checkers and the documentation; _HOMES says the same
    from collections.abc import Callable

    from carom.models.balls import bowl, free_ball, resting_ball, sphere, zeno_ball
    from carom.models.bars import BAR_ROWS, bars, contact_force, end_velocities
    from carom.models.bars_exact import bars_exact
    from carom.models.beam import beam, beam_energies, momentum_maps
    from carom.models.beam_pair import beam_pair
    from carom.models.beam_parts import Section
    from carom.models.billiards import Billiard, BilliardRun, discs, spheres
    from carom.models.blocks import block, stack
    from carom.models.grains import chain_over_peg, grain_column
    from carom.models.mechanisms import slider_crank, woodpecker
    from carom.models.model import Model
    from carom.models.nonholonomic import chaplygin_sleigh, nonholonomic_particle, nonholonomic_pendulum, rolling_disk
    from carom.models.particles import corner, drag, particle
    from carom.models.pendulums import double_pendulum, pendulum
    from carom.models.planar import ellipse, friction_ball, polygon, star
    from carom.models.rigid import rigid_body, star_in_space
    from carom.models.rows import cradle, piston
    from carom.models.tabletop import arch, card_house, dice, dominoes
    from carom.models.toys import euler_disk, newtons_cradle, rattleback, tippe_top
    from carom.models.world_model import WorldModel

    ALL: dict[str, Callable[..., Model]]
    SCENES: dict[str, Callable[..., WorldModel]]

# Loaded when first asked for: a particle needs neither beams nor bodies with shapes.
_HOMES = {
    "balls": "bowl free_ball resting_ball sphere zeno_ball",
    "bars": "BAR_ROWS bars contact_force end_velocities",
    "bars_exact": "bars_exact",
    "beam": "beam beam_energies momentum_maps",
    "beam_pair": "beam_pair",
    "beam_parts": "Section",
    "billiards": "Billiard BilliardRun discs spheres",
    "blocks": "block stack",
    "grains": "chain_over_peg grain_column",
    "mechanisms": "slider_crank woodpecker",
    "model": "Model",
    "nonholonomic": "chaplygin_sleigh nonholonomic_particle nonholonomic_pendulum rolling_disk",
    "particles": "corner drag particle",
    "pendulums": "double_pendulum pendulum",
    "planar": "ellipse friction_ball polygon star",
    "rigid": "rigid_body star_in_space",
    "rows": "cradle piston",
    "tabletop": "arch card_house dice dominoes",
    "toys": "euler_disk newtons_cradle rattleback tippe_top",
    "world_model": "WorldModel",
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names.split()}

# Every model that can be built without arguments, by name (ALL): what `carom list` shows and `carom run` takes.
_MODELS = (
    "particle star ellipse polygon corner cradle piston pendulum double_pendulum drag friction_ball bars beam beam_pair free_ball "
    "resting_ball zeno_ball bowl sphere block stack rigid_body star_in_space nonholonomic_pendulum rolling_disk chaplygin_sleigh "
    "nonholonomic_particle slider_crank woodpecker"
)
# Scenes of bodies with shapes, in the plane and in space: worlds that can be built without arguments (SCENES).
_SCENES = "dice dominoes card_house arch newtons_cradle rattleback tippe_top euler_disk grain_column chain_over_peg"
_LISTS = {"ALL": _MODELS, "SCENES": _SCENES}


def __getattr__(name: str) -> Any:
    if name in _LISTS:
        found: Any = {each: getattr(_self, each) for each in _LISTS[name].split()}
    elif name in _WHERE:
        found = getattr(_loaded(f"{__name__}.{_WHERE[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    setattr(_self, name, found)
    return found


def _loaded(module: str) -> types.ModuleType:
    """Loading leaves nothing to collect, and with JAX in memory a collection takes as long as all of it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if collecting:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)


class _Models(types.ModuleType):
    """Some modules are called like the model in them: loading one must not put it in the place of its model."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, types.ModuleType) and name in _WHERE):
            super().__setattr__(name, value)


_self = sys.modules[__name__]
_self.__class__ = _Models

__all__ = [
    "ALL",
    "SCENES",
    "Section",
    "WorldModel",
    "arch",
    "card_house",
    "chain_over_peg",
    "dice",
    "dominoes",
    "euler_disk",
    "grain_column",
    "newtons_cradle",
    "rattleback",
    "tippe_top",
    "BAR_ROWS",
    "Billiard",
    "BilliardRun",
    "Model",
    "bars",
    "bars_exact",
    "beam",
    "beam_energies",
    "beam_pair",
    "contact_force",
    "block",
    "bowl",
    "chaplygin_sleigh",
    "corner",
    "cradle",
    "discs",
    "double_pendulum",
    "drag",
    "ellipse",
    "end_velocities",
    "free_ball",
    "friction_ball",
    "momentum_maps",
    "nonholonomic_particle",
    "nonholonomic_pendulum",
    "particle",
    "pendulum",
    "piston",
    "polygon",
    "resting_ball",
    "rolling_disk",
    "slider_crank",
    "sphere",
    "spheres",
    "stack",
    "star",
    "woodpecker",
    "zeno_ball",
    "rigid_body",
    "star_in_space",
]

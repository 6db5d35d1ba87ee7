"""Ready-made systems: the examples of the papers and a few classics, with exact answers where they are known."""

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

# Every model that can be built without arguments, by name: what `carom list` shows and `carom run` takes.
ALL: dict[str, Callable[..., Model]] = {
    factory.__name__: factory
    for factory in (
        particle, star, ellipse, polygon, corner, cradle, piston, pendulum, double_pendulum, drag, friction_ball, bars, beam,
        beam_pair, free_ball, resting_ball, zeno_ball, bowl, sphere, block, stack, rigid_body, star_in_space,
        nonholonomic_pendulum, rolling_disk, chaplygin_sleigh, nonholonomic_particle,
        slider_crank, woodpecker,
    )
}  # fmt: skip

# Scenes of bodies with shapes, in the plane and in space: worlds that can be built without arguments.
SCENES: dict[str, Callable[..., WorldModel]] = {
    factory.__name__: factory
    for factory in (
        dice, dominoes, card_house, arch, newtons_cradle, rattleback, tippe_top, euler_disk, grain_column, chain_over_peg,
    )
}  # fmt: skip

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

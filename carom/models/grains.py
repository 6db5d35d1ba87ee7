"""Many bodies at once: a column of grains that collapses, a chain over a peg."""

from itertools import pairwise

import numpy as np

from carom.bodies.run import WorldRun
from carom.bodies.shapes import Disc, HalfPlane, Segment
from carom.bodies.world import World
from carom.calls import public
from carom.errors import InputError
from carom.models.world_model import WorldModel
from carom.wanted import AtLeastTwo, Count, NotNegative, Positive, Whole

GRAVITY = 9.81


@public
def grain_column(
    columns: Count = 6, rows: Count = 10, radius: Positive = 0.005, friction: NotNegative = 0.4, seed: Whole = 1
) -> WorldModel:
    """A column of grains, let go: it collapses into a heap, in the plane. Tall columns run out farther [lube2004].

    The grains have radii that differ by a tenth and touch nothing at the start. Walls are not needed: they are let go at time zero.
    """
    if columns < 1 or rows < 1:
        raise InputError(f"grain_column: there must be at least one column and one row; got {columns} and {rows}")
    rng = np.random.default_rng(seed)
    world = World(gravity=(0, -GRAVITY))
    world.fix(HalfPlane(), name="ground")
    for j in range(rows):
        for i in range(columns - j % 2):
            x = 2 * radius * (i - 0.5 * (columns - 1) + 0.5 * (j % 2))
            y = radius * (1 + np.sqrt(3.0) * j)
            world.add(Disc(radius * rng.uniform(0.9, 0.999)), density=2500, position=(x, y), name=f"grain {len(world.bodies)}")
    world.material(friction)
    tall = 2 * radius * rows
    return WorldModel(
        "grain_column",
        "a column of grains that collapses into a heap",
        world,
        0.01 * np.sqrt(tall / GRAVITY),
        500,
        "lube2004",
        numbers={"half_width": radius * columns, "height": tall},
    )


def runout(run: WorldRun) -> float:
    """How far the grains reach at the end, from the middle to the 95 % farthest."""
    return float(np.quantile(np.abs(run.x[-1, run.free, 0]), 0.95))


@public
def chain_over_peg(
    left: Whole = 10,
    right: Whole = 14,
    bends: AtLeastTwo = 8,
    link: Positive = 0.02,
    rim: Positive = 0.003,
    friction: NotNegative = 0.0,
) -> WorldModel:
    """A chain of links over a round peg, in the plane: `left` and `right` links hang, and `bends` + 1 lie around the peg.

    Without friction the longer side pulls it over: the excess x grows like cosh(λt) with λ² = 2g/(length of the chain), as long
    as the shorter end has not reached the peg; a little energy goes where links meet the peg. With friction it comes to rest if the
    weights of the two sides differ by less than the factor e^(πμ), or nearly so: the links are not a rope. Links touch the peg at
    their middles.
    """
    if left < 0 or right < 0 or bends < 2:
        raise InputError(f"chain_over_peg: left and right must not be negative, bends at least 2; got {left}, {right} and {bends}")
    turn = np.pi / bends
    touch = 0.5 * link / np.tan(0.5 * turn)  # from the middle of the peg to the middle lines of the links around it
    if touch <= 1.5 * rim:
        raise InputError(f"chain_over_peg: links of {link} with a rim of {rim} do not leave room for a peg; take more bends")
    angle = np.pi - turn * (np.arange(bends + 2) - 0.5)  # of the joints around the peg
    around = touch / np.cos(0.5 * turn) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    hang = lambda start, count: [start - (0.0, link * k) for k in range(1, count + 1)]  # noqa: E731
    joints = np.array([*hang(around[0], left)[::-1], *around, *hang(around[-1], right)])
    world = World(gravity=(0, -GRAVITY))
    world.fix(Disc(touch - rim), name="peg")
    previous = None
    for i, (a, b) in enumerate(pairwise(joints)):
        middle = 0.5 * (a + b)
        here = world.add(Segment(a - middle, b - middle, rim), mass=0.01, position=middle, name=f"link {i + 1}")
        if previous is not None:
            world.joint("ball", previous, here, at=a)
        previous = here
    world.material(friction)
    length = link * (len(joints) - 1)
    rate = np.sqrt(2 * GRAVITY / length)
    numbers = {"rate": rate, "length": length, "excess": 0.5 * link * (right - left)}
    return WorldModel("chain_over_peg", "a chain that slides over a peg", world, 2e-3, 250, numbers=numbers)

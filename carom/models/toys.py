"""Toys that puzzle: a Newton's cradle, a rattleback, a tippe top, Euler's disk."""

import numpy as np

from carom.bodies import quaternions
from carom.bodies.run import WorldRun
from carom.bodies.shapes import Cylinder, Ellipsoid, HalfSpace, Sphere
from carom.bodies.world import World
from carom.calls import public
from carom.errors import InputError
from carom.models.world_model import WorldModel
from carom.wanted import AtLeastTwo, Count, NotNegative, Number, Positive, PositiveTriple

GRAVITY = 9.81
UP = np.array([0.0, 0.0, 1.0])


@public
def newtons_cradle(
    balls: AtLeastTwo = 5, lifted: Count = 1, angle: Number = 0.5, radius: Positive = 0.01, string: Positive = 0.12
) -> WorldModel:
    """Newton's cradle in space: elastic balls that touch, each on two strings; `lifted` of them are let go at an angle.

    As many leave at the other end, and rise as high. The strings are rods without mass that end in the middle of the balls.
    """
    if balls < 2 or not 1 <= lifted < balls or not 0 < angle < 1.5:
        raise InputError(f"newtons_cradle: 1 ≤ lifted < balls, and an angle in (0, 1.5); got {lifted}, {balls} and {angle}")
    world = World(gravity=(0, 0, -GRAVITY))
    half, drop = 0.4 * string, string * np.sqrt(1 - 0.4**2)
    for i in range(balls):
        x = 2 * radius * i
        swing = angle if i < lifted else 0.0
        where = np.array([x - drop * np.sin(swing), 0.0, drop * (1 - np.cos(swing))])
        ball = world.add(Sphere(radius), density=7800, position=where, name=f"ball {i + 1}")
        for side in (-half, half):
            world.joint("distance", ball, at=(where, (x, side, drop)), name=f"string {i + 1}{'ab'[int(side > 0)]}")
    world.material(restitution=1.0)
    period = 2 * np.pi * np.sqrt(drop / GRAVITY)
    numbers = {"height": drop * (1 - np.cos(angle)), "period": period, "drop": drop}
    return WorldModel(
        "newtons_cradle",
        "elastic balls on strings that pass an impulse on",
        world,
        period / 700,
        1400,
        view=(-70.0, 10.0),
        numbers=numbers,
    )


@public
def rattleback(
    spin: Number = -5.0,
    skew: Number = 0.0873,
    rock: Number = 0.05,
    half_axes: PositiveTriple = (0.2, 0.04, 0.03),
    friction: NotNegative = 1.0,
) -> WorldModel:
    """A rattleback: an ellipsoid whose axes of inertia are turned by `skew` about the vertical against those of its shape.

    Spun one way it begins to rock, stops, and turns back; the other way it goes on [garcia1988]. `rock` starts the rocking.
    """
    a, b, c = half_axes
    moments = np.diag([b * b + c * c, a * a + c * c, a * a + b * b]) / 5
    turn = quaternions.matrix(quaternions.exponential(skew * UP))
    world = World(gravity=(0, 0, -GRAVITY))
    world.fix(HalfSpace(), name="table")
    world.add(
        Ellipsoid(a, b, c), mass=1.0, inertia=turn @ moments @ turn.T, position=(0, 0, c), spin=(0, rock, spin), name="rattleback"
    )
    world.material(friction)
    about = "a stone that turns back when it is spun the wrong way"
    return WorldModel("rattleback", about, world, 2.5e-3, 1800, "garcia1988", view=(-60.0, 30.0))


@public
def tippe_top(spin: Number = 200.0, tilt: Number = 0.3, radius: Positive = 0.02, friction: NotNegative = 0.4) -> WorldModel:
    """A tippe top: a ball whose centre of mass lies below its middle. Spun fast about the vertical it slides, rises and turns over.

    Friction at the point of contact keeps Jellett's integral, the angular momentum along the line from the centre of mass to the
    point of contact, whatever its law [gray2000]; `jellett` computes it. The centre of mass is where a second, inner ball of the
    same density puts it; the inertia is that of a ball.
    """
    mass, inner, below = 0.02, 0.6, 0.35
    turn = quaternions.exponential(np.array([tilt, 0.0, 0.0]))
    world = World(gravity=(0, 0, -GRAVITY))
    world.fix(HalfSpace(), name="table")
    world.add(
        [Sphere(radius), Sphere(inner * radius).at((0, 0, -below * radius))],
        mass=mass,
        inertia=3 * (0.4 * mass * radius**2,),
        position=(0, 0, radius),
        orientation=turn,
        spin=(0, 0, spin),
        name="top",
    )
    world.material(friction)
    offset = below * inner**3 / (1 + inner**3) * radius
    about = "a top that turns over and spins on its head"
    return WorldModel(
        "tippe_top", about, world, 5e-4, 3000, "gray2000", view=(-60.0, 15.0), numbers={"offset": offset, "radius": radius}
    )


def jellett(run: WorldRun, radius: float) -> np.ndarray:
    """Jellett's integral of a top that is a ball of this radius on the plane z = 0."""
    i = run.names.index("top")
    contact = run.body("top").position - radius * UP
    return np.sum(run.L[:, i] * (contact - run.x[:, i]), axis=1)


@public
def euler_disk(tilt: Number = 0.3, radius: Positive = 0.0375, thickness: Positive = 0.006, loss: NotNegative = 1e-3) -> WorldModel:
    """Euler's disk: a heavy disc that rolls on its rim, ever flatter and ever faster, and stops abruptly.

    A disc that rolls in a steady circle with its centre at rest turns about the vertical at Ω² = 4g / (R sin α), and its energy is
    about 3mgRα/2. What is lost to rolling is modelled as `loss` (N m) times the angle Ω dt: α̇ ∝ −α^(−1/2), so α goes to zero like
    (t₀ − t)^(2/3), and Ω like (t₀ − t)^(−1/3), in a finite time [leine2009].
    """
    if not 0.01 <= tilt <= 1.2:
        raise InputError(f"euler_disk: the tilt must be in [0.01, 1.2] radians; got {tilt}")
    turn = quaternions.exponential(np.array([tilt, 0.0, 0.0]))
    axis = quaternions.matrix(turn) @ UP
    rate = np.sqrt(4 * GRAVITY / (radius * np.sin(tilt)))
    world = World(gravity=(0, 0, -GRAVITY))
    world.fix(HalfSpace(), name="table")
    disk = world.add(
        Cylinder(radius, thickness),
        mass=0.44,
        position=(0, 0, radius * np.sin(tilt) + 0.5 * thickness * np.cos(tilt)),
        orientation=turn,
        spin=rate * (UP - (UP @ axis) * axis),
        name="disk",
    )
    world.material(friction=0.8)

    def resistance(orientation, spin):
        """Rayleigh's function loss·|Ω|: its derivative by the spin, backwards."""
        across = _across(quaternions.matrix(np.asarray(orientation))[:, 2])
        square = max(float(across @ across), FLAT**2)
        return np.zeros(3), -loss * np.sign(spin @ across) * across / square

    world.force(disk, resistance)
    about = "a disc that whirls ever faster until it lies still"
    return WorldModel("euler_disk", about, world, 5e-4, 2000, "leine2009", view=(-60.0, 25.0))


FLAT = 0.02  # radians: below this tilt the resistance of a disk does not grow any more


def _across(axis: np.ndarray) -> np.ndarray:
    """The vertical without its part along the axis of a disc."""
    return UP - axis[..., 2:] * axis


def whirling(run: WorldRun) -> tuple[np.ndarray, np.ndarray]:
    """The tilt α of a disk against the table, and the rate Ω at which its point of contact goes round."""
    track = run.body("disk")
    axis = quaternions.matrix(track.orientation)[:, :, 2]
    across = _across(axis)
    square = np.sum(across**2, axis=1)
    return np.arcsin(np.clip(np.sqrt(square), 0, 1)), np.sum(track.spin * across, axis=1) / np.where(square > 0, square, 1.0)

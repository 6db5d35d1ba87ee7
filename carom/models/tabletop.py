"""Things that stand on a table until they do not: dice, dominoes, a house of cards, an arch."""

import numpy as np

from carom.bodies import quaternions
from carom.bodies.shapes import Box, HalfPlane, HalfSpace, Polygon, Sphere
from carom.bodies.world import World
from carom.calls import public
from carom.errors import InputError
from carom.models.world_model import WorldModel
from carom.wanted import Count, Flag, NotNegative, Number, Positive, Share, Whole

GRAVITY = 9.81


@public
def dice(
    count: Count = 3,
    size: Positive = 0.016,
    friction: NotNegative = 0.3,
    restitution: Share = 0.4,
    speed: Number = 0.8,
    seed: Whole = 1,
) -> WorldModel:
    """Dice thrown on a table: cubes of ivory that tumble, slide and come to rest, exactly, each on one of its faces."""
    if count < 1:
        raise InputError(f"dice: there must be at least one; got {count}")
    rng = np.random.default_rng(seed)
    world = World(gravity=(0, 0, -GRAVITY))
    world.fix(HalfSpace(), name="table")
    for i in range(count):
        # Balls of the reach of a die that are apart cannot overlap, whatever way the dice are turned.
        where = (-0.05 - 0.01 * i, 2.0 * size * (i - 0.5 * (count - 1)), 0.05 + 0.01 * i)
        world.add(
            Box(size, size, size),
            density=1900,
            position=where,
            orientation=quaternions.normalise(rng.normal(size=4)),
            velocity=(speed, 0.2 * rng.normal(), -0.3),
            spin=40 * rng.normal(size=3),
            name=f"die {i + 1}",
        )
    world.material(friction, restitution)
    return WorldModel("dice", "dice that tumble on a table and come to rest on a face", world, 1e-3, 600, view=(-70.0, 25.0))


def face_up(turn: np.ndarray) -> tuple[int, float]:
    """Which face of a die looks up (1 … 6, opposite faces make seven), and how far its normal is from the vertical (a sine)."""
    up = quaternions.matrix(turn)[2]
    axis = int(np.argmax(np.abs(up)))
    across = float(np.sqrt(np.sum(np.delete(up, axis) ** 2)))
    return (axis + 1 if up[axis] > 0 else 6 - axis), across


@public
def dominoes(
    count: Count = 10,
    height: Positive = 0.048,
    spacing: NotNegative = 0.4,
    friction: NotNegative = 0.25,
    push: Number = 3.0,
    flat: Flag = False,
) -> WorldModel:
    """A row of dominoes, the first one pushed: a wave of falling runs along it.

    `spacing` is the free way between two, in heights. Lengths times s and times times √s is the same motion: a row four times as
    high falls at half the pace. After a few dominoes the wave has a speed of its own [stronge1987]. `push` is the spin of the first
    about its lower edge, in units of √(g/height); `flat`: in the plane."""
    if count < 2 or not 0 < spacing < 0.9:
        raise InputError(f"dominoes: at least two, with a spacing in (0, 0.9) heights; got {count} and {spacing}")
    h, b, d = height, 0.5 * height, 0.15 * height
    turn = push * np.sqrt(GRAVITY / h)
    world = World(gravity=(0, -GRAVITY) if flat else (0, 0, -GRAVITY))
    world.fix(HalfPlane() if flat else HalfSpace(), name="table")
    for i in range(count):
        x, spin = i * (d + spacing * h), turn if i == 0 else 0.0
        # About its front edge: the centre moves forwards, and up as far as it is behind the edge.
        forwards, upwards = spin * 0.5 * h, spin * 0.5 * d
        if flat:
            world.add(
                Polygon.box(d, h),
                density=600,
                position=(x, h / 2),
                velocity=(forwards, upwards),
                spin=-spin,
                name=f"domino {i + 1}",
            )
        else:
            world.add(
                Box(d, b, h),
                density=600,
                position=(x, 0, h / 2),
                velocity=(forwards, 0, upwards),
                spin=(0, spin, 0),
                name=f"domino {i + 1}",
            )
    world.material(friction)
    dt = 0.02 * np.sqrt(h / GRAVITY)
    return WorldModel("dominoes", "a row of dominoes through which a wave of falling runs", world, dt, 700, "stronge1987")


def fallen(run, tilt: float = 0.1) -> np.ndarray:
    """When each domino of a run has tilted by so much; nan where it has not."""
    up = 1 if run.dim == 2 else 2
    lean = quaternions.matrix(run.q[:, run.free])[:, :, up, up] < np.cos(tilt)
    return np.where(lean.any(axis=0), run.t[np.argmax(lean, axis=0)], np.nan)


# -- the house of cards --------------------------------------------------------------------------------------------------

CARD, WIDTH, RIM = 0.088, 0.062, 0.001  # length and width between the corners, radius of a corner, in metres


@public
def card_house(storeys: Count = 2, lean: Number = 0.35, friction: NotNegative = 0.35) -> WorldModel:
    """A house of cards in space: pairs of cards that lean on each other, a long flat card between two storeys.

    A pair stands iff friction reaches `card_threshold(lean)`, about tan(lean)/2; a house that stands does not move at all.
    A card touches with its four corners, which are small balls: there is no doubt about the normals where two meet.
    """
    if storeys < 1 or not 0.05 <= lean <= 1.0:
        raise InputError(f"card_house: at least one storey, and a lean in [0.05, 1] radians; got {storeys} and {lean}")
    run, rise = CARD * np.sin(lean), CARD * np.cos(lean)
    spacing = 2.1 * (run + 2 * RIM)  # from pair to pair: neighbours do not touch
    world = World(gravity=(0, 0, -GRAVITY))
    world.fix(HalfSpace(), name="table")
    base = 0.0
    for storey in range(storeys):
        pairs = storeys - storey
        middles = spacing * (np.arange(pairs) - 0.5 * (pairs - 1))
        for x in middles:
            for side in (-1, 1):
                where = (x + side * (RIM + 0.5 * run), 0, base + RIM + 0.5 * rise)
                _card(world, where, -side * lean)
        base += 2 * RIM + rise
        if pairs > 1:
            board = Box(spacing * (pairs - 1) + 0.8 * CARD, WIDTH, 2 * RIM)
            world.add(board, mass=0.0018 * pairs, position=(0, 0, base + RIM), name=f"floor {storey + 1}")
            base += 2 * RIM
    world.material(friction)
    about = "a house of cards that stands by friction alone"
    return WorldModel("card_house", about, world, 2e-3, 300, view=(-75.0, 12.0), numbers={"threshold": card_threshold(lean)})


def _card(world: World, where: tuple, tilt: float) -> None:
    """An upright card, its length along z, tilted about y."""
    ends = [Sphere(RIM).at((0, y, z)) for y in (-0.5 * WIDTH, 0.5 * WIDTH) for z in (-0.5 * CARD, 0.5 * CARD)]
    parts = [Box(RIM, WIDTH, CARD), *ends]
    turn = (np.cos(0.5 * tilt), 0, np.sin(0.5 * tilt), 0)
    world.add(parts, mass=0.0018, position=where, orientation=turn, name=f"card {len(world.bodies)}")


def card_threshold(lean: float) -> float:
    """The friction from which on two cards that lean on each other stand. The weight W acts at half the run a, the push H of the
    other card at the height h + r above the floor: H (h + r) = W a/2, and the floor gives H ≤ μW."""
    return float(0.5 * CARD * np.sin(lean) / (CARD * np.cos(lean) + RIM))


# -- the arch ------------------------------------------------------------------------------------------------------------


@public
def arch(voussoirs: Count = 9, thickness: Positive = 0.25, radius: Positive = 1.0, friction: NotNegative = 0.6) -> WorldModel:
    """A half circle of wedge stones without mortar, in the plane. `thickness` is that of the ring, relative to its mean radius.

    It stands iff there are forces in all joints that balance the weights and lie in the cones of friction: `arch_threshold` finds
    the least friction by linear programming. Thinner than about 0.11 no friction suffices [heyman1969].
    """
    stones = arch_stones(voussoirs, thickness, radius)
    world = World(gravity=(0, -GRAVITY))
    world.fix(HalfPlane(), name="ground")
    for i, corners in enumerate(stones):
        middle = corners.mean(axis=0)
        world.add(Polygon(corners - middle), density=2000, position=middle, name=f"stone {i + 1}")
    world.material(friction)
    return WorldModel("arch", "an arch of wedge stones that stands without mortar", world, 2e-3, 400, "heyman1969")


def arch_stones(voussoirs: int, thickness: float, radius: float) -> np.ndarray:
    """The corners of the stones [voussoirs, 4, 2]: inner and outer corner of the first joint, outer and inner of the second."""
    if voussoirs < 3 or not 0 < thickness < 1:
        raise InputError(f"arch: at least three stones, and a thickness in (0, 1); got {voussoirs} and {thickness}")
    angle = np.linspace(0, np.pi, voussoirs + 1)
    ray = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    ray[0], ray[-1] = (1.0, 0.0), (-1.0, 0.0)  # exactly on the ground
    inner, outer = radius * (1 - 0.5 * thickness) * ray, radius * (1 + 0.5 * thickness) * ray
    return np.stack([inner[:-1], outer[:-1], outer[1:], inner[1:]], axis=1)


def arch_threshold(voussoirs: int = 9, thickness: float = 0.25, radius: float = 1.0, accuracy: float = 1e-9) -> float:
    """The least friction with which the arch stands, by bisection; infinite where none does."""
    from scipy.optimize import linprog

    stones = arch_stones(voussoirs, thickness, radius)
    forces = 4 * (voussoirs + 1)  # (normal, across) at the inner and the outer corner of every joint
    balance, load = np.zeros((3 * voussoirs, forces)), np.zeros(3 * voussoirs)
    for i, corners in enumerate(stones):
        area, center = _area(corners)
        load[3 * i + 1] = area
        for joint, pair, sign in ((i, corners[:2], 1.0), (i + 1, corners[3:1:-1], -1.0)):
            along = (pair[1] - pair[0]) / np.linalg.norm(pair[1] - pair[0])
            normal = np.array([-along[1], along[0]])  # the way the angle grows: into the stone after the joint
            for k, point in enumerate(pair):
                for c, direction in enumerate((normal, along)):
                    arm = point - center
                    column = 4 * joint + 2 * k + c
                    balance[3 * i : 3 * i + 2, column] = sign * direction
                    balance[3 * i + 2, column] = sign * (arm[0] * direction[1] - arm[1] * direction[0])

    def stands(friction: float) -> bool:
        cone = np.zeros((forces, forces))  # ±t − μn ≤ 0
        for k in range(forces // 2):
            cone[2 * k, 2 * k : 2 * k + 2] = (-friction, 1.0)
            cone[2 * k + 1, 2 * k : 2 * k + 2] = (-friction, -1.0)
        return linprog(np.zeros(forces), cone, np.zeros(forces), balance, load, bounds=(None, None)).status == 0

    low, high = 0.0, 1e3
    if not stands(high):
        return float("inf")
    while high - low > accuracy:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if stands(middle) else (middle, high)
    return high


def _area(corners: np.ndarray) -> tuple[float, np.ndarray]:
    """Area and centre of a polygon."""
    following = np.roll(corners, -1, axis=0)
    cross = corners[:, 0] * following[:, 1] - corners[:, 1] * following[:, 0]
    area = 0.5 * float(np.sum(cross))
    return abs(area), np.sum((corners + following) * cross[:, None], axis=0) / (6 * area)

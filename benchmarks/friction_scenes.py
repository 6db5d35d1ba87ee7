"""Contact problems of made-up scenes: piles, stacks, wedges, chains, in space and in the plane, for tests and measurements.

Each scene returns a `FrictionProblem` of one time step: bodies with velocities and gravity over dt, contacts, some joints. Walls do
not move: u = 0 is admissible, and the problem has a solution.
"""

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from carom.numerics.friction.problem import FrictionProblem

GRAVITY, DT = 9.81, 0.01


class Scene:
    """Bodies and the rows between them. In the plane a body has (x, y, turn), in space (position, turn)."""

    def __init__(self, dimension: int = 3):
        self.dimension = dimension
        self.coordinates = 3 if dimension == 2 else 6
        self.masses: list[np.ndarray] = []
        self.velocities: list[np.ndarray] = []
        self.rows: list[np.ndarray] = []  #    each [bodies touched, coordinates], with `places`
        self.places: list[tuple[int, ...]] = []
        self.friction: list[float] = []
        self.joints: list[tuple[tuple[int, ...], np.ndarray]] = []

    def body(self, mass: float, radius: float, velocity) -> int:
        turn = 0.4 * mass * radius**2
        self.masses.append(np.diag([mass] * self.dimension + [turn] * (self.coordinates - self.dimension)))
        self.velocities.append(np.asarray(velocity, float))
        return len(self.masses) - 1

    def contact(self, a: int, arm_a, b: int | None, arm_b, normal, friction: float) -> None:
        """Body a is pushed along the normal, b against it; b = None is a wall. Arms go from the centres to the point."""
        for direction in frame(np.asarray(normal, float)):
            self.rows.append(self._row(arm_a, b, arm_b, direction))
            self.places.append((a,) if b is None else (a, b))
        self.friction.append(friction)

    def joint(self, a: int, arm_a, b: int | None, arm_b) -> None:
        """The two points move together: one bilateral row per dimension."""
        for direction in np.eye(self.dimension):
            self.joints.append(((a,) if b is None else (a, b), self._row(arm_a, b, arm_b, direction)))

    def _row(self, arm_a, b, arm_b, direction):
        first = np.r_[direction, turning(np.asarray(arm_a, float), direction)]
        return first[None] if b is None else np.stack([first, -np.r_[direction, turning(np.asarray(arm_b, float), direction)]])

    def problem(self, in_bodies: bool = True) -> FrictionProblem:
        c = self.coordinates
        places = self.places + [place for place, _ in self.joints]
        rows = self.rows + [row for _, row in self.joints]
        index = [body * c + i for place in places for body in place for i in range(c)]
        column = [j for j, place in enumerate(places) for _ in range(len(place) * c)]
        H = sparse.csc_matrix((np.concatenate([r.ravel() for r in rows]), (index, column)), (c * len(self.masses), len(rows)))
        free = np.array(self.velocities)
        free[:, self.dimension - 1] -= GRAVITY * DT
        made = FrictionProblem.from_bodies(
            np.array(self.masses), H, free.ravel(), np.array(self.friction), tangents=self.dimension - 1
        )
        if in_bodies:
            return made
        return FrictionProblem.from_delassus(H.T @ made.inverse_mass @ H, made.q, made.friction, tangents=made.tangents)


def frame(normal: np.ndarray) -> np.ndarray:
    """The normal and unit vectors orthogonal to it, in rows."""
    n = normal / np.linalg.norm(normal)
    if len(n) == 2:
        return np.array([n, [-n[1], n[0]]])
    other = np.eye(3)[np.argmin(np.abs(n))]
    t = np.cross(n, other)
    t /= np.linalg.norm(t)
    return np.array([n, t, np.cross(n, t)])


def turning(arm: np.ndarray, direction: np.ndarray) -> np.ndarray:
    return np.atleast_1d(np.cross(arm, direction) if len(arm) == 3 else arm[0] * direction[1] - arm[1] * direction[0])


def friction_of(rng, largest: float) -> float:
    """Zero now and then: contacts without friction stand beside the others."""
    return 0.0 if rng.uniform() < 0.1 else float(rng.uniform(0, largest))


def stack(rng, boxes: int, largest: float = 1.0, dimension: int = 3, spread: float = 0.0, speed: float = 0.05) -> Scene:
    """Boxes on one another, each with contacts at all its lower corners: hyperstatic. Masses vary by 10^spread."""
    scene = Scene(dimension)
    half = 0.5
    signs = [-half, half]
    corners = [(a,) for a in signs] if dimension == 2 else [(a, b) for a in signs for b in signs]
    up = np.eye(dimension)[-1]
    for i in range(boxes):
        scene.body(10 ** (spread * rng.uniform()), 0.5, speed * rng.normal(size=scene.coordinates))
        mu = float(rng.uniform(0.1, largest))
        for corner in corners:
            scene.contact(i, [*corner, -half], i - 1 if i else None, [*corner, half], up, mu)
    return scene


def pile(rng, bodies: int, largest: float = 1.0, dimension: int = 3, spread: float = 0.0, speed: float = 0.2) -> Scene:
    """Balls at random places of a box of their volume: a contact wherever two come near, and with the floor and the walls."""
    scene = Scene(dimension)
    side = 0.85 * bodies ** (1 / dimension)
    centre = rng.uniform(0, side, (bodies, dimension))
    for _ in centre:
        scene.body(10 ** (spread * rng.uniform()), 0.5, speed * rng.normal(size=scene.coordinates))
    for a in range(bodies):
        for b in range(a):
            apart = centre[a] - centre[b]
            if np.linalg.norm(apart) < 1.0:
                n = apart / np.linalg.norm(apart)
                scene.contact(a, -0.5 * n, b, 0.5 * n, n, friction_of(rng, largest))
        for axis in range(dimension):
            for sign in (1, -1) if axis < dimension - 1 else (1,):
                wall = sign * np.eye(dimension)[axis]
                if (centre[a, axis] if sign > 0 else side - centre[a, axis]) < 0.5:
                    scene.contact(a, -0.5 * wall, None, None, wall, friction_of(rng, largest))
    if not scene.friction:
        scene.contact(0, -0.5 * np.eye(dimension)[-1], None, None, np.eye(dimension)[-1], friction_of(rng, largest))
    return scene


def rocks(rng, bodies: int, friction: float = 1.0, patch: int = 3, speed: float = 0.2, spread: float = 0.5) -> Scene:
    """A pile of balls that touch at one to `patch` points where they come near, as rocks do: hyperstatic, and rough everywhere."""
    scene = Scene(3)
    side = 0.85 * bodies ** (1 / 3)
    centre = rng.uniform(0, side, (bodies, 3))
    for _ in centre:
        scene.body(10 ** (spread * rng.uniform()), 0.5, speed * rng.normal(size=6))

    def touch(a, arm_a, b, arm_b, normal):
        points = rng.integers(1, patch + 1)
        for _ in range(points):
            aside = 0.25 * (rng.normal(size=2) @ frame(normal)[1:]) if points > 1 else np.zeros(3)
            scene.contact(a, arm_a + aside, b, None if b is None else arm_b + aside, normal, friction)

    for a in range(bodies):
        for b in range(a):
            apart = centre[a] - centre[b]
            if np.linalg.norm(apart) < 1.0:
                touch(a, -0.5 * apart, b, 0.5 * apart, apart / np.linalg.norm(apart))
        for axis in range(3):
            for sign in (1, -1) if axis < 2 else (1,):
                wall, away = sign * np.eye(3)[axis], centre[a, axis] if sign > 0 else side - centre[a, axis]
                if away < 0.5:
                    touch(a, -away * wall, None, None, wall)
    return scene


def wedge(rng, contacts: int, largest: float = 1.5, dimension: int = 3, speed: float = 1.0) -> Scene:
    """One body that walls touch at random points with random normals, more often than it has coordinates."""
    scene = Scene(dimension)
    scene.body(10 ** rng.uniform(-1, 1), 0.5, speed * rng.normal(size=scene.coordinates))
    for _ in range(contacts):
        normal = rng.normal(size=dimension) + 0.7 * np.eye(dimension)[-1]
        arm = 0.5 * rng.normal(size=dimension)
        scene.contact(0, arm, None, None, normal, friction_of(rng, largest))
    return scene


def box_on_floor(rng, largest: float = 1.5, patches: int = 1, speed: float = 1.0) -> Scene:
    """A box with four (or, doubled, eight, …) touching corners that slides and spins."""
    scene = Scene(3)
    scene.body(1.0, 0.5, speed * rng.normal(size=6) * [1, 1, 0.3, 1, 1, 3])
    mu = float(rng.uniform(0, largest))
    for shift in range(patches):
        for x in (-0.5, 0.5):
            for y in (-0.3, 0.3):
                scene.contact(0, [x * (1 - 0.2 * shift), y, -0.2], None, None, [0, 0, 1], mu)
    return scene


def chain(rng, bodies: int, largest: float = 1.0, dimension: int = 3) -> Scene:
    """Balls with joints between them, lying on a floor: bilateral rows beside contacts, the last joint twice and so redundant."""
    scene = Scene(dimension)
    up = np.eye(dimension)[-1]
    along = np.eye(dimension)[0]
    for _ in range(bodies):
        scene.body(10 ** rng.uniform(-1, 1), 0.5, 0.5 * rng.normal(size=scene.coordinates))
    for i in range(bodies):
        scene.contact(i, -0.5 * up, None, None, up, friction_of(rng, largest))
        if i:
            scene.joint(i - 1, 0.5 * along, i, -0.5 * along)
    if bodies > 1:
        scene.joint(bodies - 2, 0.5 * along, bodies - 1, -0.5 * along)
    return scene


def packing(rng, across: int, layers: int, disorder: float = 0.0, friction: float = 0.5, speed: float = 0.0) -> FrictionProblem:
    """Balls of diameter 1 in layers of a close packing between a floor and four walls, each moved by up to `disorder`; neighbours
    touch, along the line between them. They are at rest but for gravity, and for velocities of that size. Arrays alone, so that
    10⁵ contacts take a second; memory is proportional to them."""
    place = np.stack(np.meshgrid(np.arange(across), np.arange(across), np.arange(layers), indexing="ij"), -1).reshape(-1, 3)
    centre = place * [1, 1, np.sqrt(0.5)] + 0.5 * (place[:, 2:] % 2) * [1, 1, 0] + 0.5
    centre = centre + disorder * rng.uniform(-1, 1, centre.shape)
    reach = 1 + 1e-4 + 2.5 * disorder
    pairs = cKDTree(centre).query_pairs(reach, output_type="ndarray")
    first, second = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].T
    n = centre[second] - centre[first]
    a, b, normal = [first], [second], [n / np.linalg.norm(n, axis=1)[:, None]]
    for axis, sign, wall in ((2, 1, 0), (0, 1, 0), (0, -1, across + 0.5), (1, 1, 0), (1, -1, across + 0.5)):
        near = np.flatnonzero(sign * (centre[:, axis] - wall) < 0.5 * reach)
        a, b = [*a, np.full(len(near), -1)], [*b, near]
        normal.append(np.tile(sign * np.eye(3)[axis], (len(near), 1)))
    a, b, normal = np.concatenate(a), np.concatenate(b), np.concatenate(normal)
    across_it = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal), axis=1)])
    across_it /= np.linalg.norm(across_it, axis=1)[:, None]
    frames = np.stack([normal, across_it, np.cross(normal, across_it)], axis=1)
    index, column, value = [], [], []
    for body, sign in ((b, 1.0), (a, -1.0)):
        mine = np.flatnonzero(body >= 0)
        turn = np.cross(-0.5 * sign * normal[mine][:, None], frames[mine])
        value.append(sign * np.concatenate([frames[mine], turn], axis=2).ravel())
        index.append(np.broadcast_to(6 * body[mine][:, None, None] + np.arange(6), (len(mine), 3, 6)).ravel())
        column.append(np.broadcast_to(3 * mine[:, None, None] + np.arange(3)[:, None], (len(mine), 3, 6)).ravel())
    shape = (6 * len(centre), 3 * len(a))
    H = sparse.csc_matrix((np.concatenate(value), (np.concatenate(index), np.concatenate(column))), shape)
    free = speed * rng.normal(size=(len(centre), 6))
    free[:, 2] -= GRAVITY * DT
    mass = np.tile(np.diag([1.0, 1.0, 1.0, 0.1, 0.1, 0.1]), (len(centre), 1, 1))  # 2/5 m r²
    return FrictionProblem.from_bodies(mass, H, free.ravel(), np.full(len(a), friction))

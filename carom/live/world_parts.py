"""What can be put into a world that plays: shapes to choose from, and worlds with other gravity and other materials."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from carom.bodies.materials import NAMES
from carom.bodies.scene import FREE, Scene, State
from carom.bodies.shapes import Box, Capsule, Disc, Polygon, Segment, Sphere
from carom.bodies.shapes.shape import Shape, together
from carom.bodies.world import World
from carom.live.knobs import Knob, knobs_of
from carom.models.world_model import WorldModel

# A name to choose, and the shape of that half size: in space, and in the plane.
SHAPES: dict[int, dict[str, Callable[[float], Shape]]] = {
    3: {
        "ball": lambda r: Sphere(r),
        "cube": lambda r: Box(2 * r, 2 * r, 2 * r),
        "brick": lambda r: Box(2 * r, r, r),
        "pill": lambda r: Capsule(0.5 * r, 2 * r),
    },
    2: {
        "disc": lambda r: Disc(r),
        "square": lambda r: Polygon.box(2 * r, 2 * r),
        "brick": lambda r: Polygon.box(2 * r, r),
        "pill": lambda r: Segment((-r, 0.0), (r, 0.0), 0.5 * r),
    },
}


@dataclass(frozen=True)
class Addition:
    """A body that was put into a world: a shape of `SHAPES` of that half size, and where it starts."""

    name: str
    shape: str
    size: float
    density: float
    position: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", tuple(self.position))  # a list, where it comes from JSON


def place(world: World, addition: Addition) -> None:
    """Put it there."""
    shape = SHAPES[world.dim][addition.shape](addition.size)
    world.add(shape, density=addition.density, position=addition.position, name=addition.name)


def above(scene: Scene, state: State, size: float) -> tuple[float, ...]:
    """A place for a body of that half size, in the middle of what moves, with nothing below it that is higher."""
    d = scene.dim
    x, reach = state.x[scene.free], scene.reach[scene.free]
    middle = np.median(x[:, : d - 1], axis=0)
    near = np.linalg.norm(x[:, : d - 1] - middle, axis=1) < reach + 1.5 * size
    top = np.max((x[:, d - 1] + reach)[near]) if np.any(near) else np.min(x[:, d - 1] - reach)
    return (*middle.tolist(), float(top + 2.5 * size))


def usual(world: World) -> tuple[float, float]:
    """Half the size, and the density, of a usual body of a world."""
    free = [spec for spec in world.bodies if spec.kind == FREE]
    sizes = [max(np.linalg.norm(one.where) + one.shape.reach for one in spec.shapes) for spec in free if spec.shapes]
    volumes = [together([one.mass for one in spec.shapes]).volume for spec in free if spec.shapes]
    masses = [spec.mass.volume for spec in free if spec.shapes and spec.mass is not None]
    return 0.6 * float(np.median(sizes)), float(np.median(np.array(masses) / np.array(volumes)))


def numbers_of(world: World) -> dict[str, float]:
    """Gravity, and the friction and restitution that hold where nothing else was said."""
    said = _said(world)
    return {"gravity": float(np.linalg.norm(world.gravity)), "friction": said["friction"], "restitution": said["restitution"]}


def _said(world: World) -> dict[str, float]:
    """The last word about all pairs."""
    values = [m.values for m in world.materials if m.of is None and m.between is None]
    return dict(zip(NAMES, values[-1] if values else (0.0,) * len(NAMES), strict=True))


def changed(model: WorldModel, values: dict[str, float]) -> WorldModel:
    """The model with other such numbers; gravity keeps its direction."""
    world, strength, said = model.world, float(np.linalg.norm(model.world.gravity)), _said(model.world)
    if values.get("gravity", strength) != strength:
        down = -np.eye(3)[world.dim - 1] if strength == 0 else world.gravity / strength
        world.gravity = values["gravity"] * down
    wanted = said | {name: value for name, value in values.items() if name in said}
    if wanted != said:
        rest = [m for m in world.materials if m.of is not None or m.between is not None]
        world.materials = []
        world.material(**wanted)
        world.materials += rest
    return model


def world_knobs(factory: Callable[..., WorldModel], world: World) -> dict[str, Knob]:
    """A knob for every number of a scene: the arguments of its function, and what every world has."""
    return knobs_of(factory, numbers_of(world))


def alike(old: World, new: World, count: int) -> bool:
    """Whether two worlds have the same first bodies at the start: then one can go on as the other."""
    if len(new.bodies) < count or len(old.bodies) < count:
        return False
    return all(_same(a, b) for a, b in zip(old.bodies[:count], new.bodies[:count], strict=True))


def _same(a: Any, b: Any) -> bool:
    arrays = ("position", "turn", "velocity", "spin")
    if a.name != b.name or a.kind != b.kind or len(a.shapes) != len(b.shapes):
        return False
    if not all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays):
        return False
    if (a.mass is None) != (b.mass is None) or (a.mass is not None and not np.array_equal(a.mass.inertia, b.mass.inertia)):
        return False
    return all(type(p.shape) is type(q.shape) and p.shape.reach == q.shape.reach for p, q in zip(a.shapes, b.shapes, strict=True))

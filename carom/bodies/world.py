"""The world: bodies with shapes, materials, joints and forces, as a person writes them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from carom.bodies import quaternions
from carom.bodies.as_system import start_of, system_of
from carom.bodies.assemble import assemble, first_state, refuse_overlaps, separate
from carom.bodies.described import axes_of, check_run, number, weigh
from carom.bodies.drives import Drive, drive_of
from carom.bodies.ending import Ending, WorldNow, told
from carom.bodies.joints import KINDS
from carom.bodies.march import march
from carom.bodies.materials import MaterialSpec, material_spec
from carom.bodies.run import Settings, WorldRun
from carom.bodies.scene import FIXED, FREE, PRESCRIBED, Scene, State, accelerations
from carom.bodies.shapes.shape import Mass, Placed, Shape, numbers, said_orientation, vector
from carom.bodies.stiffness import refuse_stiff
from carom.bodies.world_checkpoint import surviving
from carom.calls import public, public_methods
from carom.drawing import Film
from carom.errors import InputError
from carom.results.views import view
from carom.running.options import whole
from carom.system.system import System
from carom.wanted import Flag, Text, one_of


@dataclass(frozen=True)
class Body:
    """A handle of a body in a world."""

    index: int
    name: str


@dataclass
class BodySpec:
    """A body as it was described."""

    name: str
    kind: int
    shapes: list[Placed]
    mass: Mass | None  #            None where it is not free
    position: np.ndarray  #         of the origin of its frame
    turn: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray
    motion: Callable[[float], tuple] | None = None


@dataclass
class JointSpec:
    kind: str
    name: str
    a: int
    b: int
    at: tuple[np.ndarray, np.ndarray]  #  in space, at the start
    axis: np.ndarray
    second: np.ndarray
    length: float | None
    speed: float | None
    collide: bool
    drive: Drive


@public
@public_methods
@dataclass
class World:
    """Bodies in the plane or in space; gravity has two or three components and says which.

        world = carom.World(gravity=(0, 0, -9.81))
        world.fix(carom.shapes.HalfSpace())
        cube = world.add(carom.shapes.Box(0.1, 0.1, 0.1), density=1000, position=(0, 0, 1), spin=(10, 3, 0))
        world.material(friction=0.5, restitution=0.3)
        run = world.solve(dt=1e-3, num_steps=3000)

    Positions and velocities are those of the origin of a body's frame, in which its shapes were given.
    """

    gravity: Any = (0.0, 0.0, -9.81)
    bodies: list[BodySpec] = field(default_factory=list, init=False, repr=False)
    joints: list[JointSpec] = field(default_factory=list, init=False, repr=False)
    materials: list[MaterialSpec] = field(default_factory=list, init=False, repr=False)
    forces: list[tuple[int, Callable[..., Any]]] = field(default_factory=list, init=False, repr=False)
    springs: list[tuple[int, int, np.ndarray, np.ndarray, float, float | None, float]] = field(
        default_factory=list, init=False, repr=False
    )
    dim: int = field(default=3, init=False)

    def __post_init__(self) -> None:
        shape = numbers(self.gravity).shape
        if shape not in ((2,), (3,)):
            raise InputError(f"gravity needs two numbers (a world in the plane) or three (in space); got {self.gravity!r}")
        self.dim = shape[0]
        self.gravity = vector(self.gravity, self.dim, "gravity")

    # -- bodies ------------------------------------------------------------------------------------------------------

    def fix(self, shapes: Any, position: Any = None, orientation: Any = None, name: str | None = None) -> Body:
        """A body that never moves: a floor, a wall, an obstacle."""
        return self._place(FIXED, shapes, None, position, orientation, None, None, name)

    def add(
        self,
        shapes: Any,
        *,
        density: float | None = None,
        mass: float | None = None,
        inertia: Any = None,
        position: Any = None,
        orientation: Any = None,
        velocity: Any = None,
        spin: Any = None,
        name: str | None = None,
    ) -> Body:
        """A free body. `shapes` is a shape, a placed shape, or a list of them. Its mass comes from `density`, or is given as `mass`
        (spread evenly over the shapes, unless `inertia` about the centre of mass is given too)."""
        placed = self._shapes(shapes, name)
        return self._place(FREE, placed, (density, mass, inertia), position, orientation, velocity, spin, name)

    def prescribe(self, shapes: Any, motion: Any, position: Any = None, orientation: Any = None, name: str | None = None) -> Body:
        """A body that moves as it is told: `motion` is `motions.Turning`, `motions.Shaking`, or a function of t that returns a
        position, or a position and an orientation."""
        from carom.bodies.motions import from_function

        body = self._place(PRESCRIBED, shapes, None, position, orientation, None, None, name)
        spec = self.bodies[body.index]
        if hasattr(motion, "pose"):
            spec.motion = motion.pose(spec.position, spec.turn, self.dim)
        elif callable(motion):
            spec.motion = from_function(motion, body.name, self.dim)
        else:
            raise InputError(f"the motion of {body.name!r} must be Turning, Shaking or a function of t; got {motion!r}")
        return body

    def _place(
        self, kind: int, shapes: Any, weight: Any, position: Any, orientation: Any, velocity: Any, spin: Any, name: str | None
    ) -> Body:
        index = len(self.bodies)
        name = name if name is not None else f"{('body', 'fixed', 'moved')[kind]} {index}"
        if not isinstance(name, str):
            raise InputError(f"the name of a body must be a text; got {name!r}")
        if any(body.name == name for body in self.bodies):
            raise InputError(f"there is a body named {name!r} already; give each its own name")
        placed = shapes if isinstance(shapes, list) and shapes and isinstance(shapes[0], Placed) else self._shapes(shapes, name)
        turn = quaternions.from_user(orientation, self.dim)
        if turn is None:
            raise InputError(f"the orientation of {name!r} must be {said_orientation(self.dim)}; got {orientation!r}")
        turning = np.zeros(3)
        if spin is not None:
            turning = (
                vector(spin, 3, f"the spin of {name!r}")
                if self.dim == 3
                else np.array([0.0, 0.0, number(spin, f"the spin of {name!r}")])
            )
        where, moving = (
            vector(position, self.dim, f"the position of {name!r}"),
            vector(velocity, self.dim, f"the velocity of {name!r}"),
        )
        found = None if kind != FREE else weigh(name, placed, self.dim, *weight)
        self.bodies.append(BodySpec(name, kind, placed, found, where, turn, moving, turning))
        return Body(index, name)

    def _shapes(self, shapes: Any, name: str | None) -> list[Placed]:
        listed = list(shapes) if isinstance(shapes, (list, tuple)) else [shapes]
        placed = [shape if isinstance(shape, Placed) else Placed(shape) for shape in listed if isinstance(shape, (Shape, Placed))]
        if not placed or len(placed) != len(listed):
            raise InputError(f"body {name or len(self.bodies)!r} needs a shape of carom.shapes, or a list of them; got {shapes!r}")
        wrong = [one.shape for one in placed if one.shape.dim != self.dim]
        if wrong:
            kind = "the plane" if self.dim == 2 else "space"
            raise InputError(f"{type(wrong[0]).__name__} does not fit a world in {kind}: gravity has {self.dim} components")
        return placed

    # -- what acts between them --------------------------------------------------------------------------------------

    def material(
        self,
        friction: float = 0.0,
        restitution: float = 0.0,
        *,
        rolling: float = 0.0,
        spinning: float = 0.0,
        of: Any = None,
        between: Any = None,
    ) -> None:
        """What surfaces do to each other: for all pairs, for the pairs `of` one body, or `between` two. A body may be given as
        (body, number), which is one shape of its list. The last word counts. `rolling` and `spinning` are lengths: the torque
        against rolling and against spinning about the normal is at most so much times the normal force."""
        said = {"friction": friction, "restitution": restitution, "rolling": rolling, "spinning": spinning}
        self.materials.append(material_spec(said, of, between, self._who, self.dim))

    def _who(self, body: Any) -> tuple[int, int | None]:
        """A body, or (body, number of its shape)."""
        if not isinstance(body, tuple):
            return self._index(body), None
        index = self._index(body[0])
        count = len(self.bodies[index].shapes)
        if len(body) != 2 or body[1] not in range(count):
            raise InputError(f"body {self.bodies[index].name!r} has shapes 0 … {count - 1}; got {body[1:]!r}")
        return index, int(body[1])

    def joint(
        self,
        kind: str,
        a: Any,
        b: Any = None,
        at: Any = None,
        *,
        axis: Any = None,
        second: Any = None,
        length: float | None = None,
        speed: float | None = None,
        strength: float | None = None,
        limits: Any = None,
        friction: float | None = None,
        stiffness: float | None = None,
        damping: float | None = None,
        rest: float | None = None,
        collide: Flag = False,
        name: Text | None = None,
    ) -> str:
        """Join body a to body b, or to space where one of them is None, as they stand at the start.

        - `kind`: ball, hinge (about `axis`), slider (along `axis`), universal (`axis` of a, `second` of b), fixed, distance, rope.
        - `at`: the point in space they share; for a distance or a rope, the two points, one on each.
        - `length`: of a distance or rope, if not the distance of its ends.
        - Of a hinge or slider, for b against a (for a against space, where b is None): `speed` of a motor about or along `axis`,
          and its `strength` (the largest torque or force); `limits` (low, high) of the angle or shift from the start; dry
          `friction`; a spring, `stiffness`, `damping` and `rest`.
        - `collide`: whether the two also collide with each other.
        """
        one_of(kind, KINDS, "the kind of a joint")
        name = name or f"{kind} {len(self.joints)}"
        if kind in ("hinge", "slider") and b is None:
            a, b = b, a  # the coordinate of a body against space is that of the body, on whichever side space was named
        i, j = self._side(a), self._side(b)
        if i == j:
            raise InputError(f"joint {name!r} joins {self.bodies[i].name!r} to itself")
        if self.bodies[i].kind != FREE and self.bodies[j].kind != FREE:
            raise InputError(f"joint {name!r} joins two bodies that cannot follow it: one of them must be free")
        two = kind in ("distance", "rope")
        ends = at if two else (at, at)
        if at is None or len(ends) != 2:
            raise InputError(
                f"joint {name!r} needs at=, " + ("two points in space, one on each body" if two else "a point in space")
            )
        points = tuple(vector(p, self.dim, f"a point of joint {name!r}") for p in ends)
        main, other = axes_of(kind, axis, second, self.dim, name)
        if length is not None and not number(length, f"the length of {name!r}") > 0:
            raise InputError(f"the length of joint {name!r} must be positive; got {length!r}")
        if speed is not None and number(speed, f"the speed of joint {name!r}") == speed and kind not in ("hinge", "slider"):
            raise InputError(f"joint {name!r} is a {kind} and has no motor; hinge and slider have one")
        said = {"strength": strength, "limits": limits, "friction": friction}
        drive = drive_of(kind, name, speed, said | {"stiffness": stiffness, "damping": damping, "rest": rest})
        self.joints.append(JointSpec(kind, name, i, j, points, main, other, length, speed, collide, drive))
        return name

    def spring(self, a: Any, b: Any, stiffness: float, at: Any, length: float | None = None, damping: float = 0.0) -> None:
        """A spring (and damper) between two points of space, one on each body; None is space itself."""
        k, c = number(stiffness, "the stiffness of a spring"), number(damping, "the damping of a spring")
        if k < 0 or c < 0:
            raise InputError(f"stiffness and damping must not be negative; got {stiffness!r} and {damping!r}")
        if not isinstance(at, list | tuple | np.ndarray) or getattr(at, "ndim", 1) == 0 or len(at) != 2:
            raise InputError(f"a spring needs at=, two points in space, one on each body; got {at!r}")
        if length is not None and not number(length, "the length of a spring") >= 0:
            raise InputError(f"the length of a spring must not be negative; got {length!r}")
        ends = tuple(vector(p, self.dim, "an end of a spring") for p in at)
        self.springs.append((self._side(a), self._side(b), *ends, k, length, c))

    def force(self, body: Any, function: Callable[..., Any]) -> None:
        """A force on a body: a function of any of position, orientation, velocity, spin, t (by name) that returns a force at its
        centre of mass, or a force and a torque. One that jumps with the velocity is taken as it is before the jump."""
        from carom.named import Named

        index = self._index(body)
        if self.bodies[index].kind != FREE:
            raise InputError(f"a force on {self.bodies[index].name!r} has no effect: it does not move freely")
        try:
            named = Named(function, ("position", "orientation", "velocity", "spin", "t"), f"force on {self.bodies[index].name!r}")
        except TypeError as error:
            raise InputError(str(error)) from error
        self.forces.append((index, named))

    def _index(self, body: Any) -> int:
        if isinstance(body, Body):
            if body.index < len(self.bodies) and self.bodies[body.index].name == body.name:
                return body.index
            raise InputError(f"{body.name!r} belongs to another world")
        names = [spec.name for spec in self.bodies]
        if isinstance(body, str) and body in names:
            return names.index(body)
        raise InputError(f"there is no body {body!r}; there are {', '.join(map(repr, names)) or 'none yet'}")

    def _side(self, body: Any) -> int:
        """One side of a joint or a spring: a body, or space."""
        return self._ground() if body is None else self._index(body)

    def _ground(self) -> int:
        """A fixed body without a shape, to which joints to space are tied."""
        for i, spec in enumerate(self.bodies):
            if spec.name == "space":
                return i
        still = (np.zeros(3), quaternions.IDENTITY, np.zeros(3), np.zeros(3))
        self.bodies.append(BodySpec("space", FIXED, [], None, *still))
        return len(self.bodies) - 1

    # -- running -----------------------------------------------------------------------------------------------------

    def scene(self) -> tuple[Scene, State]:
        """The world in arrays: what stays, and the state at the start. `carom.bodies.posed.pose` gives its contact rows."""
        if not any(spec.kind == FREE for spec in self.bodies):
            raise InputError("there is no body that moves: use world.add")
        scene = assemble(self)
        return scene, first_state(self, scene)

    def separate(self) -> float:
        """Move free bodies apart until none overlap, by as little as possible (weighed by mass). Returns the largest depth."""
        return separate(self, *self.scene())

    def solve(
        self,
        dt: float,
        num_steps: int,
        *,
        tolerance: float = 1e-10,
        save_every: int = 1,
        progress: Flag | None = None,
        path: str | Path | None = None,
        checkpoint: str | Path | None = None,
        every: int | None = None,
        stop: Any = None,
        callback: Callable[[WorldNow], Any] | None = None,
        callback_every: int | None = None,
        device: str | None = None,
    ) -> WorldRun:
        """Advance by num_steps steps of length dt.

        - `tolerance`: of the certificate E of each contact problem (see `carom.numerics.friction`).
        - `save_every`: how often states and contacts are kept (impacts always).
        - `path`: where to save the run (.zarr, .nc or .npz). `progress`: a bar, or not.
        - `checkpoint`: a *.zarr beside which the run is kept `every` so many steps: a run that was killed goes on from there when
          it is asked for again, and one that was finished is read.
        - `stop`: a function of `now`, the world at an instant, and t, by name, whose zero ends the run (`lambda now:
          now.body(cube).position[2] - 0.3`), or a `carom.Stop`, or a list of them. The zero is located within its step.
        - `callback`, `callback_every`: a function that is shown `now` every so many steps; where it returns True the run ends.
        - `device`: "gpu" solves contact problems of a thousand contacts and more there; see `carom.bodies.large_on_device`.
        """
        check_run(dt, num_steps, save_every, tolerance, {"path": path, "checkpoint": checkpoint}, every)
        scene, state = self.scene()
        refuse_overlaps(scene, state)
        refuse_stiff(scene, state, float(dt))
        accelerations(scene, state, 0.0)  # a force that returns something else says so before the run
        settings, ending = Settings(float(tolerance), int(save_every), device), Ending.of(stop, callback, callback_every)
        if checkpoint is None:
            run = march(scene, state, float(dt), int(num_steps), settings, progress, ending=ending)
        else:
            every = None if every is None else whole(every, "every")
            run = surviving(scene, state, float(dt), int(num_steps), settings, progress, checkpoint, every, ending)
        if path is not None:
            run.save(path)
        return told(run)

    def view(self, run: WorldRun | None = None, **options: Any) -> Any:
        """Watch a run in the browser, or look at the world as it stands (extra `live`). See `carom.live.viewing.view_run`."""
        return view("view_world")(self, run, **options)

    def play(self, dt: float, **options: Any) -> Any:
        """Play with a copy of the world in the browser (extra `live`), computed as you watch: pull bodies, add more; or, in a
        notebook, with its gravity, friction and restitution in the cell (extra `notebook`)."""
        return view("play_world")(self, dt, **options)

    @property
    def system(self) -> System:
        """The world as a `System`, for all methods, gradients, ensembles and diagnostics: `carom.solve(world.system, method,
        **world.start, dt=…, num_steps=…)`. Joints are joints of the system; forces must be written with jax.numpy. Refused where
        a pair of shapes has no smooth gap; see `carom.bodies.as_system`."""
        return system_of(self)

    @property
    def start(self) -> dict[str, Any]:
        """`q0`, `v0`, `params` and `shape` for `world.system`, as the world stands."""
        return start_of(self)

    def film(self, run: WorldRun) -> Film:
        """The shapes of all bodies through a run, for `carom.drawing` and reports: the same as `run.film`."""
        if not isinstance(run, WorldRun):
            raise InputError(f"a film is made of a run of the world; got {run!r}")
        if run.film is None:
            raise InputError("there is nothing to see: no body has a shape")
        return run.film


__all__ = ["Body", "World"]

"""Every argument of methods, contacts, shapes and worlds, with values that are none: a result, or a sentence; nothing raw."""

import inspect
import math

import pytest

import carom
from carom.errors import InputError

HOSTILE = {
    "None": None,
    "a text": "abc",
    "negative": -1,
    "zero": 0,
    "not a number": math.nan,
    "infinity": math.inf,
    "complex": 1j,
    "ragged": [[1.0], [1.0, 2.0]],
    "an object": object(),
    "a fraction": 1.5,
    "an empty list": [],
    "a table": {},
    "three": [1, 2, 3],
    "a class": dict,
    "beyond 64 bits": 10**400,
    "True": True,
}
NEEDED = {  # what a call needs so that one other argument can be looked at
    "gap": lambda q: q[0],
    "g": lambda q: q[0],
    "lagrangian": lambda q, v: 0.5 * v @ v,
    "function": lambda q: q[0],
    "method": carom.MoreauJean(),
    "points": [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)],
    "corners": [(0, 0), (1, 0), (0, 1)],
    "heights": [[0.0, 1.0], [0.0, 1.0]],
    "triangles": [[0, 1, 2]],
    "shape": carom.shapes.Sphere(0.1),
    "base": carom.Trapezoidal(),
    "stages": 2,
    "dim": 2,
    "count": 3,
    "space": carom.SO3(),
    "held": [0],
    "rule": lambda q: q[0],
    "mass": lambda params: 1.0,
    "potential": lambda q: 0.0,
    "nodes": 3,
    "element": lambda q: 0.0,
}


def _needed(function):
    entries = inspect.signature(function).parameters.values()
    asked = [
        e.name for e in entries if e.default is e.empty and e.kind not in (e.VAR_KEYWORD, e.VAR_POSITIONAL) and e.name != "self"
    ]
    asked += {carom.System: ["lagrangian"], carom.shapes.TriangleMesh: ["triangles"]}.get(function, [])
    special = {
        carom.shapes.Segment: {"a": (0, 0), "b": (1, 0)},
        carom.Chain: {"element": lambda left, right: 0.0},
        carom.Controller: {"every": 2},
    }.get(function, {})
    return {name: NEEDED.get(name, 0.5) for name in asked} | special


def _made(owner):
    return owner, lambda: _needed(owner)


def _of_a_world(verb, **arguments):
    """A verb of a world of two balls, and what makes it a call that fits."""

    def call(**given):
        world, a, b = _world()
        named = {"a": a, "b": b} | {key: {"<a>": a, "<b>": b}.get(value, value) if isinstance(value, str) else value
                                    for key, value in given.items()}  # fmt: skip
        known = inspect.signature(getattr(carom.World, verb)).parameters
        return getattr(world, verb)(**{key: value for key, value in named.items() if key in known})

    call.__signature__ = inspect.signature(getattr(carom.World, verb))
    return call, lambda: arguments


def _world():
    world = carom.World(gravity=(0, 0, -9.81))
    world.fix(carom.shapes.HalfSpace())
    return world, *(world.add(carom.shapes.Sphere(0.1), density=1000, position=(x, 0, 1)) for x in (0, 0.5))


METHODS = (
    "VariationalCollision",
    "MoreauJean",
    "TimeDG",
    "Hybrid",
    "EventDriven",
    "Adaptive",
    "Contact",
    "Joint",
    "System",
    "Stop",
    "Composition",
    "Galerkin",
    "Gamma",
    "Euclidean",
    "Power",
    "SO3",
    "SE3",
    "Supports",
    "Controller",
    "Convex",
    "LumpedSystem",
    "Chain",
    "World",
)
CALLS = {
    **{name: _made(getattr(carom, name)) for name in METHODS},
    **{
        name: _made(kind)
        for name in carom.shapes.__all__
        if name != "Shape" and inspect.isclass(kind := getattr(carom.shapes, name))
    },
    "world.add": _of_a_world("add", shapes=carom.shapes.Sphere(0.1), density=1.0, position=(0, 1, 1)),
    "world.fix": _of_a_world("fix", shapes=carom.shapes.Sphere(0.1), position=(0, 1, 1)),
    "world.joint": _of_a_world("joint", kind="ball", at=(0.2, 0, 1)),
    "world.spring": _of_a_world("spring", stiffness=1.0, at=[(0, 0, 1), (0.5, 0, 1)]),
    "world.material": _of_a_world("material"),
    "world.solve": _of_a_world("solve", dt=1e-3, num_steps=2),
    "world.force": _of_a_world("force", body="<a>", function=lambda t: (0, 0, 0)),
    "world.prescribe": _of_a_world("prescribe", shapes=carom.shapes.Sphere(0.1), motion=lambda t: (0, 1, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_raw(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # a text is the name of a file to some
    call, needed = CALLS[name]
    arguments = [e.name for e in inspect.signature(call).parameters.values() if e.kind not in (e.VAR_KEYWORD, e.VAR_POSITIONAL)]
    answered = taken = 0
    for argument in set(arguments) - {"self"}:
        for what, value in HOSTILE.items():
            if (argument, what) == ("callback", "a class"):
                continue  # it is called, and what it raises is its own
            try:
                call(**{**needed(), argument: value})
                taken += 1
            except InputError as error:
                answered += 1
                assert len(str(error)) > 20, (argument, what, str(error))
    assert answered > 0  # control: not everything is taken for good


def test_the_calls_fit_without_what_is_hostile():
    """Control: else every answer above would be to something else."""
    for call, needed in CALLS.values():
        call(**needed())

"""Every argument of methods, contacts, shapes and worlds, with values that are none: a result, or a sentence; nothing raw."""

import inspect
import math

import numpy as np
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
    "bytes": b"abc",
    "an empty array": np.array([]),
    "a text in an array": np.array("abc"),
    "a masked number": np.ma.masked,
    "a masked list": np.ma.array([1.0, 2.0], mask=[False, True]),
    "halves": np.array([1, 2], np.float16),
    "a date": np.datetime64("2020-01-01"),
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


def _ball():
    system = carom.System(lambda q, v, params: 0.5 * v @ v - params["g"] * q[1], [carom.Contact(lambda q: q[1])])
    return {"system": system, "method": carom.VariationalCollision(carom.Trapezoidal()), "dt": 0.01, "params": {"g": 9.81}}


def _from_one(**more):
    return lambda: {**_ball(), "q0": [0.0, 1.0], "v0": [0.0, 0.0], "num_steps": 3, **more}


def _from_many(**more):
    return lambda: {**_ball(), "q0s": [[0.0, 1.0], [0.0, 2.0]], "v0s": [0.0, 0.0], "num_steps": 3, **more}


def _at(momentum, *names, **more):
    whole = {**_ball(), "q": [0.0, 1.0], momentum: [0.0, 0.0], **more}
    return lambda: {name: whole[name] for name in ("system", "q", momentum, "params", *names, *more)}


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
    "solve": (carom.solve, _from_one()),
    "rollout": (carom.rollout, _from_one()),
    "ensemble": (carom.ensemble, _from_many(progress=False)),
    "expectation": (carom.expectation, _from_many(loss=lambda run: run.q[-1, 1])),
    "impact_map": (carom.impact_map, _at("p", contact=0)),
    "energy": (carom.diagnostics.energy, _at("v")),
    "step_jacobian": (carom.diagnostics.step_jacobian, _at("p", "method", "dt")),
    "rigid_velocity": (carom.rigid_velocity, lambda: {"q": [0.0] * 6 + [1.0], "v": [0.0] * 6}),
    "sliding_velocity": (
        carom.sliding_velocity,
        lambda: {"velocity": [1.0, 0.0], "angular_velocity": 1.0, "arm": [0.0, -1.0], "normal": [0.0, 1.0]},
    ),
    "Variational": (carom.Variational, dict),
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

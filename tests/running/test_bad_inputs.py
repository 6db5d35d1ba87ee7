"""A table of bad inputs: a call, and the sentence that answers it. No row may end in an exception of somebody else."""

# ruff: noqa: E501  # a table: one row, one line

import math
import traceback
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import carom
import carom.report
from carom.spaces.rotations import matrix

METHOD = carom.VariationalCollision(carom.Trapezoidal())
STEPPING = carom.MoreauJean()
FLOOR = carom.Contact(lambda q: q[1], name="floor")


def falling(q, v):
    return 0.5 * v @ v - 9.81 * q[1]


def heavy(q, v, params):
    return 0.5 * params["mass"] * (v @ v) - params["mass"] * params["g"]["earth"] * q[1]


AXIS = carom.System(  # a body that turns about its third axis, which stays where it is
    lambda v: 0.5 * v @ v, joints=[carom.Joint(lambda q: matrix(q)[:2, 2], name="axis")], space=carom.SO3()
)
FALLING = carom.System(falling, [FLOOR])
HEAVY = carom.System(heavy, [FLOOR])
GOOD = {"mass": 1.0, "g": {"earth": 9.81}}


def solve(system=FALLING, method=METHOD, q0=(0.0, 1.0), v0=(0.0, 0.0), dt=0.01, num_steps=10, **more):
    return carom.solve(system, method, q0, v0, dt=dt, num_steps=num_steps, **more)


def lagrangian(function, **more):
    return solve(carom.System(function, [FLOOR]), **more)


def gap(function, q0=(0.0, 1.0), **more):
    return solve(carom.System(falling, [carom.Contact(function, name="floor", **more)]), q0=q0)


def force(function):
    return solve(carom.System(falling, [FLOOR], force=function))


def rolling(function, **more):
    return solve(carom.System(falling, constraints=function), **more)


def joint(function, q0=(0.0, 1.0), v0=(0.0, 0.0)):
    return solve(carom.System(falling, joints=[carom.Joint(function, name="rod")]), STEPPING, q0, v0)


def many(system=FALLING, method=METHOD, q0s=((0.0, 1.0), (0.0, 2.0)), v0s=(0.0, 0.0), dt=0.01, num_steps=5, **more):
    return carom.ensemble(system, method, q0s, v0s, dt=dt, num_steps=num_steps, progress=False, **more)


def pure(system=FALLING, method=METHOD, q0=(0.0, 1.0), v0=(0.0, 0.0), dt=0.01, num_steps=5, **more):
    return carom.rollout(system, method, q0, v0, dt=dt, num_steps=num_steps, **more)


def mean(loss=lambda run: run.q[-1, 1], q0s=((0.0, 1.0), (0.0, 2.0)), **more):
    return carom.expectation(loss, FALLING, METHOD, q0s, [0.0, 0.0], **{"dt": 0.01, "num_steps": 5, **more})


def diagram(**more):
    given = {"vary": "mass", "values": [1.0], "dt": 0.01, "num_steps": 5, "params": GOOD, **more}
    return carom.diagnostics.bifurcation(HEAVY, METHOD, [0.0, 1.0], [0.0, 0.0], **given)


def mesh(data):
    Path("part.obj").write_bytes(data)
    return carom.shapes.read_mesh("part.obj")


def forgets(q, v):
    0.5 * v @ v


def branches(q, v):
    return 0.5 * v @ v - (9.81 if q[1] > 0 else 1.62) * q[1]


def loops(q, v):
    return 0.5 * v @ v - sum(q[1] for _ in range(v[0]))


SQUARE = carom.Convex([(0, 0), (1, 0), (1, 1), (0, 1)])
UNIT = np.array([1.0, 2.0, 3.0])
TABLE_OF_3 = jnp.arange(3.0)
EXAMPLES = carom.models.ALL


SYSTEMS = {
    "nothing": (lambda: carom.System(), "given by a lagrangian or by a hamiltonian"),
    "two functions": (lambda: carom.System(falling, hamiltonian=lambda q, p: p @ p), "given by a lagrangian or by a hamiltonian"),
    "a number as lagrangian": (lambda: carom.System(1.0), "lagrangian must be a function of q, v, t, params; got 1.0"),
    "a text as lagrangian": (lambda: carom.System("v**2"), "lagrangian must be a function"),
    "an unknown name": (lambda: carom.System(lambda q, velocity: 0.0), "lagrangian asks for 'velocity'; it can ask for q, v, t"),
    "a near name": (lambda: carom.System(lambda q, v, parms: 0.0), "did you mean 'params'"),
    "positions": (lambda: carom.System(lambda *args: 0.0), r"lagrangian takes \*args by position; it is called by name"),
    "positional only": (lambda: carom.System(lambda q, /, v: 0.0), "takes q by position"),
    "no signature": (lambda: carom.System(min), "cannot be read; wrap it in a def"),
    "p in a lagrangian": (lambda: carom.System(lambda q, p: 0.0), "lagrangian asks for 'p'"),
    "v in a hamiltonian": (lambda: carom.System(hamiltonian=lambda q, v: 0.0), "hamiltonian asks for 'v'; it can ask for q, p"),
    "v in a gap": (lambda: carom.Contact(lambda q, v: q[0]), "gap asks for 'v'; it can ask for q, t, params"),
    "q in a restitution": (lambda: carom.Contact(falling and (lambda q: q[0]), lambda q: 0.5), "restitution asks for 'q'"),
    "v in constraints": (lambda: carom.System(falling, constraints=lambda v: v), "constraints asks for 'v'"),
    "v in a joint": (lambda: carom.Joint(lambda v: v[0]), "joint asks for 'v'"),
    "a bare gap": (lambda: carom.System(falling, [lambda q: q[1]]), r"contacts\[0\] is .* wrap the gap function in carom.Contact"),
    "a bare gap, alone": (lambda: carom.System(falling, lambda q: q[1]), "wrap the gap function in carom.Contact"),
    "a number as contacts": (lambda: carom.System(falling, 3), "contacts must be a list of carom.Contact; got 3"),
    "a text as contacts": (lambda: carom.System(falling, "floor"), "contacts must be a list"),
    "None in contacts": (lambda: carom.System(falling, [None]), r"contacts\[0\] is None"),
    "a joint in contacts": (lambda: carom.System(falling, [carom.Joint(lambda q: q[0])]), r"contacts\[0\] is Joint"),
    "a bare joint": (lambda: carom.System(falling, joints=[lambda q: q[0]]), r"joints\[0\] is .*in carom.Joint"),
    "a bare joint, alone": (lambda: carom.System(falling, joints=lambda q: q[0]), r"joints\[0\] is .*in carom.Joint"),
    "a contact in joints": (lambda: carom.System(falling, joints=[FLOOR]), r"joints\[0\] is Contact"),
    "a number as joints": (lambda: carom.System(falling, joints=1), "joints must be a list of carom.Joint; got 1"),
    "a number as space": (lambda: carom.System(falling, space=2), "space must be a carom.Euclidean.* got 2"),
    "a class as space": (lambda: carom.System(falling, space=carom.Euclidean), r"space is the class Euclidean; make one of it: carom.Euclidean\(\)"),
    "no dimension": (lambda: carom.Euclidean(0), "dim must be a whole number between 1 and"),
    "half a dimension": (lambda: carom.Euclidean(2.5), "dim must be a whole number .*; got 2.5"),
    "names as one text": (lambda: carom.Euclidean(1, "theta"), r"names must be a list of texts.*got 'theta'"),
    "names that are numbers": (lambda: carom.Euclidean(2, (1, 2)), r"names must be a list of texts"),
    "a name twice": (lambda: carom.Euclidean(2, ("x", "x")), "two coordinates have the name 'x'"),
    "a number as unit": (lambda: carom.Euclidean(2, units=3), "units must be one text, or one for each of the 2 coordinates"),
    "names that do not fit": (lambda: carom.Euclidean(2, ("x",)), "1 names for 2 coordinates"),
    "an empty product": (lambda: carom.Product(), "at least one space"),
    "a product with a number": (lambda: carom.Product(carom.Euclidean(2), 3), "spaces only; got .*3"),
    "a power of a number": (lambda: carom.Power(3, 2), "space must be a carom.Euclidean, SO3, SE3 or a product of them; got 3"),
    "a power of none": (lambda: carom.Power(carom.Euclidean(1), 0), "count must be a whole number between 1 and"),
    "an unknown retraction": (lambda: carom.SO3(retraction="euler"), "retraction must be one of"),
    "restitution above 1": (lambda: carom.Contact(lambda q: q[1], 1.5, name="floor"), r"'floor': restitution must be in \[0, 1\]; got 1.5"),
    "restitution below 0": (lambda: carom.Contact(lambda q: q[1], -0.1), r"restitution must be in \[0, 1\]; got -0.1"),
    "restitution nan": (lambda: carom.Contact(lambda q: q[1], math.nan), r"restitution must be in \[0, 1\]; got nan"),
    "restitution text": (lambda: carom.Contact(lambda q: q[1], "elastic"), "restitution must be a number or a function of params; got 'elastic'"),
    "restitution None": (lambda: carom.Contact(lambda q: q[1], None), "restitution must be a number"),
    "restitution vector": (lambda: carom.Contact(lambda q: q[1], np.ones(2)), "restitution must be a number"),
    "friction below 0": (lambda: carom.Contact(lambda q: q[1], friction=-1.0, slip=lambda q: q[0]), "friction must be ≥ 0; got -1"),
    "friction text": (lambda: carom.Contact(lambda q: q[1], friction="rough", slip=lambda q: q[0]), "friction must be a number"),
    "friction without slip": (lambda: carom.Contact(lambda q: q[1], friction=0.3), "friction but no slip: pass slip="),
    "friction of an obstacle": (
        lambda: carom.Contact(lambda q: q, friction=0.3, slip=lambda q: q, obstacle=True), "not defined at its corners"),
    "friction asks for q": (lambda: carom.Contact(lambda q: q[1], friction=lambda q: 0.3, slip=lambda q: q[0]), "friction asks for 'q'; it can ask for params, speed"),
    "static friction below kinetic": (
        lambda: carom.Contact(lambda q: q[1], friction=0.5, static_friction=0.3, slip=lambda q: q[0], name="floor"),
        "'floor': static_friction must be at least friction, and friction positive; got 0.3 and 0.5"),
    "static friction alone": (lambda: carom.Contact(lambda q: q[1], static_friction=0.3, slip=lambda q: q[0]), "friction positive; got 0.3 and 0"),
    "static friction text": (lambda: carom.Contact(lambda q: q[1], friction=0.1, static_friction="more", slip=lambda q: q[0]), "static_friction must be a number"),
    "static friction negative": (lambda: carom.Contact(lambda q: q[1], friction=0.1, static_friction=-1, slip=lambda q: q[0]), "static_friction must be ≥ 0; got -1"),
    "static friction and a law of speed": (
        lambda: carom.Contact(lambda q: q[1], friction=lambda speed: 0.2, static_friction=0.3, slip=lambda q: q[0]), "leave static_friction out"),
    "static friction of speed": (
        lambda: carom.Contact(lambda q: q[1], friction=0.2, static_friction=lambda speed: 0.3, slip=lambda q: q[0]), "static_friction asks for 'speed'"),
    "static friction in params below kinetic": (
        lambda: solve(carom.System(falling, [carom.Contact(lambda q: q[1], friction=0.5, static_friction=lambda params: params["s"], slip=lambda q: q[0])]),
                      STEPPING, params={"s": 0.4}), "static_friction is 0.4 and friction 0.5: it must be at least that"),
    "rolling without roll": (lambda: carom.Contact(lambda q: q[1], friction=0.1, slip=lambda q: q[0], rolling=0.1), "takes both roll=, the angular velocity, and rolling="),
    "roll without rolling": (lambda: carom.Contact(lambda q: q[1], friction=0.1, slip=lambda q: q[0], roll=lambda v: v[0]), "takes both roll="),
    "rolling without friction": (lambda: carom.Contact(lambda q: q[1], rolling=0.1, roll=lambda v: v[0]), "rolling resistance needs friction"),
    "rolling negative": (lambda: carom.Contact(lambda q: q[1], rolling=-0.1, roll=lambda v: v[0]), "rolling must be ≥ 0; got -0.1"),
    "rolling with static friction": (
        lambda: carom.Contact(lambda q: q[1], friction=0.1, static_friction=0.2, slip=lambda q: q[0], rolling=0.1, roll=lambda v: v[0]), "do not go together"),
    "a number as roll": (lambda: carom.Contact(lambda q: q[1], friction=0.1, slip=lambda q: q[0], rolling=0.1, roll=1.0), "roll must be a function"),
    "a law of impact that nobody knows": (lambda: carom.Contact(lambda q: q[1], law="stronge"), "law must be one of newton, poisson; got 'stronge'"),
    "two laws of impact": (
        lambda: carom.System(falling, [carom.Contact(lambda q: q[1]), carom.Contact(lambda q: q[0], law="poisson")]), "one law of impact, 'newton' or 'poisson'"),
    "Poisson's law in one impulse": (
        lambda: solve(carom.System(falling, [carom.Contact(lambda q: q[1], law="poisson")]), STEPPING), "pass simultaneous='reflections'"),
    "a restitution that gains at speed": (
        lambda: gap(lambda q: q[1], restitution=lambda speed: 0.5 + 0.1 * speed), "restitution is .* at speed .*; more than 1 would add energy"),
    "a restitution that is negative at speed": (
        lambda: gap(lambda q: q[1], restitution=lambda speed: 0.5 - 0.1 * speed), r"restitution is -.* at speed .*; it must lie in \[0, 1\] at every speed"),
    "a friction that is negative at speed": (
        lambda: solve(carom.System(falling, [carom.Contact(lambda q: q[1], friction=lambda speed: 0.3 - speed, slip=lambda q: q[0])]), STEPPING),
        "friction is -.* at speed"),
    "a restitution of speed that is a vector": (lambda: gap(lambda q: q[1], restitution=lambda speed: jnp.ones(3) * speed), "restitution of .* must be one number"),
    "sliding velocity of mixed sizes": (lambda: carom.sliding_velocity([1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0], [0.0, 1.0]), "vectors of two entries and a number"),
    "rigid velocity of a point": (lambda: carom.rigid_velocity([0.0, 1.0], [0.0, 1.0]), "q with 7 entries and v with 6"),
    "a number as gap": (lambda: carom.Contact(1.0), "gap must be a function of q, t, params; got 1.0"),
    "restitution as text": (lambda: carom.Contact(lambda q: q[1], "0.5"), "restitution must be a number or a function of params; got '0.5'"),
    "any names at all": (lambda: carom.System(lambda **all: all["v"] @ all["v"]), r"lagrangian takes \*\*all: .*ask for q, v"),
    "a number as slip": (lambda: carom.Contact(lambda q: q[1], slip=1.0), "slip must be a function"),
    "a number as joint": (lambda: carom.Joint(1.0), "joint must be a function of q, t, params; got 1.0"),
    "a number as shape": (lambda: solve(shape=3), "shape must be a function of any of q, t, params"),
    "a number as name": (lambda: carom.Contact(lambda q: q[1], name=1), "name of a contact must be a text; got 1"),
    "a text as obstacle": (lambda: carom.Contact(lambda q: q[1], obstacle="yes"), "obstacle must be True or False"),
    "a friction contact on lumped masses": (
        lambda: carom.LumpedSystem(lambda: jnp.ones(2), lambda q: 0.0, carom.Euclidean(2),
                                   [carom.Contact(lambda q: q[1], friction=0.1, slip=lambda q: q[0])], separate=True),
        "separate contacts have neither friction"),
}  # fmt: skip

METHODS = {
    "an unknown law": (lambda: carom.VariationalCollision(simultaneous="both"), "simultaneous must be one of reflections, impulse"),
    "an unknown direction": (lambda: carom.VariationalCollision(direction="up"), "direction must be one of"),
    "no impacts": (lambda: carom.VariationalCollision(max_impacts_per_step=0), "max_impacts_per_step must be a positive whole number"),
    "an unknown balance": (lambda: carom.VariationalCollision(elastic="no"), "elastic must be one of balance, reflection"),
    "a rule by name": (lambda: carom.VariationalCollision("verlet"), "rule must be a carom rule such as carom.Trapezoidal"),
    "a rule by class": (lambda: carom.VariationalCollision(carom.Midpoint), "rule is the class Midpoint; make one of it"),
    "order 5": (lambda: carom.Composition(carom.Trapezoidal(), 5), "order must be one of 4, 6, 8; got 5"),
    "a composition of an asymmetric rule": (lambda: carom.Composition(carom.Left(), 4), "Left has order 1 and is not symmetric"),
    "gamma above 1": (lambda: carom.Gamma(1.2), "gamma must be a number between 0 and 1"),
    "no stages": (lambda: carom.Galerkin(0), "stages must be a positive whole number"),
    "theta as text": (lambda: carom.MoreauJean("half"), r"theta must lie in \[0, 1\]; got 'half'"),
    "theta above 1": (lambda: carom.MoreauJean(1.5), r"theta must lie in \[0, 1\]"),
    "degree below 0": (lambda: carom.TimeDG(-1), "degree must be a whole number from 0 to 12"),
    "an unknown side": (lambda: carom.TimeDG(1, "x"), "side must be '-' or '\\+'"),
    "a solver by name": (lambda: carom.EventDriven("rk45"), "solver must be a diffrax solver"),
    "no tolerance": (lambda: carom.EventDriven(rtol=0.0), "rtol must be a positive number"),
    "a hybrid of two alike": (lambda: carom.Hybrid(METHOD, METHOD), "contact must be a TimeDG or MoreauJean"),
    "a hybrid the wrong way round": (lambda: carom.Hybrid(STEPPING, METHOD), "collision must be a VariationalCollision"),
    "a method by class": (lambda: solve(method=carom.VariationalCollision), r"method is the class VariationalCollision; make one of it"),
    "a method by half of its name": (lambda: solve(method="moreau"), r"did you mean carom.MoreauJean\(\)"),
    "a method by another spelling": (lambda: solve(method="time_dg"), r"did you mean carom.TimeDG\(\)"),
    "a method that nobody knows": (lambda: solve(method="runge"), r"must be one of carom's, such as .*; got 'runge'$"),
    "a method by name": (lambda: solve(method="MoreauJean"), r"did you mean carom.MoreauJean\(\)"),
    "a rule as method": (lambda: solve(method=carom.Trapezoidal()), r"method must be one of carom's.*got Trapezoidal"),
    "None as method": (lambda: solve(method=None), "method must be one of carom's"),
    "a method by class in an ensemble": (lambda: many(method=carom.MoreauJean), "method is the class MoreauJean"),
    "interfaces with another method": (
        lambda: EXAMPLES["bars"]().solve(carom.MoreauJean()), "does not take systems with interfaces.*choose VariationalCollision"),
}  # fmt: skip

NUMBERS = {
    "q0 a number": (lambda: solve(q0=1.0), r"q0 must be a vector; got shape \(\) \(wrap a single number"),
    "q0 a matrix": (lambda: solve(q0=[[0.0, 1.0]]), "q0 must be a vector; got shape"),
    "q0 empty": (lambda: solve(q0=[], v0=[]), "q0 must be a vector"),
    "q0 ragged": (lambda: solve(q0=[[0.0], 1.0]), "q0 must be a list of numbers"),
    "q0 texts": (lambda: solve(q0=["a", 1]), "q0 must be a list of numbers"),
    "dt a number as text": (lambda: solve(dt="0.01"), "dt must be a positive number; got '0.01'"),
    "t0 a number as text": (lambda: solve(t0="1.0"), "t0 must be a finite number; got '1.0'"),
    "q0 numbers as texts": (lambda: solve(q0=["0.0", "1.0"]), "q0 must be a list of numbers"),
    "q0 an array of complex numbers": (lambda: solve(q0=np.array([1j, 1.0])), "q0 must be a list of numbers"),
    "q0 None": (lambda: solve(q0=None), "q0 must be a list of numbers|q0 must be a vector|finite"),
    "q0 complex": (lambda: solve(q0=[1j, 0.0]), "q0 must be a list of numbers"),
    "q0 masked": (lambda: solve(q0=np.ma.array([0.0, 1.0], mask=[True, False])), "q0 must be a list of numbers"),
    "q0 a dict": (lambda: solve(q0={"x": 0.0, "y": 1.0}), "q0 must be a list of numbers"),
    "q0 nan": (lambda: solve(q0=[0.0, np.nan]), r"q0\[1\] is nan; all entries must be finite"),
    "q0 infinite": (lambda: solve(q0=[np.inf, 1.0]), r"q0\[0\] is inf"),
    "q0 longer than v0": (lambda: solve(q0=[0.0, 1.0, 2.0]), "q0 has 3 entries and v0 has 2"),
    "q0 below the floor": (lambda: solve(q0=[0.0, -0.25]), r"inside an obstacle: contact 0 \('floor'\) is 0.25 deep.*q0 = "),
    "q0 that does not fit the space": (
        lambda: solve(carom.System(falling, space=carom.Euclidean(3, ("x", "y", "theta")))), r"space has 3 \(x, y, theta\)"),
    "v0 nan": (lambda: solve(v0=[np.nan, 0.0]), r"v0\[0\] is nan"),
    "v0 text": (lambda: solve(v0="fast"), "v0 must be a list of numbers"),
    "v0 missing": (lambda: solve(v0=None), "either v0 or p0: pass one of the two"),
    "v0 and p0": (lambda: solve(p0=[0.0, 0.0]), "either v0 or p0: pass one of the two"),
    "p0 too short": (lambda: solve(v0=None, p0=[0.0]), "q0 has 2 entries and p0 has 1"),
    "dt zero": (lambda: solve(dt=0.0), "dt must be a positive number; got 0.0"),
    "dt negative": (lambda: solve(dt=-0.1), "dt must be a positive number; got -0.1"),
    "dt nan": (lambda: solve(dt=math.nan), "dt must be a positive number; got nan"),
    "dt infinite": (lambda: solve(dt=math.inf), "dt must be a positive number; got inf"),
    "dt text": (lambda: solve(dt="fast"), "dt must be a positive number; got 'fast'"),
    "dt None": (lambda: solve(dt=None), "dt must be a positive number; got None"),
    "dt a list": (lambda: solve(dt=[0.1, 0.2]), "dt has the lengths of 2 steps, and num_steps is"),
    "dt complex": (lambda: solve(dt=1j), "dt must be a positive number"),
    "num_steps zero": (lambda: solve(num_steps=0), "num_steps must be a positive whole number; got 0"),
    "num_steps negative": (lambda: solve(num_steps=-5), "num_steps must be a positive whole number; got -5"),
    "num_steps a half": (lambda: solve(num_steps=1.5), "num_steps must be a positive whole number; got 1.5"),
    "num_steps nan": (lambda: solve(num_steps=math.nan), "num_steps must be a positive whole number; got nan"),
    "num_steps infinite": (lambda: solve(num_steps=math.inf), "num_steps must be a positive whole number; got inf"),
    "num_steps None": (lambda: solve(num_steps=None), "num_steps must be a positive whole number; got None"),
    "num_steps text": (lambda: solve(num_steps="100"), "num_steps must be a positive whole number; got '100'"),
    "num_steps a list": (lambda: solve(num_steps=[10]), "num_steps must be a positive whole number"),
    "num_steps beyond counting": (lambda: solve(num_steps=2**40), "num_steps is 1099511627776, and 2147483647 is the most"),
    "more steps than fit into memory": (
        lambda: solve(carom.System(lambda q, v: 0.5 * v @ v), q0=np.zeros(400), v0=np.zeros(400), num_steps=2**31 - 1),
        r"need 1.28e\+04 GiB, and .* are free: keep every .* with stride="),
    "stride zero": (lambda: solve(stride=0), "stride must be a positive whole number; got 0"),
    "stride a half": (lambda: solve(stride=1.5), "stride must be a positive whole number; got 1.5"),
    "stride None": (lambda: solve(stride=None), "stride must be a positive whole number; got None"),
    "stride text": (lambda: solve(stride="2"), "stride must be a positive whole number; got '2'"),
    "max_impacts zero": (lambda: solve(max_impacts=0), "max_impacts must be a positive whole number; got 0"),
    "max_impacts a half": (lambda: solve(max_impacts=2.5), "max_impacts must be a positive whole number; got 2.5"),
    "max_impacts nan": (lambda: solve(max_impacts=math.nan), "max_impacts must be a positive whole number"),
    "t0 nan": (lambda: solve(t0=math.nan), "t0 must be a finite number; got nan"),
    "t0 None": (lambda: solve(t0=None), "t0 must be a finite number; got None"),
    "t0 text": (lambda: solve(t0="now"), "t0 must be a finite number; got 'now'"),
    "every without checkpoint": (lambda: solve(every=10), "pass checkpoint= too"),
    "every a half": (lambda: solve(every=0.5, checkpoint="x.zarr"), "every must be a positive whole number"),
    "checkpoint a number": (lambda: solve(checkpoint=3), "checkpoint must be the name of a \\*.zarr; got 3"),
    "checkpoint of another kind": (lambda: solve(checkpoint="run.npz"), "must be a name that ends in .zarr"),
    "checkpoint without a folder": (lambda: solve(checkpoint="/proc/none/run.zarr"), "folder cannot be made"),
    "a function as system": (lambda: solve(falling), "system must be a carom.System; got function"),
    "a model as system": (lambda: solve(EXAMPLES["star"]()), "system must be a carom.System; got Model.*model.solve"),
    "None as system": (lambda: solve(None), "system must be a carom.System; got NoneType"),
}  # fmt: skip

PARAMS = {
    "missing": (lambda: solve(HEAVY, params={"g": {"earth": 1.0}}), r"lagrangian reads params\['mass'\], which was not given"),
    "missing, near": (lambda: solve(HEAVY, params={"mas": 1.0, "g": {"earth": 1.0}}), r"did you mean 'mas'\?"),
    "missing, nested": (
        lambda: solve(HEAVY, params={"mass": 1.0, "g": {"moon": 1.6}}), r"reads params\['g'\]\['earth'\], which was not given; given: moon"),
    "no params": (lambda: solve(HEAVY), r"reads params\['mass'\], which was not given; given: none"),
    "unread": (lambda: solve(HEAVY, params={**GOOD, "drag": 1.0}), "params has 'drag', which no function of the system reads"),
    "infinite": (lambda: solve(HEAVY, params={**GOOD, "mass": np.inf}), r"params\['mass'\] is inf; parameters must be finite"),
    "nan, nested": (lambda: solve(HEAVY, params={"mass": 1.0, "g": {"earth": np.nan}}), r"params\['g'\]\['earth'\] is nan"),
    "a text": (lambda: solve(HEAVY, params={**GOOD, "mass": "heavy"}), r"params\['mass'\] must be a number or an array; got 'heavy'"),
    "a function": (lambda: solve(HEAVY, params={**GOOD, "mass": abs}), r"params\['mass'\] must be a number"),
    "a number as text": (lambda: solve(HEAVY, params={**GOOD, "mass": "1.0"}), r"params\['mass'\] must be a number or an array; got '1.0'"),
    "numbers as texts": (lambda: solve(HEAVY, params={"mass": 1.0, "g": {"earth": np.array(["9.81"])}}), r"params\['g'\]\['earth'\] must be a number"),
    "a span of time": (lambda: solve(HEAVY, params={**GOOD, "mass": np.timedelta64(3, "s")}), r"params\['mass'\] must be a number"),
    "complex numbers": (lambda: solve(HEAVY, params={**GOOD, "mass": np.array(1 + 2j)}), r"params\['mass'\] must be a number"),
    "an object": (lambda: solve(HEAVY, params=SimpleNamespace(mass=1.0)), r"params must be a number or an array; .*as a dict: vars"),
    "a series of pandas": (lambda: solve(HEAVY, params=pd.Series({"mass": 1.0})), r"got Series: pass its .to_dict\(\)"),
    "None": (lambda: solve(HEAVY, params={**GOOD, "mass": None}), r"params\['mass'\] is None; parameters are numbers"),
    "complex": (lambda: solve(HEAVY, params={**GOOD, "mass": 1j}), r"params\['mass'\] must be a number"),
    "no mass": (lambda: solve(HEAVY, params={**GOOD, "mass": 0.0}), "without kinetic energy"),
    "negative mass": (lambda: solve(HEAVY, params={**GOOD, "mass": -1.0}), "kinetic energy is negative along v = "),
    "a number for a dict": (lambda: solve(HEAVY, params=3.0), "the lagrangian "),
    "a list for a dict": (lambda: solve(HEAVY, params=[1.0]), "the lagrangian "),
    "an attribute of a dict": (
        lambda: lagrangian(lambda q, v, params: params.mass * v @ v, params={"mass": 1.0}), r"lagrangian reads params.mass; params is a dict: write params\['mass'\]$"),
    "an index beyond an array": (
        lambda: lagrangian(lambda q, v, params: 0.5 * v @ v - params["g"][3] * q[1], params={"g": UNIT}), r"reads params\['g'\]\[3\], of 3"),
    "an index beyond a list": (
        lambda: lagrangian(lambda q, v, params: 0.5 * v @ v - params["g"][3] * q[1], params={"g": [1.0, 2.0]}), "IndexError"),
    "restitution from params": (
        lambda: solve(carom.System(falling, [carom.Contact(lambda q: q[1], lambda params: params["e"])]), params={"e": 2.0}),
        r"restitution must lie in \[0, 1\]; it is 2"),
    "friction from params": (
        lambda: solve(carom.System(falling, [carom.Contact(lambda q: q[1], friction=lambda params: params["m"], slip=lambda q: q[0])]),
                      params={"m": -1.0}), "friction must lie in"),
    "restitution of the wrong shape": (
        lambda: gap(lambda q: q[1], restitution=lambda params: jnp.ones(3)), r"restitution of contact 'floor' must be one number"),
    "an unknown parameter of a model": (lambda: EXAMPLES["star"]().solve(params={"gravty": 1.0}), "has no parameter 'gravty'"),
}  # fmt: skip

FUNCTIONS = {
    "numpy": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - np.sin(q[1])), r"function of numpy or another library; use jax.numpy.*line"),
    "numpy.dot": (lambda: lagrangian(lambda q, v: 0.5 * np.dot(v, v)), "the lagrangian hands .* use jax.numpy"),
    "numpy in a gap": (lambda: gap(lambda q: np.hypot(q[0], q[1]) - 0.5), "the gap hands .* use jax.numpy"),
    "numpy in a force": (lambda: force(lambda q: np.cos(q)), "the force hands .* use jax.numpy"),
    "math": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - math.sin(q[1])), r"plain number .*\(math.sin, float, int\); use jax.numpy"),
    "float()": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - float(q[1])), "makes a plain number of a value"),
    "item()": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - q[1].item()), "makes a plain number of a value"),
    "if": (lambda: lagrangian(branches), "decides with if.* use jnp.where"),
    "min": (lambda: gap(lambda q: min(q[0] + 2, q[1])), "the gap decides with if, and, or, min or max.*jnp.minimum"),
    "and": (lambda: gap(lambda q: q[1] and q[0]), "the gap decides with if, and"),
    "if on a parameter": (
        lambda: lagrangian(lambda q, v, params: v @ v * (1 if params["m"] > 0 else 2), params={"m": 1.0}), "decides with if"),
    "range": (lambda: lagrangian(loops), "as an index or as a count"),
    "a list indexed": (lambda: lagrangian(lambda q, v: v @ v * [1.0, 2.0][q[0].astype(int)]), "as an index or as a count"),
    "a missing return": (lambda: lagrangian(forgets), "lagrangian returns nothing: is a return missing"),
    "an unknown name inside": (lambda: lagrangian(lambda q, v: v @ v * unknown), "uses a name that is not known: name 'unknown'"),
    "a text returned": (lambda: lagrangian(lambda q, v: "energy"), "the lagrangian fails with"),
    "a division by zero": (lambda: lagrangian(lambda q, v: v @ v / 0), "ZeroDivisionError|lagrangian is"),
    "an exception": (lambda: lagrangian(lambda q, v: {}["x"]), "reads the key 'x', which is not there"),
    "shapes that do not fit": (lambda: lagrangian(lambda q, v: v @ jnp.ones(3)), "the lagrangian fails with TypeError"),
    "a vector": (lambda: lagrangian(lambda q, v: v**2), "lagrangian must return one number; it returns shape"),
    "complex numbers": (lambda: lagrangian(lambda q, v: v @ v * (1 + 1j)), "returns complex numbers"),
    "float32": (lambda: lagrangian(lambda q, v: (v @ v).astype(jnp.float32)), "returns float32; carom computes in float64"),
    "float16": (lambda: gap(lambda q: q[1].astype(jnp.float16)), "the gap returns float16; carom computes in float64"),
    "a constant": (lambda: lagrangian(lambda q, v: 1.0), "without kinetic energy"),
    "no velocity": (lambda: lagrangian(lambda q: q[1]), "no kinetic energy along"),
    "not a number": (lambda: lagrangian(lambda q, v: 0.5 * v @ v + jnp.log(q[0] - 1)), "the lagrangian is nan at the initial state"),
    "not finite": (lambda: lagrangian(lambda q, v: 0.5 * v @ v + 1 / q[0]), "the lagrangian is inf at the initial state"),
    "q[2] of two": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - q[2]), r"the lagrangian reads q\[2\], of 2"),
    "q[-3] of two": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - q[-3]), r"the lagrangian reads q\[-3\], of 2"),
    "v[5] of two": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - v[5]), r"the lagrangian reads v\[5\], of 2"),
    "q[[0, 4]] of two": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - q[jnp.array([0, 4])].sum()), r"reads q\[4\], of 2"),
    "q[2] in a gap": (lambda: gap(lambda q: q[2]), r"the gap reads q\[2\], of 2"),
    "q[2] in a force": (lambda: force(lambda q: jnp.array([q[2], 0.0])), r"the force reads q\[2\], of 2"),
    "a table indexed beyond": (
        lambda: lagrangian(lambda q, v: 0.5 * v @ v - TABLE_OF_3[3]), "reads entry 3 of an array, of 3"),
    "q[2] behind jit": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - jax.jit(lambda x: x[2])(q)), r"reads q\[2\], of 2"),
    "q.at[2]": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - q.at[2].set(0.0).sum()), r"reads q\[2\], of 2"),
    "q.at[2], multiplied": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - q.at[2].mul(2.0).sum()), r"reads q\[2\], of 2"),
    "q[i] under vmap": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - jax.vmap(lambda i: q[i])(jnp.arange(3)).sum()), r"reads q\[2\], of 2, .* \(jnp.clip\)"),
    "a stop that never comes": (lambda: solve(HEAVY, params=GOOD, stop=lambda q: 1.0), "the stop 'stop' depends on none of q, v and t"),
    "a command that is not there": (
        lambda: solve(carom.System(falling, force=lambda u: u[1] * UNIT[:2], controller=carom.Controller(lambda memory: (0.0, memory), memory={"s": 0.0}, every=1))),
        r"the force reads u\[1\], of 1"),
    "a memory that is not there": (
        lambda: solve(carom.System(falling, force=lambda u: u * UNIT[:2], controller=carom.Controller(lambda memory: (memory["s"][5], memory), memory={"s": UNIT}, every=1))),
        r"the controller reads memory\['s'\]\[5\], of 3"),
    "a loop of unknown length": (
        lambda: lagrangian(lambda q, v: 0.5 * v @ v - jax.lax.while_loop(lambda c: c < 2, lambda c: c + q[1], 0.0)),
        "the lagrangian uses lax.while_loop, .* JAX cannot differentiate; use lax.scan"),
    "a gap with a loop of unknown length": (
        lambda: solve(carom.System(falling, [carom.Contact(lambda q: jax.lax.while_loop(lambda c: c < 2, lambda c: c + q[1], 0.0))])),
        "the gap uses lax.while_loop"),
    "q[i + 1] in a loop": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - jax.lax.fori_loop(0, 2, lambda i, s: s + q[i + 1], 0.0)), r"reads q\[2\], of 2"),
    "q[i] along a list": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - jax.lax.map(lambda i: q[i], jnp.arange(3)).sum()), r"reads q\[2\], of 2"),
    "a slice that ends beyond": (lambda: lagrangian(lambda q, v: 0.5 * v @ v - jax.lax.dynamic_slice_in_dim(q, 1, 2).sum()), r"reads q\[1\], of 2"),
    "a slice that is written beyond": (
        lambda: lagrangian(lambda q, v: 0.5 * v @ v - jax.lax.dynamic_update_slice(q, jnp.ones(1), (2,)).sum()), r"reads q\[2\], of 2"),
    "too many indices": (lambda: lagrangian(lambda q, v: v @ v * q[0, 1]), "the lagrangian fails with IndexError"),
    "a quartic kinetic energy": (lambda: lagrangian(lambda q, v: (v @ v) ** 2, v0=(1.0, 0.0)), "not quadratic in the velocities"),
    "an indefinite mass": (lambda: lagrangian(lambda q, v: 0.5 * (v[0] ** 2 - v[1] ** 2)), r"negative along v = \[0. *1.\]"),
    "a callback": (
        lambda: lagrangian(lambda q, v: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), float), v @ v)),
        "the lagrangian cannot be differentiated"),
    "a force that is too long": (lambda: force(lambda q: jnp.zeros(3)), "force must have 2 entries, one per coordinate"),
    "a force that is a number": (lambda: force(lambda q: 1.0), "force must have 2 entries"),
    "a force that is not finite": (lambda: force(lambda q: jnp.array([1 / q[0], 0.0])), r"the force is \[inf *0.\] at the initial"),
    "a force that is nothing": (lambda: force(lambda q: None), "the force returns nothing"),
    "a module with a text": (lambda: solve(carom.System(eqx.nn.Identity())), "lagrangian"),
}  # fmt: skip

GAPS = {
    "abs": (lambda: gap(lambda q: jnp.abs(q[1])), r"contact 0 \('floor'\) does not become negative.*negative inside"),
    "abs, elsewhere": (lambda: gap(lambda q: jnp.abs(q[1] - 0.3)), "does not become negative beyond its zero"),
    "distance from a point": (lambda: gap(lambda q: jnp.linalg.norm(q - 0.2)), "does not become negative beyond its zero"),
    "square, elsewhere": (lambda: gap(lambda q: (q @ q - 0.3) ** 2), "does not become negative beyond its zero"),
    "maximum": (lambda: gap(lambda q: jnp.maximum(q[1], 0.0)), "does not become negative beyond its zero"),
    "a square": (lambda: gap(lambda q: q[1] ** 2), "does not become negative beyond its zero"),
    "a distance to a point": (lambda: gap(lambda q: jnp.sqrt(q @ q)), "does not become negative beyond its zero"),
    "1 + cos": (lambda: gap(lambda q: 1 + jnp.cos(q[1])), "does not become negative beyond its zero"),
    "abs, on the floor": (lambda: gap(lambda q: jnp.abs(q[1]), q0=(0.0, 0.0)), "does not become negative beyond its zero"),
    "a boolean": (lambda: gap(lambda q: q[1] > 0), "gap of contact 'floor' returns true or false; it must be a distance"),
    "whole numbers": (lambda: gap(lambda q: jnp.floor(q[1]).astype(int)), "returns whole numbers; it must be a distance"),
    "a constant gap": (lambda: gap(lambda q: 1.0), "depends neither on q nor on t: it never closes"),
    "a gap of nothing": (lambda: gap(lambda: 1.0), "depends neither on q nor on t"),
    "a gap of params alone": (lambda: gap(lambda params: jnp.asarray(1.0)), "depends neither on q nor on t"),
    "a matrix": (lambda: gap(lambda q: jnp.outer(q, q)), "gap of contact 'floor' has shape .2, 2.; it must be a number or a vector"),
    "an empty gap": (lambda: gap(lambda q: q[:0]), "has shape .0,.; it must be a number or a vector"),
    "a gap that is nothing": (lambda: gap(lambda q: None), "the gap returns nothing"),
    "a gap that is not a number": (lambda: gap(lambda q: jnp.log(q[0] - 1.0)), r"the gap of contact 0 \('floor'\) is not a number"),
    "slip of the wrong size": (
        lambda: gap(lambda q: jnp.stack([q[1], q[1] + 1]), friction=0.1, slip=lambda q: jnp.ones(3)), "slip of contact 'floor' has shape .3,."),
    "slip with too few rows": (
        lambda: gap(lambda q: jnp.stack([q[1], q[1] + 1]), friction=0.1, slip=lambda q: jnp.ones((1, 2))), "one row for each of the 2"),
    "a comparison as number": (lambda: gap(lambda q: (q[1] > 0).astype(float)), "gap of contact 'floor' has no slope along q .a comparison, sign or floor"),
    "the sign of a height": (lambda: gap(lambda q: jnp.sign(q[1])), "has no slope along q"),
    "a height without a derivative": (lambda: gap(lambda q: jax.lax.stop_gradient(q[1])), "has no slope along q"),
    "a gap of time alone": (lambda: gap(lambda t: 1 - t), "has no slope along q .*function of t alone"),
    "a slip that is a number": (lambda: gap(lambda q: q[1], friction=0.1, slip=lambda q: jnp.ones(1)), "slip of contact 'floor' depends neither on v nor on q: nothing would ever slide"),
    "a slip that forgets v": (lambda: gap(lambda q: q[1], friction=0.1, slip=lambda q, v: q[0]), "slip of contact 'floor' asks for v and does not change with it"),
    "a slip along the normal": (
        lambda: gap(lambda q: q[1], friction=0.1, slip=lambda v: v[1]), "slip of contact 'floor' moves as its gap does: friction acts along the surface"),
    "a slip with a normal part": (lambda: gap(lambda q: q[1], friction=0.1, slip=lambda v: v), "slip of contact 'floor' moves as its gap does"),
    "a squared slip": (lambda: gap(lambda q: q[1], friction=0.1, slip=lambda v: v[:1] ** 2), "slip of contact 'floor' is not linear in v"),
    "a slip without its sign": (lambda: gap(lambda q: q[1], friction=0.1, slip=lambda v: jnp.abs(v[0])), "not linear in v"),
    "a joint twice": (
        lambda: solve(carom.System(falling, joints=[carom.Joint(lambda q: q @ q - 1), carom.Joint(lambda q: 2 * (q @ q - 1), name="rod")]), STEPPING),
        "joint 'rod' follows from those before it at the start"),
    "a squared joint": (lambda: joint(lambda q: (jnp.sqrt(q @ q) - 1) ** 2), "joint 'rod' has no slope at the start"),
    "a stop that is true or false": (lambda: solve(stop=lambda q: q[1] < 0.5), "returns true or false; it must be a number that passes through zero"),
    "a callback of nothing": (lambda: solve(callback=lambda: None), "callback is called with one argument, a snapshot"),
    "a callback of two": (lambda: solve(callback=lambda step, t: None), "callback is called with one argument"),
    "an empty slip": (lambda: gap(lambda q: q[1], friction=0.1, slip=lambda q: q[:0]), "slip of contact 'floor' has shape .0,."),
    "a joint that does not hold": (
        lambda: joint(lambda q: q @ q - 1, (0.0, 1.5)), r"joint 'rod' does not hold at the start: it is 1.25.*q0 = \[0., 1.\], v0 = \[0., 0.\]"),
    "a joint torn apart": (lambda: joint(lambda q: q @ q - 1, v0=(0.3, 0.5)), r"tears joint 'rod' apart: its rate is 1, .*v0 = \[0.3, 0. *\]"),
    "one joint of two": (lambda: joint(lambda q: jnp.stack([q[0], q[1] - 2])), r"joint 'rod'\[1\] does not hold.*q0 = \[0., 2.\]"),
    "a moving joint": (lambda: joint(lambda q, t: q[1] - 1 - 3 * t), r"tears joint 'rod' apart: its rate is -3.*v0 = \[0., 3.\]"),
    "a joint on rotations": (
        lambda: solve(AXIS, STEPPING, (math.cos(0.2), math.sin(0.2), 0, 0), (0, 0, 1)), r"joint 'axis'\[1\] does not hold at the start.*q0 = \[ ?1., +-?0., +-?0., +-?0.\], v0 = "),
    "a joint on rotations, torn": (
        lambda: solve(AXIS, STEPPING, (1, 0, 0, 0), (0.3, 0, 1)), r"v0 tears joint 'axis'\[1\] apart: .*v0 = \[0., 0., 1.\]"),
    "a joint that cannot hold": (lambda: joint(lambda q: q @ q + 1), "joint 'rod' does not hold at the start: it is 2, and should be 0$"),
    "a joint that is a matrix": (lambda: joint(lambda q: jnp.outer(q, q)), "joint 'rod' has shape .2, 2."),
    "a joint that is not a number": (lambda: joint(lambda q: jnp.log(q[0])), "the joints are .*inf.* at the initial state"),
    "constraints of three columns": (lambda: rolling(lambda q: jnp.ones((1, 3))), "matrix with 2 columns, one per velocity"),
    "as many constraints as velocities": (lambda: rolling(lambda q: jnp.eye(2)), "nothing could move"),
    "constraints that depend on one another": (
        lambda: solve(carom.System(lambda q, v: v @ v, constraints=lambda q: jnp.ones((2, 3))), q0=np.zeros(3), v0=np.zeros(3)),
        "not independent: A has 2 rows but rank 1"),
    "a velocity against constraints": (lambda: rolling(lambda q: jnp.array([[1.0, 0.0]]), v0=[1.0, 0.0]), r"v0 violates the constraints.*v0 = "),
    "constraints that are not finite": (lambda: rolling(lambda q: jnp.array([[1 / q[0], 0.0]])), "constraints are not finite"),
}  # fmt: skip

TRACED = {
    "jit": (lambda: jax.jit(lambda x: solve(q0=[0.0, x]).q[-1, 1])(1.0), "q0 is being traced by jit, grad or vmap.*carom.rollout"),
    "grad by v0": (lambda: jax.grad(lambda x: solve(v0=jnp.array([x, 0.0])).q[-1, 1])(1.0), "v0 is being traced"),
    "grad by params": (lambda: jax.grad(lambda m: solve(HEAVY, params={**GOOD, "mass": m}).q[-1, 1])(1.0), "params is being traced"),
    "vmap": (lambda: jax.vmap(lambda x: solve(q0=x).q[-1])(jnp.ones((3, 2))), "q0 is being traced"),
    "grad by dt": (lambda: jax.grad(lambda h: solve(dt=h).q[-1, 1])(0.1), "dt is being traced"),
    "grad by a captured value": (
        lambda: jax.grad(lambda g: lagrangian(lambda q, v: 0.5 * v @ v - g * q[1]).q[-1, 1])(1.0), "captures a value .*carom.rollout"),
    "grad by restitution": (
        lambda: jax.grad(lambda e: gap(lambda q: q[1], restitution=e).q[-1, 1])(0.5), "restitution|system is being traced"),
    "jit of an ensemble": (lambda: jax.jit(lambda x: many(q0s=x).q_end)(jnp.ones((3, 2))), "q0s is being traced"),
    "rollout: a captured value": (
        lambda: jax.grad(lambda g: pure(carom.System(lambda q, v: 0.5 * v @ v - g * q[1])).q[-1, 1])(1.0), "through params"),
    "rollout: rotations": (
        lambda: pure(EXAMPLES["rigid_body"]().system, q0=np.ones(6), v0=np.ones(6)), "vectors of lengths 7 and 6"),
    "rollout: no params": (lambda: pure(EXAMPLES["star"]().system, q0=np.ones(3), v0=np.ones(3), params=None), "reads params"),
    "rollout: a method by class": (lambda: pure(method=carom.VariationalCollision), "method is the class VariationalCollision"),
    "rollout: shapes": (lambda: pure(q0=[0.0, 1.0, 2.0]), "must be vectors of the same length"),
    "rollout: a matrix": (lambda: pure(q0=np.ones((2, 2)), v0=np.ones((2, 2))), r"use jax.vmap for many"),
    "rollout: no steps": (lambda: pure(num_steps=0), "num_steps must be a positive whole number; got 0"),
    "rollout: half a step": (lambda: pure(num_steps=1.5), "num_steps must be a positive whole number; got 1.5"),
    "rollout: None": (lambda: pure(num_steps=None), "num_steps must be a positive whole number; got None"),
    "rollout: texts": (lambda: pure(q0=["a", "b"]), "q0 must be a list of numbers"),
    "rollout: None as v0": (lambda: pure(v0=None), "v0 must be a list of numbers"),
    "rollout: a text as dt": (lambda: pure(dt="x"), "dt must be a number"),
    "rollout: a function as system": (lambda: pure(falling), "system must be a carom.System; got function"),
}  # fmt: skip

MANY = {
    "rollout from texts": (lambda: pure(q0=["0.0", "1.0"]), "q0 must be a list of numbers"),
    "a number": (lambda: many(q0s=1.0), r"q0s must have the shape \[lanes, coordinates\]"),
    "texts": (lambda: many(q0s=[["a", "b"]]), "q0s must be an array of numbers, one row per lane"),
    "lanes that do not agree": (lambda: many(q0s=np.ones((3, 2)), v0s=np.zeros((2, 2))), "v0s has 2 rows; there are 3 lanes"),
    "a lane that is not finite": (lambda: many(q0s=[[0.0, 1.0], [0.0, np.nan]]), "q0s: lane 1 is"),
    "a lane below the floor": (lambda: many(q0s=[[0.0, 1.0], [0.0, -1.0]]), r"lane 1: .* inside an obstacle: contact 0 \('floor'\)"),
    "no steps": (lambda: many(num_steps=0), "num_steps must be a positive whole number"),
    "dt negative in a lane": (lambda: many(dt=[0.1, -0.1]), "dt must be positive in every lane; it is -0.1"),
    "dt text": (lambda: many(dt="fast"), "dt must be "),
    "each too short": (
        lambda: many(HEAVY, params={"g": {"earth": 1.0}}, each={"mass": [1.0, 2.0, 3.0]}), "there are 3 lanes"),
    "each nested": (
        lambda: many(HEAVY, params={"mass": 1.0}, each={"g": {"earth": [1.0, 2.0]}}), r"each\['g'\] must be an array.*one row per lane"),
    "each a text": (lambda: many(HEAVY, params={"g": {"earth": 1.0}}, each={"mass": "heavy"}), r"each\['mass'\] must be an array"),
    "each a list": (lambda: many(HEAVY, params=GOOD, each=[1.0, 2.0]), "each gives parameters by name"),
    "each beside params that are no dict": (lambda: many(params=[1.0], each={"a": [1.0, 2.0]}), "params must then be a dict"),
    "each that nobody reads": (lambda: many(each={"drag": [1.0, 2.0]}), "params has 'drag', which no function"),
    "float16": (lambda: many(dtype=np.float16), "dtype must be float64 or float32; got float16"),
    "a dtype by a wrong name": (lambda: many(dtype="double-double"), "dtype must be float64 or float32; got 'double-double'"),
    "whole numbers as dtype": (lambda: many(dtype=int), "dtype must be float64 or float32; got int"),
    "save a half": (lambda: many(save=0.5), "save"),
    "save beyond": (lambda: many(save=[99]), "save"),
    "a function as system": (lambda: many(falling), "system must be a carom.System"),
    "sweep: an unknown model": (lambda: carom.sweep("sta", {"dt": [0.1]}), "star"),
    "sweep: an unknown name": (lambda: carom.sweep("star", {"gravty": [0.1]}), "gravty"),
    "sweep: where nothing can be written": (
        lambda: carom.sweep("pendulum", {"wall": [0.1]}, out="/proc/none/study.zarr", workers=0), "nothing can be written to .*choose another folder"),
    "sweep: nothing": (lambda: carom.sweep("star"), "grid|samples"),
    "sweep: a number": (lambda: carom.sweep("star", 3), "grid must be a dict"),
    "sweep: samples of two lengths": (lambda: carom.sweep("star", samples={"dt": [0.1], "q0.x": [1.0, 2.0]}), "length|equal|same"),
    "load: nothing there": (lambda: carom.load("no-such-run.zarr"), "no-such-run"),
    "impact_map: an unknown contact": (lambda: carom.impact_map(FALLING, "wall", [0.0, 0.0], [0.0, -1.0]), "no contact 'wall'; there are: floor"),
    "impact_map: contact 7": (lambda: carom.impact_map(FALLING, 7, [0.0, 0.0], [0.0, -1.0]), "contact 7 does not exist"),
    "impact_map: no contacts": (lambda: carom.impact_map(carom.System(falling), 0, [0.0, 0.0], [0.0, -1.0]), "no contacts"),
    "lists of several lengths as dt": (lambda: solve(dt=[[1, 2], [3]]), "dt must be a positive number, or a list of them"),
    "a bar of no length": (lambda: solve(progress=np.array([])), "progress must be True or False"),
    "a throw that is none": (lambda: solve(throw=np.array([])), "throw must be True or False"),
    "a checkpoint without a name": (lambda: solve(checkpoint=""), r"checkpoint must be the name of a \*.zarr; got ''"),
    "a checkpoint in bytes": (lambda: solve(checkpoint=b"x.zarr"), r"checkpoint must be the name of a \*.zarr"),
    "a number of steps that is masked": (lambda: solve(num_steps=np.ma.masked), "num_steps must be a positive whole number; got masked"),
    "a time that is a list": (lambda: pure(t0=[]), "t0 must be one number; got shape"),
    "a text in an array": (lambda: pure(HEAVY, params=np.array("a")), "params must be a number or an array"),
    "a date as params": (lambda: pure(HEAVY, params={"mass": np.datetime64("2020-01-01")}), r"params\['mass'\] must be a number"),
    "saved steps in rows": (lambda: many(save=[[1, 2], [3]]), "save must be a positive whole number or a list of steps"),
    "a device that is none": (lambda: many(devices="gpu"), r"devices must be a list of JAX's, such as jax.devices\(\); got 'gpu'"),
    "a mean over other lanes": (lambda: mean(dt=[0.1, 0.1, 0.1]), "q0s has 2 rows; there are 3 lanes"),
    "a mean over rows of several lengths": (lambda: mean(q0s=[[0.0, 1.0], [1.0]]), "q0s must be a list of numbers"),
    "a mean with each of one": (lambda: mean(each=3), "each gives parameters by name"),
    "a loss of a whole run": (lambda: mean(lambda run: run.q), r"the loss must be one number for each run; it has the shape \(6, 2\)"),
    "a loss that is nothing": (lambda: mean(lambda run: None), "the loss fails with"),
    "a loss that fails": (lambda: mean(lambda run: run.heights), "the loss fails with AttributeError"),
    "workers in words": (lambda: carom.sweep("particle", grid={"gravity": [1.0]}, workers="two"), "workers must be a whole number"),
    "half a block": (lambda: carom.sweep("particle", grid={"gravity": [1.0]}, block=1.5), "block must be a positive whole number"),
    "a watcher that is a text": (lambda: carom.sweep("particle", grid={"gravity": [1.0]}, watch="x"), "watch must be a function"),
    "a model that is none": (lambda: carom.sweep(int, grid={"gravity": [1.0]}), "must be a function that returns a carom Model"),
    "an impact with no contact": (lambda: carom.impact_map(FALLING, 1j, [0.0, 0.0], [0.0, -1.0]), "contact 1j does not exist"),
    "an impact without params": (lambda: carom.impact_map(carom.System(heavy, [FLOOR]), 0, [0.0, 0.0], [0.0, -1.0]), "the law of impact fails with"),
    "a step without params": (lambda: carom.diagnostics.step_jacobian(HEAVY, METHOD, [0.0, 1.0], [0.0, 0.0], 0.1), r"lagrangian reads params\['mass'\], which was not given"),
    "an energy without params": (lambda: carom.diagnostics.energy(HEAVY, [0.0, 1.0], [0.0, 0.0]), "the energy of this state"),
    "an energy of another size": (lambda: carom.diagnostics.energy(FALLING, [0.0], [0.0, 1.0]), "q and v must be vectors of the same length"),
    "a velocity that is nothing": (lambda: carom.rigid_velocity(None, None), "rigid_velocity: q must be numbers; got None"),
    "a place that is none": (lambda: carom.separations(SQUARE, None, SQUARE, ([1.0, 0.0], 0.0)), "at_one must be a place"),
    "a diagram of texts": (lambda: diagram(values=""), "values must be a list of finite numbers; got ''"),
    "a diagram of complex numbers": (lambda: diagram(values=1j), "values must be a list of finite numbers"),
    "a diagram that follows nothing": (lambda: diagram(follow=None), "follow must be True or False"),
    "samples in words": (lambda: carom.diagnostics.penetration(solve(), samples="x"), "samples must be a whole number that is not negative"),
    "samples less than none": (lambda: carom.diagnostics.penetration(solve(), samples=-1), "samples must be a whole number that is not negative"),
    "a step of an extended form with no method": (
        lambda: carom.diagnostics.extended_symplectic_defect(FALLING, None, [0.0, 1.0], [0.0, 0.0], 0.1), "method must be"),
    "a mesh that is no name": (lambda: carom.shapes.read_mesh(None), "path must be the name of a file"),
    "a mesh of bytes": (lambda: mesh(b"\xff\xfe"), "0 points and 0 triangles"),
    "a mesh with a wild corner": (lambda: mesh(b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"), "all of them must be finite numbers"),
    "a mesh in the plane": (lambda: mesh(b"v 0 0 0\nv 1 0\nv 0 1 0\nf 1 2 3\n"), "is not an OBJ file"),
}  # fmt: skip


def drawn():
    return solve(shape=lambda q: carom.drawing.disk(q[0], q[1], 0.1))


RESULTS = {
    "True steps": (lambda: solve(num_steps=True), "num_steps must be a positive whole number; got True"),
    "report below a file": (lambda: solve().report(f"{__file__}/run.html"), "nothing can be written to .*choose another folder"),
    "run below a file": (lambda: solve().save(f"{__file__}/run.zarr"), "nothing can be written to .*choose another folder"),
    "picture below a file": (lambda: solve().plot(f"{__file__}/run.png"), "nothing can be written to .*choose another folder"),
    "ensemble below a file": (lambda: many().save(f"{__file__}/run.zarr"), "nothing can be written to .*choose another folder"),
    "report to a number": (lambda: solve().report(3), "path must be the name of a file, such as 'run.html'; got 3"),
    "report to nothing": (lambda: solve().report(""), "path must be the name of a file"),
    "report as another format": (lambda: solve().report("run.pdf"), r"a report is a page, \*.html; got 'run.pdf'"),
    "ensemble: report as a picture": (lambda: many().report("run.png"), r"a report is a page, \*.html"),
    "report to None": (lambda: solve().report(None), "path must be the name of a file"),
    "report to a folder": (lambda: solve().report("."), "is a folder, and a file goes there: say 'run.html'"),
    "a number as title": (lambda: solve().report("a.html", 3), "title must be a text; got 3"),
    "save to a number": (lambda: solve().save(3), "path must be the name of a file, such as 'run.zarr'; got 3"),
    "save as text": (lambda: solve().save("run.txt"), r"a run is saved as \*.zarr or \*.nc"),
    "load a number": (lambda: carom.load(3), "path must be the name of a file"),
    "plot to a number": (lambda: solve().plot(3), "path must be the name of a file, such as 'run.png'; got 3"),
    "plot in an unknown format": (lambda: solve().plot("a.xyz"), r"a picture is saved as .*\*.png.*; got 'a.xyz'"),
    "view in a colour": (lambda: solve().view(colour="red"), "view has no option 'colour': it takes server, show, host, port, plain"),
    "view, misspelt": (lambda: solve().view(sever=True), "did you mean 'server'"),
    "view at a port of text": (lambda: drawn().view(server=True, show=False, port="80"), "a port is a whole number from 0 to 65535; got '80'"),
    "view for a host of numbers": (lambda: drawn().view(server=True, show=False, host=127), "host must be a text"),
    "a shape that is a text": (lambda: solve(shape=lambda q: "disk").report("a.html"), r"a part of a picture must be an array \[k, 2\].*got 'd'"),
    "a shape that fails": (lambda: solve(shape=lambda q: 1 / 0).report("a.html"), "the shape fails with ZeroDivisionError"),
    "a shape that is a number": (lambda: solve(shape=lambda q: 3.0).report("a.html"), "the shape fails with TypeError"),
    "a film without a picture": (lambda: solve().animate("a.gif"), "has no picture: pass shape="),
    "a film to a number": (lambda: drawn().animate(3), "path must be the name of a file, such as 'run.gif'; got 3"),
    "a film in a colour": (lambda: drawn().animate("a.gif", colour="red"), "animate has no option 'colour': it takes path, start"),
    "a film of no pictures": (lambda: drawn().animate("a.gif", fps=0), "fps must be a positive whole number of pictures"),
    "a film of half a picture": (lambda: drawn().animate("a.gif", fps="many"), "fps must be a positive whole number of pictures"),
    "a film as fast as text": (lambda: drawn().animate("a.gif", speed="fast"), "speed must be a finite number; got 'fast'"),
    "a film that stands": (lambda: drawn().animate("a.gif", speed=0.0), "speed must be positive; got 0"),
    "a film from text": (lambda: drawn().animate("a.gif", start="now"), "start must be a finite number; got 'now'"),
    "a film backwards": (lambda: drawn().animate("a.gif", start=0.1, stop=0.0), "a film needs start < stop"),
    "a film that follows a number": (lambda: drawn().animate("a.gif", follow=3), "no body 3 to follow"),
    "extend from disk": (lambda: carom.load(solve().save("a.zarr")).extend(2), r"carom.load\(path, system=…, method=…\).extend"),
    "extend with an unknown option": (lambda: solve().extend(2, colour=1), "extend has no option 'colour'"),
    "dense output at text": (lambda: solve().dense.q("now"), "times must be numbers; got 'now'"),
    "dense output later": (lambda: solve().dense.q(99.0), "dense output reaches from t = 0 to 0.1"),
    "dense output never": (lambda: solve().dense.q(np.nan), "dense output reaches from"),
    "ensemble: report to a number": (lambda: many().report(3), "path must be the name of a file, such as 'ensemble.html'; got 3"),
    "ensemble: save to a number": (lambda: many().save(3), "path must be the name of a file, such as 'ensemble.zarr'; got 3"),
    "ensemble: plot to a folder": (lambda: many().plot("."), "is a folder, and a file goes there"),
    "ensemble: lane 7": (lambda: many().solve(7), "lane must be a whole number from 0 to 1; got 7"),
    "ensemble: half a lane": (lambda: many().status(0.5), "lane must be a whole number from 0 to 1; got 0.5"),
    "ensemble: impacts of nobody": (lambda: many().impacts([]), "the list is empty"),
    "energies of a number": (lambda: carom.report.plot_energy(3), "plot_energy needs at least one solution"),
    "energies of nothing": (lambda: carom.report.plot_energy({}), "plot_energy needs at least one solution"),
    "the motion of a number": (lambda: carom.report.plot_motion(3), "solution must be a run, as carom.solve and carom.load return it; got 3"),
    "a number as name": (lambda: solve(name=3), "name must be a text; got 3"),
    "ensemble: impacts of lane 7": (lambda: many().impacts([0, 7]), "lane must be a whole number from 0 to 1; got 7"),
}  # fmt: skip

TABLE = {
    f"{group}: {name}": row
    for group, rows in (
        ("system", SYSTEMS), ("method", METHODS), ("numbers", NUMBERS), ("params", PARAMS), ("functions", FUNCTIONS), ("gaps", GAPS),
        ("traced", TRACED), ("many", MANY), ("results", RESULTS),
    )
    for name, row in rows.items()
}  # fmt: skip
HOME = str(Path(carom.__file__).parent)


@pytest.mark.parametrize("row", TABLE)
def test_bad_input_is_answered_with_a_sentence(row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call, sentence = TABLE[row]
    with pytest.raises((carom.CaromError, ValueError, TypeError), match=sentence) as caught:
        call()
    raised = traceback.extract_tb(caught.value.__traceback__)[-1].filename
    assert raised.startswith(HOME), f"{type(caught.value).__name__} comes from {raised}"
    assert isinstance(caught.value, carom.InputError) or row.startswith("method: ")
    if not row.startswith("traced: "):  # there it is the caller who asks JAX, which puts a note to errors that come through it
        assert not getattr(caught.value, "__notes__", [])


def test_control_indices_that_exist_or_are_clipped_pass():
    def counts(q, v):
        inside = jax.vmap(lambda i: q[i])(jnp.arange(2)).sum() + jax.lax.fori_loop(0, 2, lambda i, s: s + q[(i + 1) % 2], 0.0)
        return 0.5 * v @ v - inside - jnp.take(q, 5, mode="clip") - jax.vmap(lambda i: q[jnp.clip(i, 0, 1)])(jnp.arange(9)).sum()

    assert lagrangian(counts).status.ok


def test_the_table_is_long_and_a_good_call_passes():
    assert len(TABLE) >= 150
    assert str(solve(num_steps=1).status) == "1 step taken to t = 0.01"
    assert solve().status.ok and solve(HEAVY, params=GOOD).status.ok


def test_control_the_exception_of_somebody_else_is_noticed():
    with pytest.raises(TypeError) as caught:
        jnp.ones(2) @ jnp.ones(3)
    assert not traceback.extract_tb(caught.value.__traceback__)[-1].filename.startswith(HOME)

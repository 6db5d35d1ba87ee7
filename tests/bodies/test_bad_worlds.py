"""Bad inputs to worlds, their shapes, joints, runs and pages, to elastic bodies, stops and steps: a call, and the sentence that
answers it. No row may end in an exception of somebody else; see tests/running/test_bad_inputs.py."""

# ruff: noqa: E501  # a table: one row, one line

import warnings

import numpy as np
import pytest
from answers import answered

import carom
from carom import models, shapes
from carom.bodies.motions import Shaking, Turning

NAN, ORIGIN = float("nan"), (0, 0, 0)
FALLING = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [carom.Contact(lambda q: q[1], name="floor")])


def world(dim=3):
    made = carom.World(gravity=(0, 0, -9.81)[-dim:])
    made.add(shapes.Sphere(0.1) if dim == 3 else shapes.Disc(0.1), mass=1.0, name="ball")
    return made


def run(dt=0.01, num_steps=2, **more):
    return world().solve(dt, num_steps, **more)


def add(**more):
    return world().add(shapes.Sphere(0.1), **{"mass": 1.0, "position": (0, 0, 1), **more})


def pushed(function):
    made = world()
    made.force("ball", function)
    return made.solve(0.01, 2)


def moved(motion, dim=3):
    made = world(dim)
    made.prescribe(shapes.Box(1, 1, 1) if dim == 3 else shapes.Disc(0.1), motion, position=(0, 0, -5)[-dim:])
    return made.solve(0.01, 2)


def hinge(kind="hinge", at=ORIGIN, axis=(0, 0, 1), **more):
    return world().joint(kind, "ball", at=at, axis=axis, **more)


def spring(stiffness=10.0, at=(ORIGIN, (0, 0, 1)), **more):
    return world().spring("ball", None, stiffness, at=at, **more)


def solve(method=None, **more):
    given = {"dt": 0.01, "num_steps": 5, **more}
    return carom.solve(FALLING, method or carom.VariationalCollision(), [0.0, 1.0], [0.0, 0.0], **given)


RUNS = {
    "dt text": (lambda: run("a"), "dt, the length of all steps, must be a finite number; got 'a'"),
    "dt a number as text": (lambda: run("0.01"), "dt, the length of all steps, must be a finite number; got '0.01'"),
    "mass a number as text": (lambda: add(mass="1.0"), "must be a finite number; got '1.0'"),
    "position of texts": (lambda: add(position=("0", "0", "1")), "the position of .* must be 3 finite numbers"),
    "position of complex numbers": (lambda: add(position=np.array([0, 0, 1 + 1j])), "the position of .* must be 3 finite numbers"),
    "gravity of texts": (lambda: carom.World(gravity=("0", "0", "-9.81")), "gravity needs two numbers"),
    "a length as text": (lambda: shapes.Box("0.1", 1, 1), "Box: the length x must be a positive number; got '0.1'"),
    "dt None": (lambda: run(None), "dt.* must be a finite number; got None"),
    "dt a list": (lambda: run([0.1, 0.2]), "one number for all steps"),
    "dt NaN": (lambda: run(NAN), "dt.* must be a finite number"),
    "dt negative": (lambda: run(-0.1), "dt must be positive"),
    "steps text": (lambda: run(num_steps="5"), "num_steps must be a positive whole number; got '5'"),
    "steps a half": (lambda: run(num_steps=2.5), "num_steps must be a positive whole number; got 2.5"),
    "steps None": (lambda: run(num_steps=None), "num_steps must be a positive whole number"),
    "save_every a half": (lambda: run(save_every=1.5), "save_every must be a positive whole number of steps"),
    "save_every text": (lambda: run(save_every="all"), "save_every must be a positive whole number"),
    "tolerance text": (lambda: run(tolerance="x"), "tolerance must be a finite number"),
    "tolerance negative": (lambda: run(tolerance=-1), "tolerance must be positive"),
    "tolerance NaN": (lambda: run(tolerance=NAN), "tolerance must be a finite number"),
    "checkpoint a number": (lambda: run(checkpoint=3), "checkpoint must be the name of a file; got 3"),
    "checkpoint of another kind": (lambda: run(checkpoint="run.npz"), "ends in .zarr"),
    "every zero": (lambda: run(checkpoint="a.zarr", every=0), "every must be a positive whole number"),
    "every without a checkpoint": (lambda: run(every=3), "pass checkpoint= too"),
    "path a number": (lambda: run(path=7), "path must be the name of a file; got 7"),
    "callback text": (lambda: run(callback="x"), "callback must be a function"),
    "callback_every a half": (lambda: run(callback=print, callback_every=1.5), "callback_every must be a positive whole number"),
    "stop that returns nothing": (lambda: run(stop=lambda now: None), "must return one number; it returns None"),
    "stop that is true or false": (lambda: run(stop=lambda now: now.t > 0.5), "returns true or false; it must be a number that passes through zero"),
    "stop that returns text": (lambda: run(stop=lambda now: "up"), "must return one number; it returns 'up'"),
    "stop that is not a number": (lambda: run(stop=lambda now: NAN), "must return one number; it returns nan"),
    "stop that fails": (lambda: run(stop=lambda now: now.height), "the stop 'stop' fails with AttributeError"),
    "stop of a number": (lambda: run(stop=lambda now: now.body(3).position[0]), "no body 3 in this world"),
    "a body by number": (lambda: run().body(3), "no body 3 in this run"),
    "extend by nothing": (lambda: run().extend(0), "num_steps must be a positive whole number"),
    "extend by text": (lambda: run().extend("more"), "num_steps must be a positive whole number"),
    "a film of another kind": (lambda: run().animate("a.xyz"), r"\*.gif or \*.mp4"),
    "to follow nobody": (lambda: run().animate("a.gif", follow="cat"), "no body 'cat' to follow"),
    "a film of a number": (lambda: world().film(3), "a film is made of a run of the world; got 3"),
    "to play with a step of text": (lambda: world().play("a"), "dt.* must be a finite number; got 'a'"),
    "to play backwards": (lambda: world().play(-1.0), "dt must be positive"),
    "a world with a motor as a system": (lambda: (w := world(), w.joint("hinge", "ball", at=ORIGIN, axis=(0, 0, 1), speed=1.0), w.system), "has a motor"),
}  # fmt: skip
BODIES = {
    "gravity text": (lambda: carom.World(gravity="down"), "gravity needs two numbers"),
    "gravity None": (lambda: carom.World(gravity=None), "gravity needs two numbers"),
    "gravity NaN": (lambda: carom.World(gravity=(0, 0, NAN)), "gravity must be 3 finite numbers"),
    "mass text": (lambda: add(mass="heavy"), "mass of 'body 1' must be a finite number"),
    "mass infinite": (lambda: add(mass=np.inf), "mass of 'body 1' must be a finite number"),
    "inertia text": (lambda: add(inertia="round"), "inertia of 'body 1' must be three moments"),
    "inertia NaN": (lambda: add(inertia=(1.0, NAN, 1.0)), "inertia of 'body 1' must be three moments"),
    "inertia text, in the plane": (lambda: world(2).add(shapes.Disc(1), mass=1, inertia="round"), "inertia of 'body 1' must be a positive number"),
    "no shapes": (lambda: world().add([], mass=1.0), "needs a shape"),
    "a name that is a number": (lambda: add(name=3), "name of a body must be a text; got 3"),
    "orientation zero": (lambda: add(orientation=(0, 0, 0, 0)), "orientation of 'body 1'"),
    "sphere text": (lambda: shapes.Sphere("big"), "radius must be a positive number"),
    "box flat": (lambda: shapes.Box(1, 0, 1), "length y must be a positive number"),
    "polygon text": (lambda: shapes.Polygon("square"), "corners must be finite numbers"),
    "polygon in space": (lambda: shapes.Polygon(np.zeros((4, 3))), "corners must be finite numbers"),
    "a shape placed by text": (lambda: shapes.Box(1, 1, 1).at("there"), "position must be 3 finite numbers"),
    "friction text": (lambda: world().material(friction="rough"), "friction must be a finite number"),
    "friction a function": (lambda: world().material(friction=lambda v: 1.0), "friction must be a finite number"),
    "material of nobody": (lambda: world().material(friction=0.1, of="nobody"), "no body 'nobody'"),
    "material between one": (lambda: world().material(friction=0.1, between="ball"), "`between` needs two bodies; got 'ball'"),
    "material between a number": (lambda: world().material(friction=0.1, between=3), "`between` needs two bodies; got 3"),
    "material of shape 7": (lambda: world().material(friction=0.1, of=("ball", 7)), "has shapes 0"),
    "joint of another kind": (lambda: hinge("weld"), "the kind of a joint must be one of"),
    "joint nowhere": (lambda: hinge(at=None), "needs at=, a point"),
    "joint at text": (lambda: hinge(at="top"), "must be 3 finite numbers"),
    "hinge without an axis": (lambda: hinge(axis=None), "needs axis="),
    "hinge about nothing": (lambda: hinge(axis=(0, 0, 0)), "must not be zero"),
    "limits a number": (lambda: hinge(limits=3), r"limits .* must be \(low, high\)"),
    "motor text": (lambda: hinge(speed="fast"), "speed of joint 'hinge 0' must be a finite number"),
    "motor negative": (lambda: hinge(speed=1.0, strength=-1), "strength .* number ≥ 0"),
    "rope with one end": (lambda: hinge("rope"), "two points in space"),
    "rope text": (lambda: hinge("rope", at=(ORIGIN, ORIGIN), length="long"), "length of 'rope 0' must be a finite number"),
    "spring text": (lambda: spring("stiff"), "stiffness of a spring must be a finite number"),
    "spring nowhere": (lambda: spring(at=None), "two points in space"),
    "spring with one end": (lambda: spring(at=ORIGIN), "two points in space"),
    "spring of text": (lambda: spring(length="x"), "length of a spring must be a finite number"),
    "spring of negative length": (lambda: spring(length=-1), "must not be negative"),
    "a force that is a number": (lambda: pushed(3.0), "must be a function of position"),
    "a force that fails": (lambda: pushed(lambda position: position[7]), "the force on 'ball' fails with IndexError"),
    "a force of text": (lambda: pushed(lambda t: "up"), "the force on 'ball'"),
    "a motion that fails": (lambda: moved(lambda t: t.x), "the motion of 'moved 1' fails with AttributeError"),
    "a motion in the plane": (lambda: moved(lambda t: (0, 0)), "must be 3 finite numbers"),
    "turning at the rate of text": (lambda: moved(Turning("fast"), dim=2), "Turning: the spin must be a finite number"),
    "shaking at the rate of text": (lambda: moved(Shaking((0, 0, 1), "fast")), "Shaking: the frequency must be a finite number"),
}  # fmt: skip
ELASTIC = {
    "bars: ends": (lambda: models.bars(ends="welded"), "ends are two"),
    "bars: force": (lambda: models.bars(force=3.0), "force must be a function"),
    "bars: damping text": (lambda: models.bars(damping="x"), r"damping must be \(α, β\)"),
    "bars: damping of one": (lambda: models.bars(damping=-1.0), r"damping must be \(α, β\)"),
    "bars: section": (lambda: models.bars(section="round"), "section must be a positive number or a function"),
    "bars: friction": (lambda: models.bars(friction=-1.0), "friction must be a number that is not negative"),
    "bars: friction text": (lambda: models.bars(friction="x"), "friction must be a number"),
    "beam: ends": (lambda: models.beam(ends="welded"), "ends are two"),
    "beam: damping": (lambda: models.beam(damping="x"), r"damping must be \(α, β\)"),
    "beam: obstacle": (lambda: models.beam(obstacle=3), "obstacle is 'plane'"),
    "beam: friction": (lambda: models.beam(friction="x"), "friction must be a number"),
    "beam: elements": (lambda: models.beam(elements=0), "elements must be a positive whole number"),
    "convex: text": (lambda: carom.Convex("square"), "corners must be points"),
    "convex: a line": (lambda: carom.Convex([[0, 0], [1, 1]]), "must span an area"),
}  # fmt: skip
STEPS = {
    "Adaptive: a text": (lambda: carom.Adaptive("VariationalCollision"), "method must be one of carom's, such as carom.VariationalCollision"),
    "Adaptive: events": (lambda: carom.Adaptive(carom.EventDriven()), "does not choose the steps of EventDriven: its solver"),
    "Adaptive: itself": (lambda: carom.Adaptive(carom.Adaptive(carom.MoreauJean())), "does not choose the steps of Adaptive"),
    "Adaptive: rtol as text": (lambda: carom.Adaptive(carom.MoreauJean(), rtol="x"), "rtol must be a small positive number; got 'x'"),
    "Adaptive: rtol None": (lambda: carom.Adaptive(carom.MoreauJean(), rtol=None), "rtol must be a small positive number; got None"),
    "Adaptive: no rtol": (lambda: carom.Adaptive(carom.MoreauJean(), rtol=0), "rtol = 0 needs an atol of its own"),
    "Adaptive: parts": (lambda: carom.Adaptive(carom.MoreauJean(), max_parts=2.5), "max_parts must be an integer of at least 2"),
    "Adaptive: rtol": (lambda: carom.Adaptive(carom.MoreauJean(), rtol=-1), "rtol must be a small positive number"),
    "Adaptive: hybrid": (lambda: carom.Adaptive(carom.Hybrid()), "does not choose the steps of Hybrid: it hands over where"),
    "stop: a list of text": (lambda: solve(stop=["a"]), "stop must be a function"),
    "stop: a dict": (lambda: solve(stop={"a": 1}), "stop must be a function"),
    "stop: complex": (lambda: solve(stop=lambda q: q[0] * 1j), "complex"),
    "stop: numpy": (lambda: solve(stop=lambda q: np.sin(q[0])), "the stop hands q.*use jax.numpy"),
    "stop: if": (lambda: solve(stop=lambda q: 1.0 if q[0] > 0 else 2.0), "the stop decides with if"),
    "stop: nothing": (lambda: solve(stop=lambda q: None), "the stop returns nothing"),
    "stop: a parameter that is not there": (lambda: solve(stop=lambda params: params["x"]), r"stop reads params\['x'\]"),
    "stop: of a world": (lambda: solve(stop=lambda now: now.t), "asks for 'now'"),
    "Stop: a number": (lambda: carom.Stop(3), "stop must be a function"),
    "Stop: a direction": (lambda: carom.Stop(lambda q: q[0], direction=1), "direction must be one of"),
    "dt: a negative one": (lambda: solve(dt=[0.1, -0.1], num_steps=None), "that of step 1 is -0.1"),
    "dt: a function of nothing": (lambda: solve(dt=lambda t: None), "dt at t = 0 must be a finite number"),
    "dt: a function of x": (lambda: solve(dt=lambda x: 0.1), "dt asks for 'x'"),
    "departure: a number": (lambda: carom.Contact(lambda q: q[0], departure=3.0), "departure must be a function"),
    "departure: beside restitution": (lambda: carom.Contact(lambda q: q[0], 0.5, departure=lambda speed: speed), "pass one of the two"),
}  # fmt: skip
TABLE = {
    f"{group}: {name}": row
    for group, rows in (("runs", RUNS), ("bodies", BODIES), ("elastic", ELASTIC), ("steps", STEPS))
    for name, row in rows.items()
}


@pytest.mark.parametrize("row", TABLE)
def test_bad_input_is_answered_with_a_sentence(row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    answered(*TABLE[row])


def test_the_table_is_long_and_good_calls_pass():
    assert len(TABLE) >= 100
    assert run().status.ok and pushed(lambda t: (0, 0, 1)).status.ok and moved(Turning((0, 0, 1))).status.ok and hinge() and add()


def _turned(orientation):
    world = carom.World(gravity=(0, -9.81))
    plank = world.add(carom.shapes.Polygon([[0, 0], [2, 0], [2, 0.5], [0, 0.5]]), mass=1, orientation=orientation)
    return world.solve(0.01, 2).body(plank).orientation[0]


@pytest.mark.parametrize("orientation", [(0, 1, 0, 0), (0.7, 0.7, 0, 0), np.diag([1.0, -1.0, -1.0]), "north", "1", [0.1, 0.2]])
def test_a_body_in_the_plane_is_not_turned_out_of_it(orientation):
    """A quaternion about another axis was taken for an angle of zero, with the shape on its edge."""
    with pytest.raises(carom.InputError, match="the orientation of 'body 0' must be an angle"):
        _turned(orientation)


def test_control_turns_within_the_plane_may_be_quaternions():
    assert _turned(0.5) == pytest.approx(0.5, abs=1e-15)  # rounding
    assert _turned((np.cos(0.25), 0, 0, np.sin(0.25))) == pytest.approx(0.5, abs=1e-15)


def _pushed(force):
    world = carom.World(gravity=(0, -9.81))
    world.force(world.add(carom.shapes.Disc(0.1), mass=1, position=(0, 0.1)), lambda t: (force if t > 0.015 else 0.0, 0.0))
    return world.solve(0.01, 4)


def test_a_run_that_failed_is_not_returned_in_silence():
    with pytest.warns(UserWarning, match=r"the run of this world ended early: step \d"):
        assert not _pushed(np.nan).status.ok
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _pushed(1.0).status.ok  # the control

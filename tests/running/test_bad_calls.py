"""Calls that do not fit: no run where a run is asked for, options that nobody has, columns that are not there. Each is answered with
one sentence; no row may end in an exception of somebody else. See tests/running/test_bad_inputs.py."""

# ruff: noqa: E501  # a table: one row, one line

import functools
import inspect

import numpy as np
import pytest
from answers import answered

import carom
import carom.report
from carom import diagnostics, models, shapes
from carom.calls import public

METHOD = carom.VariationalCollision(carom.Trapezoidal())
FALLING = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [carom.Contact(lambda q: q[1], name="floor")])
ORIGIN = (0.0, 0.0, 0.0)


@functools.cache
def run():
    return carom.solve(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=60)


@functools.cache
def many():
    return carom.ensemble(FALLING, METHOD, [[0.0, 1.0], [0.0, 2.0]], [0.0, 0.0], dt=0.01, num_steps=5, progress=False)


def world():
    made = carom.World(gravity=(0, 0, -9.81))
    made.fix(shapes.HalfSpace(), name="floor")
    made.add(shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.1), name="ball")
    return made


@functools.cache
def tumbled():
    return world().solve(0.01, 3)


# Every diagnostic that is told of a run or of a system, and what else it must be told.
REST = {
    "momentum_map": (lambda q: q,), "nonholonomic_momentum": (lambda q: q,), "field_balance": (lambda q: q,), "poincare": (lambda q: q[0],),
    "multisymplectic_form": ([0.0], [0.0]), "energy": ([0.0, 1.0], [0.0, 0.0]), "step_jacobian": (METHOD, [0.0, 1.0], [0.0, 0.0], 0.1),
    "symplectic_defect": (METHOD, [0.0, 1.0], [0.0, 0.0], 0.1), "extended_symplectic_defect": (METHOD, [0.0, 1.0], [0.0, 0.0], 0.1),
}  # fmt: skip
STEPS = {"dt": 0.01, "num_steps": 2}
NAMED = {
    "reversibility_error": STEPS,
    "periodic_orbit": STEPS,
    "lyapunov": STEPS,
    "bifurcation": {**STEPS, "vary": "g", "values": [1.0]},
}
FUNCTIONS = {
    name: function for name, function in vars(diagnostics).items() if inspect.isfunction(function) and name != "measured_order"
}


def _first(function):
    return next(iter(inspect.signature(function).parameters))


def told(name, value):
    function = FUNCTIONS[name]
    if name in NAMED:
        return function(value, METHOD, [0.0, 1.0], [0.0, 0.0], **NAMED[name])
    return function(value, *REST.get(name, ()))


WRONG = {"None": (None, "got NoneType"), "a list": ([1, 2], "got list"), "a number": (3, "got 3"), "a text": ("run", "got 'run'")}
DIAGNOSTICS = {
    f"{name} of {what}": (functools.partial(told, name, value), f"{_first(function)} must be .*{got}")
    for name, function in FUNCTIONS.items()
    for what, (value, got) in WRONG.items()
}
KINDS = {
    "a system instead of a run": (lambda: diagnostics.penetration(FALLING), r"must be a run, as carom.solve and carom.load return it; got System; run it first"),
    "a model instead of a run": (lambda: diagnostics.gaps(models.star()), r"run it first: model.solve\(\)"),
    "two runs": (lambda: diagnostics.gaps([run(), run()]), "got list; hand over one run at a time"),
    "an ensemble instead of a run": (lambda: diagnostics.penetration(many()), r"ensemble.solve\(lane\)"),
    "a run of a world": (lambda: diagnostics.discrete_energy(tumbled()), r"carom.solve\(world.system"),
    "a run instead of a system": (lambda: diagnostics.energy(run(), [0.0, 1.0], [0.0, 0.0]), "solution.system is its system"),
    "a world instead of a system": (lambda: carom.solve(world(), METHOD, [0.0], [0.0], **STEPS), "got World; a world is run by world.solve"),
    "a class instead of a method": (lambda: diagnostics.step_jacobian(FALLING, carom.VariationalCollision, [0.0, 1.0], [0.0, 0.0], 0.1), "method is the class"),
    "a text instead of a method": (lambda: diagnostics.symplectic_defect(FALLING, "verlet", [0.0, 1.0], [0.0, 0.0], 0.1), "got 'verlet'"),
    "a text instead of a rule": (lambda: carom.Composition("verlet"), "base must be a carom rule"),
    "orders of text": (lambda: diagnostics.measured_order("a", "b"), "as many errors as steps"),
    "orders of nothing": (lambda: diagnostics.measured_order(None, None), "as many errors as steps"),
    "orders of two lengths": (lambda: diagnostics.measured_order([0.1, 0.2], [1.0]), "as many errors as steps"),
    "orders of zero": (lambda: diagnostics.measured_order([0.1, 0.2], [1.0, 0.0]), "as many errors as steps"),
    "an order from one": (lambda: diagnostics.measured_order([0.1], [1.0]), "at least two"),
    "the picture of None": (lambda: carom.report.plot_solution(None), "solution must be a run.*got NoneType"),
    "bars of a system": (lambda: carom.report.plot_bars(FALLING), "solution must be a run.*got System; run it first"),
}  # fmt: skip
TOLD = {
    "a section beyond q": (lambda: diagnostics.poincare(run(), lambda q: q[5]), "the section fails with IndexError: index 5 is out of bounds"),
    "a section of two": (lambda: diagnostics.poincare(run(), lambda q: q), r"the section must return one number; it returns shape \(2,\)"),
    "a section of text": (lambda: diagnostics.poincare(run(), lambda q: "x"), "the section fails with ValueError"),
    "a generator beyond q": (lambda: diagnostics.momentum_map(run(), lambda q: [q[5], 0.0]), "the generator fails with IndexError"),
    "a generator of three": (lambda: diagnostics.momentum_map(run(), lambda q: np.ones(3)), "the generator must return 2 numbers, one for each velocity"),
    "a field beyond q": (lambda: diagnostics.nonholonomic_momentum(run(), lambda q: q[5] * q), r"the field reads q\[5\], of 2"),
    "a field of three": (lambda: diagnostics.nonholonomic_momentum(run(), lambda q: np.ones(3)), "the field must return 2 numbers"),
    "an orbit that does not close": (
        lambda: diagnostics.periodic_orbit(carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1]), METHOD, [0.0, 1.0], [0.0, 0.0], **STEPS),
        r"no periodic orbit near: .* misses its start by 0.196"),
}  # fmt: skip
OPTIONS = {
    "solve": (lambda: carom.solve(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], **STEPS, colour=3), "solve has no option 'colour': it takes system, method, q0, v0, dt"),
    "solve, near": (lambda: carom.solve(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], dt=0.01, n_steps=2), "no option 'n_steps'.*did you mean 'num_steps'"),
    "solve without dt": (lambda: carom.solve(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], num_steps=2), "solve needs dt: it takes"),
    "solve of nothing": (lambda: carom.solve(), "solve needs system and method and q0 and dt"),
    "solve by position": (lambda: carom.solve(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], 0.01, 5), r"takes 4 by position \(system, method, q0, v0\); got 6; write the others by name: dt, num_steps"),
    "solve, twice": (lambda: carom.solve(FALLING, METHOD, [0.0, 1.0], q0=[0.0, 1.0], v0=[0.0, 0.0], **STEPS), "is given q0 twice"),
    "rollout": (lambda: carom.rollout(FALLING, METHOD, [0.0, 1.0], [0.0, 0.0], **STEPS, parms={}), "rollout has no option 'parms'.*did you mean 'params'"),
    "ensemble": (lambda: carom.ensemble(FALLING, METHOD, [[0.0, 1.0]], [0.0, 0.0], **STEPS, colour=1), "ensemble has no option 'colour'"),
    "sweep": (lambda: carom.sweep("star", {"dt": [0.1]}, colour=1), "sweep has no option 'colour'"),
    "expectation": (lambda: carom.expectation(colour=1), "expectation has no option 'colour'"),
    "load": (lambda: carom.load("run.zarr", sytem=FALLING), "load has no option 'sytem'.*did you mean 'system'"),
    "model.solve": (lambda: models.star().solve(colour=1), "solve has no option 'colour'"),
    "a model": (lambda: models.star(gravty=1.0), "star has no option 'gravty'.*did you mean 'gravity'"),
    "a scene": (lambda: models.dominoes(colour=1), "dominoes has no option 'colour'"),
    "a gas": (lambda: models.discs(count=5), "discs has no option 'count'"),
    "a gas, solved": (lambda: models.discs(4).solve(dt=0.1, steps=3), "solve has no option 'steps'.*did you mean 'num_steps'"),
    "world.solve": (lambda: world().solve(0.01, 2, colour=1), "solve has no option 'colour': it takes dt, num_steps, tolerance"),
    "world.solve without steps": (lambda: world().solve(0.01), "solve needs num_steps"),
    "world.add": (lambda: world().add(shapes.Sphere(0.1), mas=1.0), "add has no option 'mas'.*did you mean 'mass'"),
    "world.fix": (lambda: world().fix(shapes.Sphere(0.1), mass=1.0), "fix has no option 'mass'"),
    "world.material": (lambda: world().material(fricton=1.0), "material has no option 'fricton'.*did you mean 'friction'"),
    "world.joint": (lambda: world().joint("hinge", "ball", at=ORIGIN, axes=(0, 0, 1)), "joint has no option 'axes'.*did you mean 'axis'"),
    "world.spring": (lambda: world().spring("ball", None, 1.0, (ORIGIN, ORIGIN), k=1.0), "spring has no option 'k'"),
    "world.force": (lambda: world().force("ball"), "force needs function"),
    "world.film": (lambda: world().film(), "film needs run"),
    "world.view": (lambda: world().view(colour=1), "view has no option 'colour'"),
    "world.play": (lambda: world().play(0.01, colour=1), "play has no option 'colour'"),
    "World": (lambda: carom.World(gravty=(0, 0)), "World has no option 'gravty'.*did you mean 'gravity'"),
    "a shape": (lambda: shapes.Sphere(r=1.0), "Sphere has no option 'r': it takes radius"),
    "a shape, too much": (lambda: shapes.Box(1, 1, 1, 1), r"Box takes 3 by position \(x, y, z\); got 4"),
    "a motion": (lambda: carom.motions.Turning(speed=1.0), "Turning has no option 'speed'"),
    "report": (lambda: run().report("a.html", colour=1), "report has no option 'colour': it takes path, title"),
    "plot": (lambda: run().plot(colour=1), "plot has no option 'colour'"),
    "save": (lambda: run().save("a.zarr", mode="w"), "save has no option 'mode'"),
    "animate": (lambda: run().animate("a.gif", colour=1), "animate has no option 'colour'"),
    "extend": (lambda: run().extend(2, colour=1), "extend has no option 'colour'"),
    "summary": (lambda: run().summary(3), r"summary takes 0 by position \(none\); got 1"),
    "ensemble.plot": (lambda: many().plot(colour=1), "plot has no option 'colour'"),
    "ensemble.report": (lambda: many().report("a.html", colour=1), "report has no option 'colour'"),
    "ensemble.solve": (lambda: many().solve(), "solve needs lane"),
    "world run: report": (lambda: tumbled().report("a.html", colour=1), "report has no option 'colour'"),
    "world run: extend": (lambda: tumbled().extend(1, steps=2), "extend has no option 'steps'.*did you mean 'num_steps'"),
    "world run: animate": (lambda: tumbled().animate("a.gif", colour=1), "animate has no option 'colour'"),
    "plot_energy": (lambda: carom.report.plot_energy({"a": run()}, colour=1), "plot_energy has no option 'colour'"),
    "save_film": (lambda: carom.report.save_film(colour=1), "save_film has no option 'colour'"),
    "a diagnostic": (lambda: diagnostics.penetration(run(), sample=3), "penetration has no option 'sample'.*did you mean 'samples'"),
    "a diagnostic of nothing": (lambda: diagnostics.poincare(), "poincare needs solution and section"),
    "impact_map": (lambda: carom.impact_map(FALLING, colour=1), "impact_map has no option 'colour'"),
    "System": (lambda: carom.System(lambda q, v: v @ v, contact=[]), "System has no option 'contact'.*did you mean 'contacts'"),
    "LumpedSystem": (lambda: carom.LumpedSystem(colour=1), "LumpedSystem has no option 'colour'"),
    "Contact": (lambda: carom.Contact(lambda q: q[1], restituton=0.5), "Contact has no option 'restituton'.*did you mean 'restitution'"),
    "Contact of nothing": (lambda: carom.Contact(), "Contact needs gap"),
    "Joint": (lambda: carom.Joint(lambda q: q[0], lenght=1), "Joint has no option 'lenght'"),
    "Controller": (lambda: carom.Controller(colour=1), "Controller has no option 'colour'"),
    "Stop": (lambda: carom.Stop(lambda q: q[0], direktion="up"), "Stop has no option 'direktion'.*did you mean 'direction'"),
    "Euclidean": (lambda: carom.Euclidean(2, nams=("x", "y")), "Euclidean has no option 'nams'.*did you mean 'names'"),
    "MoreauJean": (lambda: carom.MoreauJean(teta=1.0), "MoreauJean has no option 'teta'.*did you mean 'theta'"),
    "TimeDG": (lambda: carom.TimeDG(order=1), "TimeDG has no option 'order'"),
    "VariationalCollision": (lambda: carom.VariationalCollision(order=4), "VariationalCollision has no option 'order'"),
    "EventDriven": (lambda: carom.EventDriven(tol=1), "EventDriven has no option 'tol'"),
    "Adaptive": (lambda: carom.Adaptive(), "Adaptive needs method"),
    "Hybrid": (lambda: carom.Hybrid(colour=1), "Hybrid has no option 'colour'"),
    "Gamma": (lambda: carom.Gamma(gama=0.5), "Gamma has no option 'gama'.*did you mean 'gamma'"),
}  # fmt: skip
TABLES = {
    "a column": (lambda: run().impacts["x"], "the impacts have no column 'x'; there are t, step, q"),
    "a column, near": (lambda: run().impacts["impuls"], "did you mean 'impulse'"),
    "a row": (lambda: run().impacts[99], "there is no row 99 in the impacts: they are numbered 0 to"),
    "a row of none": (lambda: run().impacts[:0][0], "no row 0 in the impacts: none happened"),
    "half a row": (lambda: run().impacts[0.5], "rows are chosen by a slice, a mask or a list of numbers, and columns by name; got 0.5"),
    "a mask that is too long": (lambda: run().impacts[np.ones(99, bool)], "rows are chosen by a slice, a mask"),
    "a contact": (lambda: run().impacts.on("flor"), "no contact 'flor' in this run; there are 'floor'; did you mean 'floor'"),
    "contact 7": (lambda: run().impacts.on(7), "no contact 7 in this run"),
    "a contact of None": (lambda: run().impacts.on(None), "no contact None in this run"),
    "a column of a world": (lambda: tumbled().contacts["force"], "the contacts have no column 'force'; there are step, t, a, b"),
    "a row of a world": (lambda: tumbled().contacts[99], "there is no row 99 in the contacts"),
    "a body's contacts": (lambda: tumbled().contacts.of("bal"), "no body 'bal' in this run.*did you mean 'ball'"),
    "contacts of body 9": (lambda: tumbled().contacts.of(9), "no body 9 in this run"),
    "contacts of nothing": (lambda: tumbled().contacts.of(None), "no body None in this run"),
    "a body": (lambda: tumbled().body("bal"), "no body 'bal' in this run.*did you mean 'ball'"),
    "an impact of a lane": (lambda: many().impacts([0])["x"], "no column 'x'.*lane"),
}  # fmt: skip
TABLE = {
    f"{group}: {name}": row
    for group, rows in (("diagnostic", DIAGNOSTICS), ("kind", KINDS), ("told", TOLD), ("option", OPTIONS), ("table", TABLES))
    for name, row in rows.items()
}


@pytest.mark.parametrize("row", TABLE)
def test_a_call_that_does_not_fit_is_answered_with_a_sentence(row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    answered(*TABLE[row])


def test_what_is_not_there_can_be_caught_as_python_has_it():
    for kind in (KeyError, IndexError, ValueError, TypeError):
        with pytest.raises(kind):
            run().impacts["x"]
        with pytest.raises(kind):
            run().impacts[99]


def test_columns_and_rows_that_are_there():
    hits, contacts = run().impacts, tumbled().contacts
    assert len(hits) and hits["t"] is hits.t and hits[-1].t == hits.t[-1] and len(hits.on("floor")) == len(hits) == len(list(hits))
    assert hits[hits.t > 1e9].t.shape == (0,) and hits[[0]].impulse[0] == hits.impulse[0]
    assert len(contacts) and contacts["impulse"] is contacts.impulse and contacts[0].t[0] == contacts.t[0]
    assert len(list(contacts)) == len(contacts) == len(contacts[:]) == len(contacts.of("ball"))


def test_every_public_function_answers():
    """Nothing in carom's table of contents, and no diagnostic, was forgotten."""
    exempt = {
        "rigid_velocity", "sliding_velocity", "separations",  # called in every step, inside what users write
        "CaromError", "InputError", "SolveError", "SweepError", "Solution", "Ensemble", "WorldRun", "Impacts", "Status",  # made by carom
        "DiscreteLagrangian", "Rule", "Left", "Right", "Midpoint", "Trapezoidal", "Variational",
    }  # fmt: skip
    known = {name: getattr(carom, name) for name in carom.__all__ if name not in exempt}
    known |= FUNCTIONS | {"measured_order": diagnostics.measured_order} | models.ALL | models.SCENES
    for name, called in known.items():
        if callable(called):
            first = ("star", {"dt": [0.1]}) if name == "sweep" else ()  # it hands options on to solve
            with pytest.raises(carom.InputError, match="has no option 'colour'"):
                called(*first, colour=3)
                pytest.fail(name)


def test_signatures_and_names_are_kept():
    assert list(inspect.signature(carom.solve).parameters)[:4] == ["system", "method", "q0", "v0"]
    assert carom.solve.__name__ == "solve" and carom.solve.__doc__.startswith("Simulate")
    assert "restitution" in inspect.signature(carom.Contact).parameters and "mass" in inspect.signature(carom.World.add).parameters


def test_control_an_error_inside_a_good_call_is_its_own():
    @public
    def fails(x):
        return x + "1"

    with pytest.raises(TypeError) as caught:
        fails(1)
    assert not isinstance(caught.value, carom.InputError)

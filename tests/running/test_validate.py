"""Bad input gets a clear error before anything is compiled: what, where, and what to try."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom


def falling(q, v, params):
    return 0.5 * params["mass"] * (v @ v) - params["mass"] * 9.81 * q[1]


FLOOR = carom.Contact(lambda q: q[1], name="floor")
SYSTEM = carom.System(falling, [FLOOR])


def run(system=SYSTEM, q0=(0.0, 1.0), v0=(0.0, 0.0), dt=0.01, num_steps=10, params=None, **more):
    params = {"mass": 1.0} if params is None else params
    return carom.solve(system, TRAPEZOIDAL, q0, v0, dt=dt, num_steps=num_steps, params=params, **more)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q0": [0.0, -0.25]}, r"inside an obstacle: contact 0 \('floor'\) is 0.25 deep.*q0 = \[0., *0.\]"),
        ({"q0": [0.0, 1.0, 2.0]}, "q0 has 3 entries and v0 has 2"),
        ({"q0": 1.0}, r"q0 must be a vector; got shape \(\) \(wrap a single number"),
        ({"q0": ["a", 1]}, "q0 must be a list of numbers"),
        ({"v0": [np.nan, 0.0]}, r"v0\[0\] is nan"),
        ({"dt": 0.0}, "dt must be a positive number; got 0.0"),
        ({"dt": "fast"}, "dt must be a positive number; got 'fast'"),
        ({"num_steps": 0}, "num_steps must be a positive whole number"),
        ({"stride": 0}, "stride must be a positive whole number"),
        ({"params": {"mas": 1.0}}, r"lagrangian reads params\['mass'\], which was not given; given: mas; did you mean 'mas'\?"),
        ({"params": {"mass": 1.0, "gravity": 9.81}}, "params has 'gravity', which no function of the system reads"),
        ({"params": {"mass": np.inf}}, r"params\['mass'\] is inf"),
        ({"params": {"mass": "heavy"}}, r"params\['mass'\] must be a number or an array; got 'heavy'"),
        ({"params": {"mass": 0.0}}, "gaps that change along directions without kinetic energy"),
        ({"t0": np.nan}, "t0 must be a finite number"),
    ],
)
def test_bad_problems(changes, message):
    with pytest.raises(carom.InputError, match=message):
        run(**changes)


def test_a_coordinate_without_mass_is_named():
    system = carom.System(lambda q, v: 0.5 * v[0] ** 2 - q[0] * q[1])
    with pytest.raises(carom.InputError, match=r"no kinetic energy along v = \[0. 1.\]"):
        run(system, params={})


def test_shapes_of_functions():
    with pytest.raises(carom.InputError, match="lagrangian must return one number"):
        run(carom.System(lambda q, v: v**2), params={})
    with pytest.raises(carom.InputError, match="force must have 2 entries"):
        run(carom.System(falling, force=lambda q: jnp.zeros(3)))
    with pytest.raises(carom.InputError, match=r"q0 has 2 entries; the system's space has 3 \(x, y, theta\)"):
        run(carom.System(falling, space=carom.Euclidean(3, ("x", "y", "theta"))))


def test_names_of_arguments():
    with pytest.raises(TypeError, match="lagrangian asks for 'velocity'; it can ask for q, v, t, params"):
        carom.System(lambda q, velocity: 0.0)
    with pytest.raises(TypeError, match="gap asks for 'v'"):
        carom.Contact(lambda q, v: q[0])
    with pytest.raises(TypeError, match=r"contacts\[0\].*wrap the gap function in carom.Contact"):
        carom.System(falling, [lambda q: q[1]])


def test_coefficients():
    with pytest.raises(ValueError, match=r"contact 'floor': restitution must be in \[0, 1\]; got 1.5"):
        carom.Contact(lambda q: q[1], 1.5, name="floor")
    with pytest.raises(ValueError, match="friction but no slip"):
        carom.Contact(lambda q: q[1], friction=0.3)
    late = carom.System(falling, [carom.Contact(lambda q: q[1], lambda params: params["e"])])
    with pytest.raises(carom.InputError, match=r"restitution must lie in \[0, 1\]; it is 2"):
        run(late, params={"mass": 1.0, "e": 2.0})


def test_methods_and_rules():
    with pytest.raises(ValueError, match="simultaneous must be one of reflections, impulse; got 'both'"):
        carom.VariationalCollision(simultaneous="both")
    with pytest.raises(ValueError, match="order must be one of 4, 6, 8; got 5"):
        carom.Composition(carom.Trapezoidal(), 5)
    with pytest.raises(ValueError, match="Left has order 1 and is not symmetric"):
        carom.Composition(carom.Left(), 4)
    with pytest.raises(ValueError, match="gamma must be a number between 0 and 1"):
        carom.Gamma(1.2)
    with pytest.raises(TypeError, match="rule must be a carom rule"):
        carom.VariationalCollision("verlet")


def test_a_failed_run_keeps_what_it_had():
    bouncy = carom.System(falling, [carom.Contact(lambda q: q[1], 0.5, name="floor")])
    with pytest.raises(
        carom.SolveError, match=r"step 135 .*on contact 'floor'; .* coming to rest .*: the impacts accumulate at t = 1.354"
    ) as caught:
        run(bouncy, num_steps=1000)
    solution = caught.value.solution
    assert solution.num_steps == 135 and len(solution.t) == 136 and len(solution.impacts) > 10
    assert np.all(np.isfinite(solution.q))
    exact = np.sqrt(2 / 9.81) * 1.5 / 0.5  # √(2h/g)(1 + e)/(1 − e)
    assert solution.status.t < exact < solution.status.t + 0.01


def test_an_infinite_motion_is_reported():
    runaway = carom.System(lambda q, v: 0.5 * (v @ v) + q[0] ** 4 / 4)
    with pytest.raises(carom.SolveError, match="infinite or not a number"):
        run(runaway, q0=[1.0, 0.0], v0=[1.0, 0.0], dt=0.1, num_steps=200, params={})

"""What `solve` refuses, `rollout` refuses, too: functions whatever is traced, numbers where they are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import carom

METHOD = carom.VariationalCollision(carom.Trapezoidal())
STEPPING = carom.MoreauJean()


def falling(q, v):
    return 0.5 * v @ v - 9.81 * q[1]


def height(system, start, method=METHOD, **more):
    return carom.rollout(system, method, start, jnp.zeros(2), dt=0.01, num_steps=5, **more).q[-1, 1]


def floor(gap, **more):
    return carom.System(falling, [carom.Contact(gap, name="floor", **more)])


FUNCTIONS = {
    "an index": (carom.System(lambda q, v: 0.5 * v @ v - q[9]), r"the lagrangian reads q\[9\], of 2"),
    "an index of a force": (carom.System(falling, force=lambda v: v[jnp.array([0, 2])]), r"the force reads v\[2\], of 2"),
    "one force for two": (carom.System(falling, force=lambda v: -v[0]), "the force must have 2 entries"),
    "a gap that is true": (floor(lambda q: q[1] > 0), "returns true or false"),
    "a gap without slope": (floor(lambda q: jnp.floor(q[1])), "no slope along q"),
    "float32": (carom.System(lambda q, v: falling(q, v).astype(jnp.float32)), "returns float32"),
}
TRACED = {
    "called": lambda f: f(jnp.array([0.0, 1.0])),
    "jit": lambda f: jax.jit(f)(jnp.array([0.0, 1.0])),
    "grad": lambda f: jax.grad(f)(jnp.array([0.0, 1.0])),
    "vmap": lambda f: jax.vmap(f)(jnp.array([[0.0, 1.0], [0.0, 2.0]])),
}


@pytest.mark.parametrize("how", TRACED)
@pytest.mark.parametrize("what", FUNCTIONS)
def test_functions_are_checked_whatever_is_traced(what, how):
    system, sentence = FUNCTIONS[what]
    with pytest.raises(carom.InputError, match=sentence):
        TRACED[how](lambda q: height(system, q))


NUMBERS = {
    "in an obstacle": (floor(lambda q: q[1] - 2.0), METHOD, "inside an obstacle: contact 0 .'floor'. is 1 deep"),
    "against a joint": (
        carom.System(falling, joints=[carom.Joint(lambda q: q @ q - 4.0, name="rod")]), STEPPING, "joint 'rod' does not hold"),
    "a gap that is never negative": (floor(lambda q: jnp.abs(q[1])), METHOD, "does not become negative"),
    "a negative mass": (carom.System(lambda q, v: -0.5 * v @ v - q[1]), METHOD, "kinetic energy is negative"),
    "not a number": (carom.System(lambda q, v: 0.5 * v @ v - jnp.log(q[0] - 1)), METHOD, "the lagrangian is nan"),
    "a slip along the normal": (floor(lambda q: q[1], friction=0.3, slip=lambda v: v[1]), STEPPING, "moves as its gap does"),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_that_are_known_are_checked(what):
    system, method, sentence = NUMBERS[what]
    with pytest.raises(carom.InputError, match=sentence):
        height(system, [0.0, 1.0], method)


@pytest.mark.parametrize("start", [[0.0, np.nan], [np.inf, 1.0]])
def test_starts_that_are_no_numbers_are_refused(start):
    with pytest.raises(carom.InputError, match=r"q0 is .*finite"):
        height(floor(lambda q: q[1]), start)


@pytest.mark.parametrize("how", TRACED)
def test_control_what_is_well_runs(how):
    found = TRACED[how](lambda q: height(floor(lambda q: q[1]), q))
    assert np.isfinite(np.asarray(found)).all()


def test_a_network_is_handed_over_by_its_arrays():
    """Its functions are leaves, too, and no parameters."""
    network = eqx.nn.MLP(2, "scalar", 4, 1, key=jax.random.key(0))
    whole = carom.System(lambda q, v, params: falling(q, v) - params["network"](q))
    call = {"q0": [0.0, 1.0], "v0": [0.0, 0.0], "dt": 0.01, "num_steps": 5}
    for verb in (carom.solve, carom.rollout):
        with pytest.raises(carom.InputError, match=r"params\['network'\].activation must be a number .*eqx.partition"):
            verb(whole, METHOD, **call, params={"network": network})
    arrays, rest = eqx.partition(network, eqx.is_array)
    parts = carom.System(lambda q, v, params: falling(q, v) - eqx.combine(params["network"], rest)(q))
    pure = carom.rollout(parts, METHOD, **call, params={"network": arrays})
    run = carom.solve(parts, METHOD, **call, params={"network": arrays})
    assert np.allclose(pure.q, run.q, rtol=0, atol=1e-14)  # the same steps, to rounding
    assert abs(float(run.energy_error[-1])) < 1e-6  # of order dt²: the network is part of the potential
    with pytest.raises(carom.InputError, match="is None"):  # the control: None where a number was meant
        carom.solve(parts, METHOD, **call, params={"network": None})


def test_whole_numbers_stay_whole():
    table = jnp.array([1.0, 9.81])
    chosen = carom.System(lambda q, v, params: 0.5 * v @ v - table[params["planet"]] * q[1])
    assert height(chosen, [0.0, 1.0], params={"planet": 1}) == height(carom.System(falling), [0.0, 1.0])


def test_a_parameter_that_ends_the_run_or_draws_it_is_read():
    system = carom.System(falling)
    call = {"q0": [0.0, 1.0], "v0": [0.0, 0.0], "dt": 0.01, "num_steps": 50}
    ends = {"stop": lambda q, params: q[1] - params["level"], "params": {"level": 0.5}}
    assert abs(carom.solve(system, METHOD, **call, **ends).q[-1, 1] - 0.5) < 1e-14  # located to rounding
    assert abs(carom.rollout(system, METHOD, **call, **ends).end.q[1] - 0.5) < 1e-14
    drawn = {"shape": lambda q, params: [carom.drawing.disk(*q, params["radius"])], "params": {"radius": 0.1}}
    assert carom.solve(system, METHOD, **call, **drawn).status.ok
    for verb in (carom.solve, carom.rollout):  # the control: one that nobody reads
        with pytest.raises(
            carom.InputError, match=r"params has 'levle', which no function of the system reads \(they read: level\)"
        ):
            verb(system, METHOD, **call, stop=lambda q, params: q[1] - params.get("level", 0.5), params={"levle": 0.5})

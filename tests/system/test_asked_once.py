"""What the text of a Lagrangian decides is read once, and again for parameters of another kind."""

import jax
import jax.numpy as jnp
import numpy as np

import carom
from carom.named import frozen

READ = []


def _noted(q, v, params):
    """The mass depends on q where k has entries, and on nothing where it is a number."""
    READ.append(None)
    k = jnp.asarray(params["k"])
    return 0.5 * v[0] ** 2 * (1.0 + k[0] * q[0] ** 2 if k.ndim else k) - q[0]


def test_a_second_time_nothing_is_read_for_it():
    system = frozen(carom.System(_noted))
    counts, masses = [], []
    for k in (2.0, 3.0, np.ones(1), np.ones(1)):
        READ.clear()
        bound = jax.eval_shape(lambda k: masses.append(system.bind({"k": k}, 1)), k)
        assert bound is None
        counts.append(len(READ))
    assert counts[1] < counts[0]
    assert counts[3] < counts[2]
    assert counts[2] > counts[1]  # another kind of parameters is another question
    assert [m.constant_mass for m in masses] == [True, True, False, False]
    assert all(m.autonomous and m.quadratic for m in masses)


def test_another_lagrangian_is_asked_for_itself():
    for power, constant in ((0, True), (2, False)):  # the same text, with another number captured
        system = frozen(carom.System(lambda q, v, power=power: 0.5 * v[0] ** 2 * (1.0 + q[0] ** power if power else 1.0)))
        assert system.bind({}, 1).constant_mass == constant

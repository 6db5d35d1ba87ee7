"""A compiled program belongs to the values that its functions captured: change one and it counts, write it again and nothing is
compiled again."""

import functools
import gc
import importlib
import itertools
import os
import pickle
import random
import sys
import time
import timeit
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.closures import freeze
from carom.named import frozen
from carom.running import checks
from carom.running import chunked_run as running

gravity = 9.81
numbers = [9.81, 0.0]
FLOOR = carom.Contact(lambda q: q[1], name="floor")


def fall(system, **more):
    """How far a body falls in 0.2: 0.02 g, exactly for the trapezoidal rule."""
    run = carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=20, **more)
    return 1 - run.q[-1, 1], run


def test_a_global_that_is_changed_counts():
    global gravity
    system = carom.System(lambda q, v: 0.5 * v @ v - gravity * q[1], [FLOOR])
    try:
        gravity = 9.81
        depth, earth = fall(system)
        gravity = 1.62
        shallow, moon = fall(system)
        _, again = fall(carom.System(lambda q, v: 0.5 * v @ v - gravity * q[1], [FLOOR]))
    finally:
        gravity = 9.81
    assert depth == pytest.approx(0.02 * 9.81, rel=1e-12) and shallow == pytest.approx(0.02 * 1.62, rel=1e-12)
    assert np.array_equal(moon.q, again.q)
    for run, g in ((earth, 9.81), (moon, 1.62)):  # asked for now, when gravity is something else for one of them
        assert run.energy[0] == pytest.approx(g) and np.ptp(run.energy) < 1e-12
    assert earth.system != moon.system


def test_control_without_freezing_the_old_value_is_found(monkeypatch):
    global gravity
    monkeypatch.setattr(checks, "frozen", lambda system: system)
    system = carom.System(lambda q, v: 0.5 * v @ v - (0.0 + gravity) * q[1], [FLOOR])
    try:
        gravity = 9.81
        fall(system)
        gravity = 1.62
        stale, _ = fall(system)
    finally:
        gravity = 9.81
    assert stale == pytest.approx(0.02 * 9.81, rel=1e-12)


def test_a_system_made_again_in_a_loop_is_compiled_once():
    def build(g):
        return carom.System(lambda q, v: 0.5 * v @ v - g * q[1], [carom.Contact(lambda q: q[1] + 0.0, name="ground")])

    fall(build(3.0))
    traces = running._chunk._traces
    for _ in range(5):
        depth, _ = fall(build(3.0))
    assert running._chunk._traces == traces and depth == pytest.approx(0.06)
    fall(build(4.0))
    assert running._chunk._traces == traces + 1  # the control: another value is another program


def test_rollout_and_ensemble_see_the_change():
    ball = types.SimpleNamespace(gravity=9.81)
    system = carom.System(lambda q, v: 0.5 * v @ v - ball.gravity * q[1], [FLOOR])
    start = {"dt": 0.01, "num_steps": 20}
    depths = []
    for ball.gravity in (9.81, 1.62):
        pure = carom.rollout(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], **start)
        many = carom.ensemble(system, TRAPEZOIDAL, [[0.0, 1.0]] * 3, [0.0, 0.0], **start, progress=False)
        depths.append([1 - float(pure.q[-1, 1]), *(1 - many.q_end[:, 1])])
    assert np.allclose(depths, 0.02 * np.array([[9.81] * 4, [1.62] * 4]), rtol=1e-12)


def test_a_traced_value_that_is_captured_is_refused_since_its_gradient_would_be_lost():
    def depth(g, captured):
        if captured:
            system, params = carom.System(lambda q, v: 0.5 * v @ v - g * q[1], [FLOOR]), None
        else:
            system, params = carom.System(lambda q, v, params: 0.5 * v @ v - params["g"] * q[1], [FLOOR]), {"g": g}
        start = {"dt": 0.01, "num_steps": 20, "params": params}
        return 1 - carom.rollout(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], **start).q[-1, 1]

    with pytest.raises(carom.InputError, match=r"lagrangian captures a value that JAX is tracing.*through params"):
        jax.grad(depth)(2.0, True)
    assert float(jax.grad(depth)(2.0, False)) == pytest.approx(0.02)


def test_a_class_that_was_changed_after_the_run_is_refused():
    class Planet:
        gravity = 9.81

    system = carom.System(lambda q, v: 0.5 * v @ v - Planet.gravity * q[1], [FLOOR])
    depth, earth = fall(system)
    Planet.gravity = 1.62
    with pytest.raises(carom.InputError, match="lagrangian of this run refers to something that has been changed since"):
        _ = earth.energy
    shallow, moon = fall(system)
    assert [depth, shallow] == pytest.approx([0.02 * 9.81, 0.02 * 1.62]) and moon.energy[0] == pytest.approx(1.62)
    Planet.gravity = 9.81
    assert earth.energy[0] == pytest.approx(9.81)


# -- what is seen --------------------------------------------------------------------------------------------------------


def helper(q):
    return gravity * q


class Ball:
    def __init__(self, g):
        self.g = g

    def lagrangian(self, q):
        return self.weight(q)

    def weight(self, q):
        return self.g * q

    def __call__(self, q):
        return self.g * q


class Slotted:
    __slots__ = ("g",)

    def __init__(self, g):
        self.g = g


class Weighted(eqx.Module):
    g: jax.Array

    def __call__(self, q):
        return self.g * q


def with_default(g):
    def function(q, g=g):
        return g * q

    return function


def with_list(g):
    rows = [1.0, [g]]
    return lambda q: rows[1][0] * q


def recursive(g):
    def power(q, n):
        return g if n == 0 else q * power(q, n - 1)

    return lambda q: power(q, 1)


def of_module(g):
    module = types.ModuleType("my_numbers")
    module.constant, module.other = g, object()
    return lambda q: module.constant * q


def slotted(g):
    ball = Slotted(g)
    return lambda q: ball.g * q


def through_jit(g):
    inner = jax.jit(lambda q: g * q)
    return lambda q: inner(q)


def through_vmap(g):
    inner = jax.vmap(lambda q: g * q)
    return lambda q: inner(jnp.atleast_1d(q))[0]


KINDS = {
    "closure": lambda g: lambda q: g * q,
    "default": with_default,
    "numpy array": lambda g: (lambda a: lambda q: a[1] * q)(np.array([0.0, g])),
    "large array": lambda g: (lambda a: lambda q: a[999] * q)(np.full(1000, g)),
    "jax array": lambda g: (lambda a: lambda q: a[1] * q)(jnp.array([0.0, g])),
    "list": with_list,
    "dict": lambda g: (lambda d: lambda q: d["g"] * q)({"g": g}),
    "object": lambda g: (lambda b: lambda q: b.g * q)(Ball(g)),
    "method": lambda g: Ball(g).lagrangian,
    "callable": lambda g: Ball(g),
    "slots": slotted,
    "partial": lambda g: functools.partial(lambda a, q: a * q, g),
    "module": of_module,
    "equinox": lambda g: Weighted(jnp.asarray(g)),
    "equinox jit": lambda g: (lambda f: lambda q: f(q))(eqx.filter_jit(lambda q: g * q)),
    "jit": through_jit,
    "vmap": through_vmap,
    "recursion": recursive,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_values_are_the_same_and_others_are_not(kind):
    first, again, other = (freeze(KINDS[kind](g)) for g in (2.0, 2.0, 3.0))
    assert first is again and first is not other
    assert float(first(q=1.0)) == 2.0 and float(other(q=1.0)) == 3.0
    assert first.unchanged()


def test_what_is_changed_in_place_counts_and_the_copy_keeps_the_old_value():
    ball, array, table = Ball(2.0), np.array([2.0]), {"g": [2.0]}
    functions = [lambda q: ball.g * q, lambda q: array[0] * q, lambda q: table["g"][0] * q, ball.lagrangian]
    before = [freeze(f) for f in functions]
    ball.g, array[0], table["g"][0] = 3.0, 3.0, 3.0
    after = [freeze(f) for f in functions]
    assert [f(q=1.0) for f in before] == [2.0] * 4 and [f(q=1.0) for f in after] == [3.0] * 4


def test_globals_are_seen_through_functions_that_are_called():
    global gravity
    try:
        gravity = 2.0
        before = freeze(lambda q: helper(q))
        gravity = 3.0
        after = freeze(lambda q: helper(q))
    finally:
        gravity = 9.81
    assert before(q=1.0) == 2.0 and after(q=1.0) == 3.0 and freeze(lambda q: helper(q))(q=1.0) == 9.81


def test_types_and_signs_are_told_apart():
    keys = [freeze(KINDS["closure"](g)).key for g in (1, 1.0, True, -0.0, 0.0, np.float64(1), np.float32(1), "1")]
    assert len(set(keys)) == len(keys)
    assert freeze(lambda q: 0.0 * q) is not freeze(lambda q: -0.0 * q)


def test_functions_that_write_or_collect_go_on_doing_so():
    seen, count = [], 0

    def collects(q):
        seen.append(1)
        return q

    def counts(q):
        nonlocal count
        count += 1
        return q

    for _ in range(2):
        freeze(collects)(1.0)
        freeze(counts)(1.0)
    assert seen == [1, 1] and count == 2
    assert freeze(collects) is freeze(collects)  # the list is the same list, whatever is in it


def test_what_hides_its_state_is_compared_by_identity():
    first, second = np.random.default_rng(0), np.random.default_rng(0)
    make = lambda random: lambda q: q * random.bit_generator is None  # noqa: E731
    assert freeze(make(first)) is freeze(make(first)) and freeze(make(first)) is not freeze(make(second))


def test_frozen_functions_are_forgotten_and_can_be_pickled():
    from carom.closures import frozen_function

    function = freeze((lambda g: lambda q: g * q)(np.arange(7.0)))
    key = function.key
    assert key in frozen_function._FROZEN
    del function
    gc.collect()
    assert key not in frozen_function._FROZEN
    assert pickle.loads(pickle.dumps(freeze(helper))) is freeze(helper)


def test_freezing_is_quick():
    model = carom.models.ALL["star"]()
    for system in (model.system, carom.System(lambda q, v: 0.5 * v @ v - gravity * q[1], [FLOOR])):
        frozen(system)
        least = min(timeit.repeat(functools.partial(frozen, system), number=1, repeat=40))
        assert least < 2e-3  # 0.15 ms alone on a machine; the least of forty, since others may be using this one


def test_installed_packages_are_constant_and_modules_of_ones_own_are_not(tmp_path, monkeypatch):
    (tmp_path / "my_constants.py").write_text("g = 2.0\nunused = object()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_constants  # pyright: ignore[reportMissingImports]

    function = lambda q: my_constants.g * jnp.sin(q)  # noqa: E731
    before = freeze(function)
    my_constants.unused = object()
    assert freeze(function) is before
    my_constants.g = 3.0
    assert freeze(function) is not before and float(before(q=1.0)) == pytest.approx(2 * np.sin(1.0))
    sys.modules.pop("my_constants")


def test_modules_that_a_function_imports_when_it_runs_count(tmp_path, monkeypatch):
    """Also by a name that is written as a text."""
    (tmp_path / "my_planet.py").write_text("g = 2.0\nh = 2.0\nunused = 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def whole(q):
        import my_planet  # pyright: ignore[reportMissingImports]

        return my_planet.g * q

    def part(q):
        from my_planet import g  # pyright: ignore[reportMissingImports]

        return g * q

    planet = importlib.import_module("my_planet")

    def by_name(q):
        return getattr(planet, "g") * q  # noqa: B009

    for function in (whole, part, by_name):
        sys.modules["my_planet"].g = 2.0
        before = freeze(function)
        sys.modules["my_planet"].unused += 1
        assert freeze(function) is before and before.unchanged()
        sys.modules["my_planet"].g = 3.0
        assert freeze(function) is not before and freeze(function)(q=1.0) == 3.0
        assert before.unchanged() is (function is by_name)  # the module was copied there; in the others it is the module itself
    sys.modules.pop("my_planet")


def reads_a_file(q, v):
    with open(__file__) as file:
        return 0.5 * v @ v - len(file.read()) * q[1]


class Documented:
    """One method opens files, and no other calls it."""

    def lagrangian(self, q, v):
        return 0.5 * v @ v - q[1]

    def save(self, path):
        with open(path, "w") as file:
            file.write("9.81")


@pytest.mark.parametrize(
    ("lagrangian", "how"),
    [
        (lambda q, v: 0.5 * v @ v - globals()["gravity"] * q[1], "calls globals"),
        (lambda q, v: 0.5 * v @ v - eval("gravity") * q[1], "calls eval"),
        (lambda q, v: 0.5 * v @ v - float(os.environ.get("GRAVITY", 1)) * q[1], r"reads os\.environ"),
        (lambda q, v: 0.5 * v @ v - np.loadtxt(["9.81"]) * q[1], r"reads np\.loadtxt"),
        (reads_a_file, "calls open"),
    ],
)
def test_ways_to_values_that_cannot_be_seen_are_refused(lagrangian, how):
    with pytest.raises(carom.InputError, match=f"the lagrangian {how}: what it finds there cannot be seen"):
        fall(carom.System(lagrangian, [FLOOR]))


def test_control_a_method_that_is_not_called_may_open_files():
    assert not freeze(Documented().lagrangian).unseen and freeze(Documented().save).unseen == "calls open"


RANDOM, COUNT = np.random.default_rng(0), itertools.count()


@pytest.mark.parametrize(
    "force",
    [
        lambda q: np.random.normal() * q,
        lambda q: RANDOM.normal(size=2) * q,
        lambda q: random.random() * q,
        lambda q: time.perf_counter() * q,
        lambda q: jax.jit(lambda q: q * RANDOM.normal())(q),
        lambda q: next(COUNT) * q,
    ],
)
def test_a_force_that_is_another_one_each_time_is_refused(force):
    """It would be one constant for the whole run."""
    with pytest.raises(carom.InputError, match="the force is another one each time it is asked"):
        fall(carom.System(lambda q, v: 0.5 * v @ v, force=force))


def test_control_a_table_of_noise_and_a_seed_are_the_same_each_time():
    noise = np.random.default_rng(0).normal(size=50)
    table = carom.System(lambda q, v: 0.5 * v @ v, force=lambda t: jnp.interp(t, np.arange(50) * 0.01, noise) * jnp.ones(2))
    seeded = carom.System(lambda q, v: 0.5 * v @ v, force=lambda q: np.random.default_rng(3).normal(size=2) + 0 * q)
    assert fall(table)[1].status.ok and fall(seeded)[1].status.ok

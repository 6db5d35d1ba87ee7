"""Values that a function reaches for in other ways than by a plain name: containers of Python's library, files, settings, other
people's objects, code made by exec. What can be read is copied; what cannot is told apart by tracing; nothing is stale."""

import argparse
import array
import builtins
import collections
import configparser
import contextvars
import dataclasses
import functools
import importlib
import os
import sys
import types
import weakref

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.closures import freeze
from carom.closures.settled import settle, written_down

BEGIN = {"dt": 0.01, "num_steps": 20}
ONE = {"q": 1.0}


class Odd(dict):
    """A dict of one's own, with manners of its own."""

    def __getitem__(self, key):
        return 1.0 * super().__getitem__(key)


class Numbers(list):
    pass


def exec_made():
    scope: dict = {}
    exec("g = 2.0\ndef function(q):\n    return g * q\n", scope)
    return scope["function"], functools.partial(scope.__setitem__, "g")


def in_dict(kind):
    table = kind({"g": 2.0})
    return (lambda q: table["g"] * q), functools.partial(table.__setitem__, "g")


def in_list(kind):
    row = kind([2.0])
    return (lambda q: row[0] * q), functools.partial(row.__setitem__, 0)


class Settings(types.SimpleNamespace):
    @property
    def doubled(self):
        return 2 * self.g


def in_namespace(kind):
    args = kind(g=2.0)
    return (lambda q: args.g * q), functools.partial(setattr, args, "g")


def through_proxy():
    table = {"g": 2.0}
    proxy = types.MappingProxyType(table)
    return (lambda q: proxy["g"] * q), functools.partial(table.__setitem__, "g")


def in_objects():
    row = np.array([2.0, None], dtype=object)
    return (lambda q: row[0] * q), functools.partial(row.__setitem__, 0)


def in_polynomial():
    line = np.poly1d([2.0, 0.0])
    return (lambda q: line.coeffs[0] * q), functools.partial(line.coeffs.__setitem__, 0)


def wrapped():
    row = [2.0]

    @functools.wraps(jnp.sin)
    def function(q):
        return row[0] * q

    return (lambda q: function(q)), functools.partial(row.__setitem__, 0)


READ = {
    "exec": exec_made, "OrderedDict": lambda: in_dict(collections.OrderedDict), "UserDict": lambda: in_dict(collections.UserDict),
    "defaultdict": lambda: in_dict(lambda d: collections.defaultdict(float, d)), "Odd": lambda: in_dict(Odd),
    "ChainMap": lambda: in_dict(collections.ChainMap), "deque": lambda: in_list(collections.deque),
    "array": lambda: in_list(lambda x: array.array("d", x)), "Numbers": lambda: in_list(Numbers),
    "Namespace": lambda: in_namespace(argparse.Namespace), "SimpleNamespace": lambda: in_namespace(types.SimpleNamespace),
    "Settings": lambda: in_namespace(Settings), "mappingproxy": through_proxy, "objects": in_objects,
    "poly1d": in_polynomial, "wraps": wrapped,
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_containers_are_read_and_copied(kind):
    function, assign = READ[kind]()
    before = freeze(function)
    assign(3.0)
    after = freeze(function)
    assert after is not before and float(before(q=1.0)) == 2.0 and float(after(q=1.0)) == 3.0
    assign(2.0)
    assert freeze(function) is before  # the control: the same values are the same function


def with_builtin():
    return (lambda q: GRAVITY_OF_ALL * q), functools.partial(setattr, builtins, "GRAVITY_OF_ALL")  # noqa: F821  # pyright: ignore


def test_a_name_among_pythons_own_counts():
    function, assign = with_builtin()
    try:
        assign(2.0)
        before = freeze(function)
        assign(3.0)
        assert freeze(function) is not before and freeze(function)(q=1.0) == 3.0 and before(q=1.0) == 2.0
    finally:
        del builtins.GRAVITY_OF_ALL  # pyright: ignore


# -- what cannot be read -------------------------------------------------------------------------------------------------


def by_file(folder):
    path = folder / "g.txt"
    return (lambda q: float(path.read_text()) * q), lambda g: path.write_text(str(g))


def by_parser(_):
    parser = configparser.ConfigParser()
    parser["a"] = {}
    return (lambda q: float(parser["a"]["g"]) * q), lambda g: parser["a"].__setitem__("g", str(g))


def by_environment(_):
    getenv = os.getenv
    look = {"it": getenv}
    return (lambda q: float(look["it"]("CAROM_TEST_G")) * q), lambda g: os.environ.__setitem__("CAROM_TEST_G", str(g))


def by_context(_):
    variable = contextvars.ContextVar("g")
    return (lambda q: variable.get() * q), variable.set


def by_import(_):
    module = sys.modules["my_unseen"] = types.ModuleType("my_unseen")
    return (lambda q: importlib.import_module("my_unseen").g * q), functools.partial(setattr, module, "g")


def by_computed_name(_):
    module, parts = types.ModuleType("my_parts"), ["gravi", "ty"]
    return (lambda q: getattr(module, "".join(parts)) * q), functools.partial(setattr, module, "gravity")


def by_weak_reference(_):
    ball = Body()
    kept = [ball]
    reference = weakref.ref(ball)
    return (lambda q: reference().g * q), lambda g: setattr(kept[0], "g", g)


def by_series(_):
    pandas = pytest.importorskip("pandas")
    series = pandas.Series({"g": 2.0})
    return (lambda q: series["g"] * q), functools.partial(series.__setitem__, "g")


def by_exponent(folder):
    path = folder / "n.txt"
    return (lambda q: (1.0 * q) ** int(float(path.read_text()))), lambda g: path.write_text(str(g))


UNSEEN = [by_file, by_parser, by_environment, by_context, by_import, by_computed_name, by_weak_reference, by_series, by_exponent]


@pytest.mark.parametrize("make", UNSEEN)
def test_what_cannot_be_read_is_told_apart_by_what_it_computes(make, tmp_path):
    function, assign = make(tmp_path)
    assign(2.0)
    before = settle(freeze(function), ONE)
    assert not written_down(before) and settle(freeze(function), ONE) is before and before.unchanged()
    assign(3.0)
    after = settle(freeze(function), ONE)
    assert after is not before and after.unchanged() and float(after(q=2.0)) == (8.0 if make is by_exponent else 6.0)
    if make is not by_computed_name:  # there the module was copied
        with pytest.raises(carom.InputError, match="refers to something that has been changed since"):
            before(q=1.0)  # no program is made of numbers that are not those of the run
    assign(2.0)
    assert settle(freeze(function), ONE) is before


def test_control_functions_that_are_read_in_full_are_not_traced():
    g = 2.0
    plain = freeze(lambda q: g * jnp.sin(q))
    assert written_down(plain) and settle(plain, ONE) is plain and plain.sight is None


def test_runs_rollouts_and_stops_see_a_file_that_was_written_again(tmp_path):
    height, weight = tmp_path / "height", tmp_path / "weight"
    system = carom.System(lambda q, v: 0.5 * v @ v - float(weight.read_text()) * q[1])
    height.write_text("0.999")
    found = []
    for g in (9.81, 1.62, 9.81):
        weight.write_text(str(g))
        run = carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], **BEGIN)
        pure = carom.rollout(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], **BEGIN)
        found.append([1 - run.q[-1, 1], 1 - float(pure.q[-1, 1])])
    assert np.allclose(found, 0.02 * np.array([[9.81] * 2, [1.62] * 2, [9.81] * 2]), rtol=1e-12)  # rounding
    for h in ("0.999", "0.99"):
        height.write_text(h)
        end = carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], stop=lambda q: q[1] - float(height.read_text()), **BEGIN)
        assert end.q[-1, 1] == pytest.approx(float(h), abs=1e-12)
    weight.write_text("1.62")
    for late in (lambda: run.energy, lambda: dataclasses.replace(run, name="again").energy, lambda: run.extend(5000)):
        with pytest.raises(carom.InputError, match="changed since"):
            late()


class Body:
    def weight(self, q):
        return GRAVITY * q[1]

    def lagrangian(self, q, v):
        return 0.5 * v @ v - self.weight(q)

    def plot(self):
        return UNRELATED


GRAVITY, UNRELATED = 9.81, 0


def test_globals_that_methods_read_count_and_those_of_methods_that_nobody_calls_do_not():
    global GRAVITY, UNRELATED
    system = carom.System(Body().lagrangian)
    try:
        earth = carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], **BEGIN)
        UNRELATED = 1
        assert earth.energy[0] == pytest.approx(9.81)
        again = carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], **BEGIN)
        assert again.compile_seconds == 0
        GRAVITY = 1.62
        moon = carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], **BEGIN)
        assert 1 - moon.q[-1, 1] == pytest.approx(0.02 * 1.62)
        with pytest.raises(carom.InputError, match="lagrangian of this run refers to something that has been changed since"):
            _ = again.energy  # it was 1.62, silently, beside a fall with 9.81
    finally:
        GRAVITY = 9.81


def test_runs_keep_the_numbers_that_they_were_given():
    """Arrays of one's own may be used for the next run: results do not change with them."""
    system = carom.System(lambda q, v, params: 0.5 * v @ v - params["g"][0] * q[1])
    params, q0 = {"g": np.array([9.81])}, np.array([0.0, 1.0])
    run = carom.solve(system, TRAPEZOIDAL, q0, [0.0, 0.0], params=params, **BEGIN)
    many = carom.ensemble(system, TRAPEZOIDAL, q0, [0.0, 0.0], each={"g": params["g"][None]}, progress=False, **BEGIN)
    params["g"][0], q0[1] = 1.62, 7.0
    assert run.energy[0] == pytest.approx(9.81) and run.q[0, 1] == 1.0
    assert many.q0[0, 1] == 1.0 and many.each["g"][0, 0] == 9.81


def test_a_discrete_lagrangian_of_ones_own_sees_what_was_changed():
    weight = [9.81]

    def discrete(q0, q1, h):
        v = (q1 - q0) / h
        return h * (0.5 * v @ v - weight[0] * (q0[1] + q1[1]) / 2)

    method = carom.VariationalCollision(carom.Rule.from_discrete_lagrangian(discrete, order=2, symmetric=True))
    system = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1])
    found = []
    for weight[0] in (9.81, 1.62):
        found.append(1 - carom.solve(system, method, [0.0, 1.0], [0.0, 0.0], **BEGIN).q[-1, 1])
    assert found == pytest.approx([0.02 * 9.81, 0.02 * 1.62], rel=1e-9)  # (q1 − q0)/h loses digits

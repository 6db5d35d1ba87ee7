"""Values held by odd things: arrays with more than numbers, names that Python makes up, very many or very deep containers, keys
that are found by what they are, objects that clear up, modules asked for computed names. Each is a row: a function of q, and how
its value of g is changed. The new value counts, and the old function computes the old one or refuses."""

import collections
import functools
import operator
import sys
import types
import weakref

import jax
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.closures import freeze
from carom.closures.settled import settle
from carom.named import frozen, unseen_in

ONE = {"q": 1.0}


class Marked(np.ndarray):
    """An array with a unit."""


class Private:
    __slots__ = ("__g",)

    def put(self, g):
        self.__g = g

    def get(self):
        return self.__g


class Plain:
    pass


class Guard:
    """Closes what it holds when it goes: a copy of it would do so, too."""

    def __init__(self):
        self.open = [True]

    def __del__(self):
        self.open[0] = False


def masked():
    row = np.ma.array([2.0, 3.0], mask=[False, True])
    return (lambda q: float(row.sum()) * q), lambda g: setattr(row, "mask", [g == 3.0, g == 2.0])


def marked():
    row = np.ones(1).view(Marked)
    return (lambda q: row.unit * q), functools.partial(setattr, row, "unit")


def one_row():
    row = np.zeros(1, dtype=[("g", float)])[0]
    return (lambda q: float(row["g"]) * q), functools.partial(row.__setitem__, "g")


def digits_of_one_row():
    """That are not printed."""
    row = np.zeros(1, dtype=[("g", float)])[0]
    return (lambda q: (2.0 if row["g"] == 2.0 else 3.0) * q), lambda g: row.__setitem__("g", 2.0 if g == 2.0 else 2.0 + 1e-13)


def private_slot():
    thing = Private()
    return (lambda q: thing.get() * q), thing.put


def behind_many():
    many, table = [float(i) for i in range(30_000)], {}
    return (lambda q: (many[0] + table["g"]) * q), functools.partial(table.__setitem__, "g")


def inside_many():
    many = {i: [float(i)] for i in range(30_000)}
    last = many[29_999]
    return (lambda q: many[29_999][0] * q), functools.partial(last.__setitem__, 0)


def deep():
    top = row = [0.0]
    for _ in range(5000):
        row[0] = [0.0]
        row = row[0]

    def bottom():
        found = top
        while isinstance(found, list):
            found = found[0]
        return found

    return (lambda q: bottom() * q), functools.partial(row.__setitem__, 0)


def ordered():
    table = collections.OrderedDict(two=2.0, three=3.0)
    return (lambda q: next(iter(table.values())) * q), lambda g: table.move_to_end("three" if g == 2.0 else "two")


def object_as_key():
    thing, table = Plain(), {}
    return (lambda q: table[thing] * q), functools.partial(table.__setitem__, thing)


def object_that_is_a_key():
    thing = Plain()
    table = {thing: 1.0}
    return (lambda q: next(iter(table)).g * q), functools.partial(setattr, thing, "g")


def weak_key():
    thing, table = Plain(), weakref.WeakKeyDictionary()
    return (lambda q: table[thing] * q), functools.partial(table.__setitem__, thing)


def function_as_key():
    def one():
        return 1.0

    table = {}
    return (lambda q: table[one] * one() * q), functools.partial(table.__setitem__, one)


def partial_with_attributes():
    one = functools.partial(lambda: 1.0)
    return (lambda q: one.g * q), functools.partial(setattr, one, "g")


def partial_of_ones_own():
    values = [0.0]

    class Partial(functools.partial):
        def __call__(self):
            return values[0]

    one = Partial(lambda: 1.0)
    return (lambda q: one() * q), functools.partial(values.__setitem__, 0)


def partial_of_jax():
    table = {}
    one = jax.tree_util.Partial(lambda table: table["g"], table)
    return (lambda q: one() * q), functools.partial(table.__setitem__, "g")


def module_by_getter():
    module, get = types.ModuleType("my_constants"), operator.attrgetter("g")
    return (lambda q: get(module) * q), functools.partial(setattr, module, "g")


def module_by_all_its_names():
    module = types.ModuleType("my_numbers")
    return (lambda q: sum(x for name, x in vars(module).items() if name.startswith("g")) * q), lambda g: setattr(module, "g", g)


def module_that_answers():
    values, module = {}, types.ModuleType("my_answers")

    def answer(name):
        if name == "g":
            return values["g"]
        raise AttributeError(name)

    module.__getattr__ = answer  # pyright: ignore
    return (lambda q: module.g * q), functools.partial(values.__setitem__, "g")


def data_with_underscores():
    class Body:
        __g__ = 0.0

    return (lambda q: Body.__g__ * q), functools.partial(setattr, Body, "__g__")


def matched():
    class Body:
        two, three = 2.0, 3.0

    body = Body()

    def function(q):
        match body:
            case Body(g):
                return g * q

    return function, lambda g: setattr(Body, "__match_args__", ("two" if g == 2.0 else "three",))


def answers_everything():
    values = [0.0]

    class Any:
        def __getattr__(self, name):
            return self

        def __mul__(self, other):
            return values[0] * other

    thing = Any()
    return (lambda q: thing.a.b * q), functools.partial(values.__setitem__, 0)


def with_a_guard():
    thing = Guard()
    return (lambda q: thing.g * q if thing.open[0] else 1 / 0), functools.partial(setattr, thing, "g")


ROWS = [masked, marked, one_row, digits_of_one_row, private_slot, behind_many, inside_many, deep, ordered, object_as_key,
        object_that_is_a_key, weak_key, function_as_key, partial_with_attributes, partial_of_ones_own, partial_of_jax,
        module_by_getter, module_by_all_its_names, module_that_answers, data_with_underscores, matched, answers_everything,
        with_a_guard]  # fmt: skip


@pytest.mark.parametrize("make", ROWS)
def test_a_new_value_counts_and_the_old_function_keeps_to_its_own(make):
    function, assign = make()
    assign(2.0)
    first = freeze(function)  # a system holds this one, too
    before = settle(first, ONE)
    assert settle(freeze(function), ONE) is before and before(q=1.0) == 2.0
    assign(3.0)
    after = settle(freeze(function), ONE)
    assert after is not before and after(q=1.0) == 3.0
    try:
        assert before(q=1.0) == 2.0
    except carom.InputError as error:
        assert "refers to something that has been changed since" in str(error)
    assign(2.0)
    assert settle(freeze(function), ONE)(q=1.0) == 2.0


def test_a_module_of_ones_own_may_have_a_name_of_pythons(tmp_path, monkeypatch):
    (tmp_path / "sched.py").write_text("g = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sched", raising=False)
    from carom.closures import insides

    insides.installed.cache_clear()
    try:
        import sched

        before = freeze(lambda q: sched.g * q)  # pyright: ignore
        sched.g = 3.0  # pyright: ignore
        assert freeze(lambda q: sched.g * q)(q=1.0) == 3.0 and before(q=1.0) == 2.0  # pyright: ignore
    finally:
        insides.installed.cache_clear()
        sys.modules.pop("sched", None)


def test_what_is_said_of_a_function_is_no_place_for_its_numbers():
    def table():
        """9.81"""

    system = carom.System(lambda q, v: 0.5 * v @ v - float(table.__doc__) * q[1])  # pyright: ignore
    assert unseen_in(frozen(system)) is not None
    with pytest.raises(carom.InputError, match="the lagrangian reads __doc__: what it finds there cannot be seen"):
        carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.0, 0.0], dt=0.01, num_steps=2)


def test_compiled_helpers_of_other_packages_are_called_as_they_are():
    numba = pytest.importorskip("numba")
    twice = numba.njit(lambda x: 2.0 * x)
    weight = [1.0]
    for weight[0] in (1.0, 2.0):
        run = carom.solve(
            carom.System(lambda q, v: 0.5 * v @ v - twice(weight[0]) * q[1]),
            TRAPEZOIDAL,
            [0.0, 1.0],
            [0.0, 0.0],
            dt=0.01,
            num_steps=20,
        )
        assert 1 - run.q[-1, 1] == pytest.approx(0.02 * 2 * weight[0], rel=1e-12)  # exact for the rule, but for rounding

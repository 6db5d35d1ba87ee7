"""Every argument of every model, with values that are none: a model, or a sentence that names the argument."""

import inspect
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

import carom
from carom.errors import InputError
from carom.wanted import Wanted, wanted

FACTORIES = [
    factory
    for name in sorted(carom.models.__all__)
    if inspect.isfunction(factory := getattr(carom.models, name)) and "solution" not in inspect.signature(factory).parameters
]
NEVER = {  # what is neither a number nor a list of them, a function, a text that is known, or a part of a model
    "a text": "abc",
    "not a number": math.nan,
    "infinity": math.inf,
    "complex": 1j,
    "ragged": [[1.0], [1.0, 2.0]],
    "an object": object(),
    "a table": {},
    "an empty list": [],
    "texts": ["1.0", "2.0"],
}
PERHAPS = {"None": None, "negative": -1, "zero": 0, "a fraction": 1.5, "a lone number for many": 5000, "three": [1, 2, 3]}


def _arguments(factory):
    entries = inspect.signature(factory).parameters.values()
    return [entry.name for entry in entries if entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)]


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.__name__)
def test_no_argument_takes_what_is_none(factory):
    for argument in _arguments(factory):
        for what, value in NEVER.items():
            with pytest.raises(InputError) as found:
                factory(**{argument: value})
            assert argument in str(found.value), (argument, what, str(found.value))
            assert factory.__name__ in str(found.value)


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.__name__)
def test_a_number_out_of_range_is_a_model_or_a_sentence(factory):
    made = 0
    for argument in _arguments(factory):
        for value in PERHAPS.values():
            if value == 5000 and not hasattr(inspect.signature(factory).parameters[argument].default, "__len__"):
                continue  # five thousand dice are dice
            try:
                made += factory(**{argument: value}) is not None
            except InputError as error:
                assert factory.__name__ in str(error)
    assert made > 0  # control: not everything is refused


def test_what_is_a_number_is_taken_as_one():
    given = [2, np.float32(2), np.array(2.0), Fraction(2), jax.numpy.asarray(2.0)]
    assert [carom.models.particle(mass=mass).params["mass"] for mass in given] == [2.0] * len(given)
    assert len(carom.models.dice(count=np.int32(2)).world.bodies) == len(carom.models.dice(count=2.0).world.bodies) == 3
    assert jax.grad(lambda mass: carom.models.particle(mass=mass).params["mass"] ** 2)(3.0) == 6.0  # traced: it has no value yet


def test_what_is_wanted_reads_as_a_sentence():
    def words(factory, argument):
        found = wanted(inspect.signature(factory).parameters[argument].annotation)
        assert found and isinstance(found[0], Wanted)
        return found[0].words

    models = carom.models
    assert words(models.dice, "count") == "a positive whole number"
    assert words(models.dice, "size") == "a positive number"
    assert words(models.dice, "restitution") == "a number between 0 and 1"
    assert words(models.dominoes, "flat") == "True or False"
    assert words(models.beam, "poisson") == "a number between -1 and 0.5, without the two"
    assert words(models.bars, "gaps") == "a list of numbers that are not negative"
    assert words(models.bars, "section") == "a positive number or a function, or a list of positive numbers or functions"
    assert words(models.rolling_disk, "rim") == "'physical' or 'printed'"
    assert words(models.beam_pair, "places") == "a list of rows of 3 finite numbers"
    assert "a positive number" in str(inspect.signature(models.dice))  # `help` shows it

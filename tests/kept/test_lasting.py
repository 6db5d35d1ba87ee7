"""A key that holds in another process: another one for everything that changes what is computed, the same one for the same text,
and none where nobody can be sure."""

import os
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from carom.closures import freeze
from carom.closures.lasting import Unsure, lasting
from carom.closures.reading import Reader

HEAD = """
import functools, math, collections, dataclasses, typing
import jax, jax.numpy as jnp, numpy as np
import equinox as eqx
import types
"""


def key(text: str, **given) -> bytes:
    """Of the function f that a text defines."""
    scope = {"__name__": "somebody", **given}
    exec(HEAD + text, scope)
    return lasting(freeze(scope["f"]))


# Name, a text, and what is replaced in it: everything that a trace can see of a function.
CHANGES = {
    "a number in the code": ("f = lambda q: 2.0 * q", "2.0", "3.0"),
    "its type": ("f = lambda q: q ** 2", "2", "2.0"),
    "an operation": ("f = lambda q: 2.0 * q", "*", "+"),
    "an argument's name": ("f = lambda q: jnp.sin(q)", "q", "v"),
    "a function that is called": ("f = lambda q: jnp.sin(q)", "sin", "cos"),
    "a module": ("lib = jnp\ndef f(q): return lib.sin(q)", "lib = jnp", "lib = np"),
    "a global": ("k = 2.0\ndef f(q): return k * q", "k = 2.0", "k = 3.0"),
    "the sign of a zero": ("k = 0.0\ndef f(q): return q / k", "k = 0.0", "k = -0.0"),
    "True for 1": ("k = 1\ndef f(q): return k * q", "k = 1", "k = True"),
    "an entry of a list": ("k = [1.0, 2.0]\ndef f(q): return k[1] * q", "2.0", "3.0"),
    "an entry of a dict": ("k = {'a': {'b': 2.0}}\ndef f(q): return k['a']['b'] * q", "2.0", "3.0"),
    "an entry of an array": ("k = np.arange(99.0)\nk[70] = 1.5\ndef f(q): return k[70] * q", "1.5", "1.6"),
    "the type of an array": ("k = np.ones(3, np.float32)\ndef f(q): return k * q", "float32", "float64"),
    "the shape of an array": ("k = np.ones((3, 1))\ndef f(q): return k * q", "(3, 1)", "(1, 3)"),
    "an array of JAX": ("k = jnp.array([1.0, 2.0])\ndef f(q): return k * q", "2.0", "3.0"),
    "a weak type": ("k = jnp.asarray(1.0)\ndef f(q): return k * q", "asarray(1.0)", "asarray(1.0, float)"),
    "a default": ("def f(q, k=2.0): return k * q", "2.0", "3.0"),
    "a default by name": ("def f(q, *, k=2.0): return k * q", "2.0", "3.0"),
    "a closure": ("def make(k):\n  return lambda q: k * q\nf = make(2.0)", "2.0", "3.0"),
    "a global of a function that is called": ("k = 2.0\ndef g(q): return k * q\ndef f(q): return g(q)", "k = 2.0", "k = 3.0"),
    "the code of a function that is called": ("def g(q): return 2.0 * q\ndef f(q): return g(q)", "2.0", "3.0"),
    "a function in a list": ("g = [lambda q: 2.0 * q]\ndef f(q): return g[0](q)", "2.0", "3.0"),
    "a partial": ("def g(k, q): return k * q\nf = functools.partial(g, 2.0)", "2.0", "3.0"),
    "an attribute of a function": ("def f(q): return f.k * q\nf.k = 2.0", "2.0", "3.0"),
    "an attribute": ("s = types.SimpleNamespace(k=2.0)\ndef f(q): return s.k * q", "2.0", "3.0"),
    "an attribute of one's own": (
        "class S:\n  def __init__(self): self.k = 2.0\ns = S()\ndef f(q): return s.k * q", "2.0", "3.0"),
    "a slot": ("class S:\n  __slots__ = ('k',)\ns = S(); s.k = 2.0\ndef f(q): return s.k * q", "2.0", "3.0"),
    "an attribute of a class": ("class S:\n  k = 2.0\ndef f(q): return S.k * q", "2.0", "3.0"),
    "an attribute of a base": ("class B:\n  k = 2.0\nclass S(B): pass\ndef f(q): return S.k * q", "2.0", "3.0"),
    "a method": ("class S:\n  def g(self, q): return 2.0 * q\ns = S()\ndef f(q): return s.g(q)", "2.0", "3.0"),
    "a bound method": ("class S:\n  k = 2.0\n  def g(self, q): return self.k * q\nf = S().g", "2.0", "3.0"),
    "an operator": ("class S:\n  def __mul__(self, q): return 2.0 * q\ns = S()\ndef f(q): return s * q", "2.0", "3.0"),
    "a property": ("class S:\n  @property\n  def k(self): return 2.0\ns = S()\ndef f(q): return s.k * q", "2.0", "3.0"),
    "a dataclass": (
        "@dataclasses.dataclass(frozen=True)\nclass S:\n  k: float = 2.0\ns = S()\ndef f(q): return s.k * q", "2.0", "3.0"),
    "a module of equinox": ("class S(eqx.Module):\n  k: float\ns = S(2.0)\ndef f(q): return s.k * q", "2.0", "3.0"),
    "a method of a module of equinox": (
        "class S(eqx.Module):\n  def g(self, q): return 2.0 * q\ns = S()\ndef f(q): return s.g(q)", "2.0", "3.0"),
    "a method of a named tuple": (
        "class S(typing.NamedTuple):\n  k: float\n  def g(self, q): return 2.0 * q\ns = S(1.0)\ndef f(q): return s.g(q)",
        "2.0 * q", "3.0 * q"),
    "an attribute of a dict": ("class S(dict): pass\ns = S(); s.k = 2.0\ndef f(q): return s.k * q", "2.0", "3.0"),
    "what is jitted": ("g = jax.jit(lambda q: 2.0 * q)\ndef f(q): return g(q)", "2.0", "3.0"),
    "a derivative of one's own": (
        "@jax.custom_jvp\ndef g(q): return q\n@g.defjvp\ndef _(q, v): return q[0], 2.0 * v[0]\ndef f(q): return g(q)",
        "2.0", "3.0"),
    "where an exception is caught": (
        "def f(q):\n  try: a = q[9]\n  except IndexError: a = 2.0\n  return a", "IndexError", "TypeError"),
    "a decorator": (
        "def twice(g):\n  @functools.wraps(g)\n  def h(q): return 2.0 * g(q)\n  return h\n@twice\ndef f(q): return q",
        "2.0", "3.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_another_key_and_the_same_text_the_same(name):
    text, old, new = CHANGES[name]
    assert old in text
    assert key(text) == key(text) != key(text.replace(old, new))


def test_a_module_of_ones_own_is_seen_through_every_function_that_reads_it():
    """Two names of one module, read by two functions; and one that only a function far away reads."""
    text = "def g(q): return config.b * q\ndef f(q): return config.a * g(q)\n"

    def of(a=1.0, b=2.0, far=3.0):
        config, other = types.ModuleType("config"), types.ModuleType("other")
        config.a, config.b, config.far = a, b, far
        other.config = config
        return key(text + "def far(m): return m.far\ndef h(): return other\n", config=config, other=other), key(
            "def far(m): return m.far\ndef h(q): return far(config) * q\ndef f(q): return config.a * h(q)", config=config
        )

    assert of() == of()
    assert of(a=9.0)[0] != of()[0] and of(b=9.0)[0] != of()[0] and of(far=9.0)[1] != of()[1]
    assert of(far=9.0)[0] == of()[0]  # nobody reads it there: another number of it is not another program


def test_a_name_of_a_module_counts_in_the_key_of_one_process_too():
    """Two functions read two names of one module: the second was not looked at, and a program with its old number was found."""
    config = types.ModuleType("config")
    config.a, config.b = 1.0, 2.0
    scope = {"__name__": "somebody", "config": config}
    exec("def g(q): return config.b * q\ndef f(q): return config.a * g(q)", scope)
    first = freeze(scope["f"])
    config.b = 3.0
    second = freeze(scope["f"])
    assert first is not second and first(1.0) == 2.0 and second(1.0) == 3.0


DOUBTFUL = {
    "chance": "def f(q): return np.random.rand() * q",
    "chance by name": "from numpy.random import default_rng\ndef f(q): return default_rng().normal() * q",
    "chance of Python": "import random\ndef f(q): return random.random() * q",
    "a generator": "g = np.random.default_rng(0)\ndef f(q): return g.normal() * q",
    "the clock": "import time\ndef f(q): return time.time() * q",
    "the clock by name": "from time import time\ndef f(q): return time() * q",
    "the environment": "import os\ndef f(q): return float(os.environ['K']) * q",
    "an import inside": "def f(q):\n  import os\n  return float(os.environ['K']) * q",
    "a file": "def f(q): return float(open('k').read()) * q",
    "a file through numpy": "def f(q): return np.loadtxt('k') * q",
    "a file through numpy by name": "from numpy import loadtxt\ndef f(q): return loadtxt('k') * q",
    "names that are computed": "def f(q): return getattr(np, 'a' + 'bs')(q)",
    "all names": "k = 2.0\ndef f(q): return globals()['k'] * q",
    "text that is run": "k = 2.0\ndef f(q): return eval('k') * q",
    "a list that grows": "seen = []\ndef f(q): seen.append(1); return len(seen) * q",
    "a counter": "n = 0\ndef f(q):\n  global n\n  n += 1\n  return n * q",
    "a memory": "@functools.lru_cache\ndef g(): return 2.0\ndef f(q): return g() * q",
    "another package": "import scipy.special\ndef f(q): return scipy.special.gamma(0.5) * q",
    "a function of another package": "from scipy.special import gamma\ndef f(q): return gamma(0.5) * q",
    "a tree that is said elsewhere": (
        "class S:\n  k = 2.0\njax.tree_util.register_pytree_node(S, lambda s: ((), 3.0), lambda k, _: S())\ns = S()\n"
        "def f(q): return s.k * q"
    ),
    "masked arrays": "k = np.ma.array([1.0, 2.0], mask=[0, 1])\ndef f(q): return k[0] * q",
    "matrices": "k = np.matrix([[1.0]])\ndef f(q): return k * q",
    "a dict that makes its entries": "k = collections.defaultdict(lambda: 2.0)\ndef f(q): return k['a'] * q",
    "what is said while tracing": "def f(q): print(q); return q",
    "a place in memory": "def f(q): return id(q) * q",
    "objects of C": "import array\nk = array.array('d', [2.0])\ndef f(q): return k[0] * q",
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_where_nobody_can_be_sure_there_is_no_key(name):
    with pytest.raises(Unsure):
        key(DOUBTFUL[name])


def test_control_in_one_process_such_functions_do_have_a_key():
    """So it is the lasting key that refuses, not something in the texts."""
    for text in DOUBTFUL.values():
        scope = {"__name__": "somebody"}
        exec(HEAD + text, scope)
        assert Reader().read(scope["f"])


def test_a_traced_value_has_no_key():
    def inside(x):
        with pytest.raises(Unsure):
            lasting(freeze(lambda q: x * q))
        return x

    jax.make_jaxpr(inside)(1.0)


def test_usual_functions_do_have_one():
    """Otherwise nothing would ever be kept."""
    for text in (
        "sin(q) + jnp.add(q, 1) * np.pi * np.sqrt(2) * math.pi",
        "linalg.norm(q)",
        "where(q > 0, q, jnp.inf)",
        "stack([q, q])",
    ):
        assert key(f"def f(q, v, t, params): return jnp.{text}")
    assert key("def f(q): return jax.nn.relu(q) + jax.lax.cond(q[0] > 0, lambda: 1.0, lambda: 2.0) + jnp.array([1.0, 2.0]) @ q")


PRINTED = """
import sys
sys.path.insert(0, {folder!r})
import carom
from test_lasting import CHANGES, key
print("".join(key(text).hex() for text, _, _ in CHANGES.values()))
print(key("k = {{'a', 'b', 'c'}}\\ndef f(q): return q if q in {{'x', 'y', 'z'}} else len(k)").hex())
"""


def test_another_process_finds_the_same_keys():
    """With another order of hashes: sets and dicts must not be written down in it."""
    folder = os.path.dirname(__file__)
    found = [
        subprocess.run(
            [sys.executable, "-c", PRINTED.format(folder=folder)],
            env={**os.environ, "PYTHONHASHSEED": seed, "CAROM_CACHE": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1] and len(found[0].split()[0]) == 64 * len(CHANGES)


def test_arrays_are_read_whole():
    k = np.zeros(100_000)
    first = lasting(k)
    k[77_777] = 1e-300
    assert lasting(k) != first and lasting(jnp.asarray(k)) != lasting(jnp.zeros(100_000))

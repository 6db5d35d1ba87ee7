"""Every kind of system with every method under every verb: a cell works, with a physical check, or is refused with a reason.

What is refused follows from the declarations (`carom.methods.capabilities`), the same that every verb asks and that the table in
docs/what-works.md is made from. A sample of the cells runs every time, all of them in `make stress`.
"""

from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import KINDS, METHODS, MODELS

import carom
from carom.methods.capabilities import refusal, table
from carom.running.checks import check_problem

CELLS = [(kind, method) for kind in KINDS for method in METHODS]
# First order, or events that are not located: so far may an end be from that of the event-driven method, relative to its size.
CLOSE = {"VariationalCollision": 1e-6, "EventDriven": 1e-9, "MoreauJean": 0.1, "TimeDG": 0.05, "Hybrid": 1e-6}
SAMPLE = {
    ("elastic", "VariationalCollision"),
    ("restitution", "MoreauJean"),
    ("joints", "VariationalCollision"),
    ("constraints", "TimeDG"),
    ("hamiltonian", "VariationalCollision"),
    ("relativistic", "VariationalCollision"),
    ("massless contact", "MoreauJean"),
}


def _marked(cells, sample):
    return [pytest.param(*cell, marks=() if cell in sample else pytest.mark.stress) for cell in cells]


@cache
def _kind(name: str):
    return KINDS[name]()


def _method(kind: str, method: str):
    """What moves without mass needs a rule that sees the potential between two points."""
    if kind.startswith("massless") and method == "VariationalCollision":
        return carom.VariationalCollision(carom.Composition(carom.Midpoint(), 4))
    return METHODS[method]()


@cache
def _needs(name: str) -> frozenset[str]:
    kind = _kind(name)
    return check_problem(kind.system, kind.q0, kind.v0, kind.params).needs


def _run(kind: str, method: str, **options):
    k = _kind(kind)
    options = {"dt": k.dt, "num_steps": k.num_steps, "params": k.params, "progress": False, **options}
    return carom.solve(k.system, _method(kind, method), k.q0, k.v0, **options)


@cache
def _reference(kind: str) -> np.ndarray:
    """Where the motion ends: by the event-driven method, which shares only the law of impact with the others."""
    if kind == "massless contact":
        return _spring_with_two_slopes()
    if kind in ("beam", "interfaces"):  # many small steps of the rule itself, which is tested against exact waves elsewhere
        k = _kind(kind)
        return _run(kind, "VariationalCollision", dt=k.dt / 16, num_steps=16 * k.num_steps).q[-1]
    return _run(kind, "EventDriven").q[-1]


def _spring_with_two_slopes() -> np.ndarray:
    """Below −0.4 the wall holds the point without mass, and one spring of full stiffness is left: by plain small steps."""
    kind = _kind("massless contact")
    k, x, v, h = kind.params["stiffness"], 1.0, 0.0, 1e-5
    force = lambda x: -k * (x + 0.2) if x < -0.4 else -0.5 * k * x  # noqa: E731
    for _ in range(round(kind.dt * kind.num_steps / h)):
        v += 0.5 * h * force(x)
        x += h * v
        v += 0.5 * h * force(x)
    return np.array([max(0.5 * x, -0.2), x])


def _works(kind: str, method: str, verb: str) -> bool:
    return refusal(_needs(kind), _method(kind, method), verb) is None


def _is_refused(call) -> None:
    """A cell that does not work says so, and what would."""
    with pytest.raises(carom.InputError, match=r"choose|no method of carom"):
        call()


@pytest.mark.parametrize(("kind", "method"), CELLS)
def test_what_is_refused_is_refused_before_anything_runs(kind, method, monkeypatch):
    k, way = _kind(kind), _method(kind, method)

    def never(*args, **options):
        raise AssertionError("something was computed")

    monkeypatch.setattr("carom.methods.loop._advance", never)
    verbs = {
        "solve": lambda: _run(kind, method),
        "ensemble": lambda: carom.ensemble(k.system, way, [k.q0], [k.v0], dt=k.dt, num_steps=2, params=k.params),
        "gradients": lambda: carom.rollout(k.system, way, k.q0, k.v0, dt=k.dt, num_steps=2, params=k.params),
    }
    for verb, call in verbs.items():
        if _works(kind, method, verb) or (verb == "gradients" and _needs(kind) != k.system.needs):
            continue  # a pure rollout sees no values: what only they show is the caller's part
        _is_refused(call)


def test_a_rule_that_cannot_step_what_has_no_mass_says_which_can():
    with pytest.raises(carom.InputError, match=r"Trapezoidal cannot step it.*Midpoint\(\) or Galerkin\(2\)"):
        carom.solve(_kind("massless").system, carom.VariationalCollision(), _kind("massless").q0, _kind("massless").v0, dt=0.01,
                    num_steps=2, params=_kind("massless").params)  # fmt: skip


def test_the_matrix_is_mostly_filled():
    """Control: were everything refused, the test above would be content."""
    filled = [_works(kind, method, "solve") for kind, method in CELLS]
    assert sum(filled) >= 74 and all(any(_works(kind, m, "solve") for m in METHODS) for kind in KINDS)
    on_rotations = [
        _works(kind, m, verb) for kind in KINDS if "rotations" in kind for m in METHODS for verb in ("solve", "gradients")
    ]
    assert all(on_rotations)


@pytest.mark.parametrize(("kind", "method"), _marked(CELLS, SAMPLE))
def test_solve(kind, method):
    if not _works(kind, method, "solve"):
        return _is_refused(lambda: _run(kind, method))
    k, run = _kind(kind), _run(kind, method)
    assert run.status.ok and len(run.impacts) >= k.hits
    scale = 1 + np.abs(_reference(kind)).max()
    assert np.abs(run.q[-1] - _reference(kind)).max() < CLOSE[method] * scale
    if k.conserves and method in ("VariationalCollision", "EventDriven", "Hybrid"):
        assert np.abs(run.energy_error).max() < 1e-4  # beams and bars: leapfrog with Δt of the paper's size; others 1e-8
    if "non-penetration" in run.method.preserves and kind != "interfaces":
        assert run.smallest_gap.min() > -1e-9


def _told(kind: str):
    """What only values show, directions without mass, a pure function has to be told."""
    k = _kind(kind)
    return check_problem(k.system, k.q0, k.v0, k.params).system


def _derivative(kind: str, method: str):
    k, way = _kind(kind), _method(kind, method)
    system = _told(kind)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=len(k.q0)))
    size = jnp.ones_like(jnp.asarray(k.params[k.by], float))
    x0 = float(np.ravel(k.params[k.by])[0])

    def end(x):
        params = {**k.params, k.by: x * size}
        run = carom.rollout(system, way, k.q0, k.v0, dt=k.dt, num_steps=k.num_steps, params=params, max_impacts=16)
        return run.q[-1] @ weights

    return end, x0


GRADIENTS = {("restitution", "MoreauJean"), ("elastic", "EventDriven"), ("massless contact", "MoreauJean")}


@pytest.mark.parametrize(("kind", "method"), _marked(CELLS, GRADIENTS))
def test_gradients(kind, method):
    end, x = _derivative(kind, method)
    if not _works(kind, method, "gradients"):  # by `solve` where only values show why
        told = _told(kind).needs == _needs(kind)
        return _is_refused((lambda: end(x)) if told else (lambda: _run(kind, method)))
    value, forwards, backwards = _both_ways(end, x)
    step = 1e-6 * max(1.0, abs(x))
    there, ahead, behind = jax.jit(jax.vmap(end))(jnp.array([x, x + step, x - step]))
    differences = (ahead - behind) / (2 * step)
    assert jnp.isfinite(forwards) and float(forwards) == pytest.approx(float(backwards), rel=1e-9, abs=1e-12)
    assert float(forwards) == pytest.approx(float(differences), rel=1e-4, abs=1e-7)  # 1e-6 of the step, and its square
    assert float(there) == pytest.approx(float(value), rel=1e-9)


def _both_ways(end, x):
    """The value and its derivatives, forwards and backwards, of one run: its program is compiled once, and not for each."""

    @jax.jit
    def all_of_it(x):
        value, slope = jax.linearize(end, x)
        return value, slope(1.0), jax.linear_transpose(slope, x)(1.0)[0]

    return all_of_it(x)


@pytest.mark.parametrize(("kind", "method"), _marked(CELLS, {("friction", "MoreauJean")}))
def test_ensemble(kind, method):
    k = _kind(kind)
    starts = np.stack([k.v0, 1.01 * np.asarray(k.v0, float), k.v0])
    options = {"dt": k.dt, "num_steps": k.num_steps, "params": k.params}
    many = lambda: carom.ensemble(k.system, _method(kind, method), [k.q0], starts, **options)  # noqa: E731
    if not _works(kind, method, "ensemble"):
        return _is_refused(many)
    lanes, run = many(), _run(kind, method)
    assert lanes.ok.all() and lanes.num_impacts[0] == len(run.impacts)
    np.testing.assert_allclose(lanes.q_end[[0, 2]], np.stack([run.q[-1]] * 2), atol=1e-9)
    if np.any(np.asarray(k.v0) != 0):
        assert np.abs(lanes.q_end[1] - run.q[-1]).max() > 1e-6  # control


@pytest.mark.parametrize(("kind", "method"), _marked(CELLS, {("hamiltonian", "EventDriven"), ("joints", "MoreauJean")}))
def test_checkpoint(kind, method, tmp_path):
    every = _kind(kind).num_steps // 3
    if not _works(kind, method, "checkpoint"):
        return _is_refused(lambda: _run(kind, method, checkpoint=tmp_path / "run.zarr", every=every))
    first = _run(kind, method, checkpoint=tmp_path / "run.zarr", every=every)
    again = _run(kind, method, checkpoint=tmp_path / "run.zarr", every=every)
    np.testing.assert_array_equal(first.q, again.q)
    np.testing.assert_allclose(first.q[-1], _run(kind, method).q[-1], atol=1e-8)
    np.testing.assert_array_equal(carom.load(tmp_path / "run.zarr").p, first.p)


@pytest.mark.parametrize(("kind", "method"), _marked(CELLS, {("forces", "Hybrid"), ("massless", "VariationalCollision")}))
def test_sweep(kind, method):
    """Two points, one of them the run itself; what is refused is recorded as refused, point by point."""
    k, way = _kind(kind), _method(kind, method)
    x = float(np.ravel(k.params[k.by])[0])
    scalar = np.ndim(k.params[k.by]) == 0
    vary = {k.by: [x, 1.3 * x]} if scalar else {"num_steps": [k.num_steps, k.num_steps // 2]}
    found = carom.sweep(MODELS[kind], samples=vary, method=way, workers=0, progress=False)
    if not _works(kind, method, "sweep"):
        assert list(found.status.values) == ["refused"] * 2
        return
    assert list(found.status.values) == ["ok"] * 2, found.message.values
    run = _run(kind, method)
    np.testing.assert_allclose(found.q_end.values[0], run.q[-1], atol=1e-12)
    assert np.abs(found.q_end.values[1] - run.q[-1]).max() > 1e-9  # control


@pytest.mark.parametrize(("kind", "method"), _marked(CELLS, {("elastic", "VariationalCollision")}))
def test_dense_output(kind, method):
    if not _works(kind, method, "solve"):
        return _is_refused(lambda: _run(kind, method))
    run = _run(kind, method)
    if not _works(kind, method, "dense output"):
        with pytest.raises(carom.InputError, match="dense output"):
            run.dense.q(run.t)
        return
    after, space = 1e-9, run.system.space  # just after a point of the grid, before anything is hit
    rate = run.v[5] if space is None else space.push(jnp.asarray(run.q[5]), jnp.asarray(run.v[5]))
    np.testing.assert_allclose(run.dense.q([run.t[5] + after])[0], run.q[5] + after * np.asarray(rate), atol=1e-8)
    halfway = run.dense.q([0.5 * (run.t[5] + run.t[6])])[0]
    between = 0.5 * (run.q[5] + run.q[6])
    assert np.abs(halfway - between).max() < 0.3 * np.abs(run.q[6] - run.q[5]).max() + 1e-9  # it bends less than it moves


def test_the_table_in_the_documentation_is_what_is_declared():
    page = (Path(__file__).parent.parent / "docs" / "what-works.md").read_text()
    assert table() in page

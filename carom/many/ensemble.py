"""Many trajectories at once: blocks of lanes on all cores of a CPU, or on all GPUs."""

import itertools
import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from carom.calls import public
from carom.errors import InputError
from carom.kept.keep import keep, keep_kernel
from carom.kept.remember import remembered
from carom.many.cluster import Lanes, check_store, fingerprint, spread
from carom.many.lane_inputs import CheckedLanes, check_lanes, saved_steps
from carom.many.trajectories import Ensemble
from carom.methods.capabilities import require
from carom.methods.loop import Grid, advance
from carom.methods.method import Method, State
from carom.methods.status import OK, TABLE_FULL
from carom.methods.variational.lanes import HARD_SINGLY, SINGLY, TOGETHER, LaneInputs, LaneStates, advance_lanes
from carom.methods.variational.lanes_in_tiles import advance_in_tiles
from carom.named import frozen, renewed
from carom.running.checkpoint import digest_of
from carom.running.checks import check_step, needs_of
from carom.running.options import check_clock, check_ensemble, check_grid, device_list, refuse_stop
from carom.running.progress import Bar
from carom.system.system import System
from carom.wanted import Flag, Text
from carom.xla.kernel import single_kernel
from carom.xla.machine import cores
from carom.xla.over_lanes import over_lanes
from carom.xla.structure import primitives

BLOCK, POOL = 256, 64  # lanes that are computed together on a CPU: their states fit into its fastest cache
SINGLE_POOL = 8  # where impacts are taken one by one: a longer queue gains nothing there, and lanes that wait are carried along
TASK = 32  # blocks at most that are handed over together: a hand-over costs as much as half a block
GPU_BLOCK, GPU_SHARE = 1 << 22, 8  # on a GPU, and one pool for so many of them
ROWS = 256  # impacts between two looks, for methods that go lane by lane
NOT_A_LANE = -1  # the status of what fills the last block
TOO_MUCH = {"interfaces", "rotations", "nodes", "controller"}  # more code than compaction can repeat for each of its stages
# On a CPU: a flow with velocity constraints is Newton's method, in which lanes side by side wait for the slowest of them.
SLOW_TOGETHER = {"constraints"}


@public
def ensemble(
    system: System,
    method: Method,
    q0s: Any,
    v0s: Any,
    *,
    dt: Any,
    num_steps: int,
    params: Any = None,
    each: dict[str, Any] | None = None,
    t0: float = 0.0,
    save: int | Sequence[int] | None = None,
    dtype: Any = np.float64,
    devices: Sequence[Any] | None = None,
    progress: Flag | None = None,
    name: Text = "ensemble",
    stop: Any = None,
    cluster: str | None = None,
    out: Any = None,
    block: int | None = None,
) -> Ensemble:
    """Simulate many independent trajectories (lanes): what `solve` does for one, with the same numbers.

    - `q0s`, `v0s`: one row per lane, [lanes, n]; a single row serves all lanes.
    - `dt`: one number, or one per lane. `params`: what all lanes share, as in `solve`.
    - `each`: parameters that differ from lane to lane, by name, with a first axis of lanes.
    - `save`: which states to keep beside the last: every so many steps (with the first), or a list of steps.
    - `dtype`: float64, or float32 for GPUs that are slow in double precision: states are then good to 7 digits at best.
    - `devices`: JAX devices to use, by default all of them; on a CPU, every core.
    - `progress`: a bar on stderr; by default when that is a terminal and the work takes longer than a second.
    - `cluster`: the address of a dask scheduler. Blocks of `block` lanes go to its workers, and what they return is written to
      `out`, a *.zarr, block by block; returned is that store as an xarray dataset, which reads what it is asked for. The lanes
      may be given as anything that is read in slices (numpy.memmap, a zarr array): only a few blocks are in memory at a time. A
      worker that dies loses nothing, and the same call goes on with an ensemble that was stopped.

    Lanes do not disturb one another: one that fails is NaN from there on, and `.status` says which and why. Bad input raises
    `InputError` with the first lane it was found in.
    """
    if cluster is not None:
        options = {"num_steps": num_steps, "params": params, "t0": t0, "save": save, "dtype": dtype, "name": name, "stop": stop}
        return _spread(system, method, Lanes(q0s, v0s, dt, each), options, cluster, out, block)
    if out is not None or block is not None:
        raise InputError("out and block say where the lanes of a cluster are written: pass cluster= too, or .save the ensemble")
    check_ensemble(system, method, dtype, each, q0s=q0s, v0s=v0s, dt=dt, params=params)
    refuse_stop(stop, "carom.ensemble")
    longest, total = check_grid(np.max(np.asarray(dt, float), initial=0.0), num_steps)
    system, method = frozen(system.on_grid(dt)), renewed(method)
    require(needs_of(system), method, "ensemble")
    lanes = check_lanes(system, q0s, v0s, dt, params, each, t0)
    problem = lanes.problem
    system = problem.system  # with its massless directions
    require(problem.needs, method, "ensemble")
    check_step(problem.system, method, problem.params, longest)
    method.check(problem.system, problem.params, State(problem.t0, problem.q0, problem.p0), longest)
    check_clock(float(np.min(lanes.dt)), total, float(t0))
    saved = saved_steps(save, total)
    plan = _Plan(method, system, lanes, saved, np.dtype(dtype), device_list(devices))
    clock = time.perf_counter()
    plan.compile()
    compiled = time.perf_counter()
    plan.run_all(Bar(progress))
    q, p = plan.q, plan.p
    late = plan.steps[:, None] < np.asarray(saved)
    if late.any():
        q[late], p[late] = np.nan, np.nan
    return Ensemble(
        t=t0 + np.asarray(saved) * lanes.dt[:, None],
        q=q,
        p=p,
        saved=np.asarray(saved),
        impacts_so_far=plan.impacts,
        steps=plan.steps,
        codes=plan.status,
        energy=plan.energy,
        energy_start=lanes.energy,
        dt=lanes.dt,
        q0=lanes.q,
        v0=lanes.v,
        t0=float(t0),
        system=system,
        method=method,
        params=jax.tree.map(copy, params),
        each=jax.tree.map(copy, each or {}),
        contact_names=lanes.problem.contact_names,
        seconds=time.perf_counter() - compiled + plan.bringing,
        compile_seconds=compiled - clock - plan.bringing,
        name=name,
        single=np.dtype(dtype) == np.float32,
    )


def _spread(system: System, method: Method, lanes: Lanes, options: dict[str, Any], cluster: str, out: Any, block) -> Any:
    """Over the workers of a cluster. The first lane is checked here: what is wrong with all of them is said at once."""
    check_store(out, block)
    q, v, dt, each = lanes[0:1]
    check_ensemble(system, method, options["dtype"], each, q0s=q, v0s=v, dt=dt, params=options["params"])
    refuse_stop(options["stop"], "carom.ensemble")
    problem = check_lanes(frozen(system.on_grid(dt)), q, v, dt, options["params"], each, options["t0"]).problem
    require(problem.needs, method, "ensemble")
    saved_steps(options["save"], check_grid(np.max(dt), options["num_steps"])[1])
    told = {
        "system": digest_of(problem.system, problem),
        "method": f"{type(method).__name__} {digest_of(method, problem)}",
        "start": fingerprint(*lanes.parts.values()),
        "options": repr({key: value for key, value in options.items() if key not in ("params", "name")}),
        "params": fingerprint(*jax.tree.leaves(options["params"])),
    }
    return spread(partial(_lanes_of_block, system, method, options), lanes, told, cluster, out, block)


def _lanes_of_block(system: System, method: Method, options: dict[str, Any], q0s, v0s, dt, each) -> Ensemble:
    """In a worker."""
    return ensemble(system, method, q0s, v0s, dt=dt, each=each or None, progress=False, **options)


# -- blocks of lanes -----------------------------------------------------------------------------------------------------


class _Plan:
    """Cuts the lanes into blocks, hands them to workers, and collects what they return."""

    def __init__(self, method: Any, system: System, lanes: CheckedLanes, saved: list[int], dtype: np.dtype, devices: list[Any]):
        numbers, rest = eqx.partition((method, system), eqx.is_inexact_array)
        self.method, self.system = eqx.combine(jax.tree.map(lambda x: x.astype(dtype), numbers), rest)
        self.lanes, self.saved, self.dtype, self.devices = lanes, saved, dtype, devices
        self.first: tuple[LaneInputs, LaneStates] | None = None  # of the first task, what `compile` has brought to the device
        self.bringing = 0.0  # seconds that took: of the run, though spent before it
        self.own_steps = bool(np.any(lanes.dt != lanes.dt[0]))
        count, n = lanes.q.shape
        on_cpu = devices[0].platform == "cpu"
        share = -(-count // len(devices))
        self.compact = "lanes" in method.offers and not lanes.problem.needs & (TOO_MUCH | (SLOW_TOGETHER if on_cpu else set()))
        used = self._functions_used() if self.compact and on_cpu else set()
        if used & (SCALAR | (SINES if dtype != np.float64 else set())):
            self.compact = False  # a CPU computes these one by one, and lanes side by side gain nothing
        self.tiled = self.compact and devices[0].platform == "gpu" and os.environ.get("CAROM_TILES") != "0"
        self.way = _way_of_impacts(lanes, used) if on_cpu else TOGETHER
        # Each device has one worker; a CPU that JAX sees as one device has one per core, since a task runs on one core.
        self.workers = cores() if on_cpu and len(devices) == 1 else len(devices)
        self.block = min(BLOCK if on_cpu else GPU_BLOCK, 1 << (share - 1).bit_length())
        pool = SINGLE_POOL if self.way == SINGLY else POOL
        self.pool = max(1, self.block * pool // BLOCK if on_cpu else self.block // GPU_SHARE)
        blocks = -(-count // self.block)
        together = min(TASK, 1 << (-(-blocks // self.workers) - 1).bit_length()) if on_cpu else 1
        self.size = self.block * together  # of a task
        self.tasks = [slice(a * self.block, min(b * self.block, count)) for a, b in _shares(blocks, together, self.workers)]
        self.q, self.p = np.empty((count, len(saved), n)), np.empty((count, len(saved), lanes.p.shape[1]))
        self.steps, self.status = np.zeros(count, np.int32), np.zeros(count, np.int32)
        self.energy, self.impacts = np.empty((count, len(saved))), np.zeros((count, len(saved)), np.int32)

    def _functions_used(self) -> set[str]:
        """Traced once: the next ensemble of this kind asks for it again, and tracing took half of its time."""
        lanes = self.lanes
        at = lanes.q[0], lanes.p[0], np.zeros(()), lanes.dt[0]
        return set(remembered(_functions_used, self.method, self.system, lanes.problem.params, *at))

    def compile(self) -> None:
        """The first task up to step 0: nothing is done but compiling. What Triton does not take goes the longer way. What was
        brought to the device for it stays there: on a GPU, where a task is all lanes, that is half of what a run brings."""
        clock = time.perf_counter()
        self.first = jax.block_until_ready(self.begin(self.tasks[0], 0))
        self.bringing = time.perf_counter() - clock
        try:
            self.come_to(0, *self.first)
        except Exception as error:
            if not self.tiled:
                raise
            self.tiled = False
            self.come_to(0, *self.first)  # whatever is wrong with the system itself is raised here
            why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            text = f"this ensemble is not one kernel on the GPU, and several times slower ({why}); CAROM_TILES=0 silences this"
            warnings.warn(text, stacklevel=3)

    def run_all(self, bar: Bar) -> None:
        count, done = len(self.lanes.q), 0
        with bar, ThreadPoolExecutor(self.workers) as workers:
            tasks = {workers.submit(self.run, task, self.saved, i % len(self.devices)): task for i, task in enumerate(self.tasks)}
            try:
                for finished in as_completed(tasks):
                    finished.result()
                    done += tasks[finished].stop - tasks[finished].start
                    bar.update(done / count, f"{done:,} of {count:,} lanes")
            finally:  # after a failure or Ctrl-C, what has not begun does not begin
                workers.shutdown(wait=False, cancel_futures=True)

    def run(self, task: slice, saved: list[int], device: int = 0) -> None:
        inputs, states = self.first if self.first and task == self.tasks[0] else self.begin(task, device)
        for i, until in enumerate(saved):
            states, energy = self.come_to(until, inputs, states)
            self.store(task, i, *jax.device_get((states, energy)))

    def begin(self, task: slice, device: int) -> tuple[LaneInputs, LaneStates]:
        """The lanes of a task at their start, where they will be stepped."""
        lanes, count = self.lanes, task.stop - task.start
        fill = lambda x: self.fill(x[task])  # noqa: E731
        shared: Any = [x.astype(self.dtype) for x in lanes.shared]
        dt: Any = fill(lanes.dt) if self.own_steps else lanes.dt[0].astype(self.dtype)
        inputs = LaneInputs(shared, [fill(x) for x in lanes.each], np.asarray(lanes.problem.t0, self.dtype), dt)  # pyright: ignore[reportArgumentType]
        none: Any = np.zeros(self.size, np.int32)
        status: Any = np.where(np.arange(self.size) < count, OK, NOT_A_LANE).astype(np.int32)
        controller = self.system.controller
        control: Any = () if controller is None else fill(np.tile(controller.start, (len(lanes.q), 1)))
        states = LaneStates(fill(lanes.q), fill(lanes.p), none, none, status, control)
        default = len(self.devices) == 1 and self.devices[0] == jax.devices()[0]
        if default and self.devices[0].platform == "cpu":
            return inputs, states
        with jax.enable_x64(self.dtype == np.float64):
            return jax.device_put((inputs, states), None if default else self.devices[device])

    def fill(self, values: np.ndarray) -> Any:
        """Lanes along the last axis, repeated up to the size of a task."""
        out = np.empty((*values.shape[1:], self.size), self.dtype)
        out[..., : len(values)] = np.moveaxis(values, 0, -1)
        out[..., len(values) :] = out[..., len(values) - 1 : len(values)]
        return out

    def come_to(self, until: int, inputs: LaneInputs, states: LaneStates) -> tuple[LaneStates, Array]:
        """The states at a step, and their energies."""
        longest = max(b - a for a, b in zip([0, *self.saved], self.saved, strict=False)) or 1
        step: Callable[..., Any] = _tiled if self.tiled else _together if self.compact else _one_by_one
        sizes = _Sizes(self.block, self.pool, longest, self.way)
        with jax.enable_x64(self.dtype == np.float64):
            end = step(self.method, self.system, self.lanes.assembly, inputs, states, np.asarray(until, np.int32), sizes)
            return jax.block_until_ready(end)

    def store(self, task: slice, i: int, states: LaneStates, energy: np.ndarray) -> None:
        count = task.stop - task.start
        self.q[task, i], self.p[task, i] = states.q.T[:count], states.p.T[:count]
        self.steps[task], self.status[task] = states.step[:count], states.status[:count]
        self.energy[task, i], self.impacts[task, i] = energy[:count], states.impacts[:count]


SINES = {"sin", "cos"}
SCALAR = {"tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"}
SCALAR |= {"exp", "exp2", "expm1", "log", "log1p", "pow", "logistic", "erf", "cbrt"}


def _functions_used(method: Any, system: System, params: Any, *at: Any) -> list[str]:
    """What a step computes, among it functions that are more than arithmetic."""

    def step(q, p, t, dt):
        mechanics = method.bind(system, params, q.shape[0])
        return method.flow(mechanics, without_energy=True)(q, p, t, dt), mechanics.contacts.faces(q, t)

    with jax.enable_x64(True):
        return sorted(primitives(step, *(jnp.asarray(x, float) for x in at)))


def _way_of_impacts(lanes: CheckedLanes, used: set[str]) -> str:
    """On a CPU. The law of several contacts, or of friction, is much code: side by side it takes three to six times as long to
    compile, and gains a quarter at most, where impacts are arithmetic alone (benchmarks/lanes_methods.md)."""
    if len(lanes.problem.contact_names) > 1 or "friction" in lanes.problem.needs:
        return SINGLY
    return HARD_SINGLY if used & SINES else TOGETHER


class _Sizes(NamedTuple):
    block: int  #    lanes that are computed together
    pool: int  #     lanes whose impacts are
    longest: int  #  steps between two states that are saved
    impacts: str  #  side by side or one by one


def _shares(blocks: int, most: int, workers: int) -> list[tuple[int, int]]:
    """Blocks cut into tasks of `most` at most, evenly, and a multiple of the workers where there are enough."""
    tasks = -(-blocks // most)
    tasks = min(-(-tasks // workers) * workers, blocks)
    edges = [blocks * i // tasks for i in range(tasks + 1)]
    return list(itertools.pairwise(edges))


@keep_kernel
def _together(method, system, assembly, inputs: LaneInputs, states: LaneStates, until, sizes: _Sizes) -> tuple[LaneStates, Array]:
    """A task by compaction, block by block."""
    states = advance_lanes(method, system, assembly, inputs, states, until, sizes.block, sizes.pool, sizes.impacts, kernel=True)
    return states, _energies(system, assembly, inputs, states)


@keep
def _tiled(method, system, assembly, inputs: LaneInputs, states: LaneStates, until, sizes: _Sizes) -> tuple[LaneStates, Array]:
    """A task on a GPU, tile by tile."""
    states = advance_in_tiles(method, system, assembly, inputs, states, until, sizes.pool)
    return states, _energies(system, assembly, inputs, states)


@keep_kernel
def _one_by_one(method, system, assembly, inputs: LaneInputs, states: LaneStates, until, sizes: _Sizes) -> tuple[LaneStates, Array]:
    """A task lane by lane: what `solve` does, in one kernel for all of them where the method allows that. The energies are part of
    it: for all lanes at once, beside the kernel, the elimination of one mass matrix is a hundred small programs to compile."""
    arrays, functions = eqx.partition((method, system), eqx.is_array)

    def run(witness, arrays, inputs, states, until):
        method, system = eqx.combine(arrays, functions)
        states = states._replace(step=jnp.where(jnp.isfinite(witness), states.step, until))
        return _lane_by_lane(method, system, assembly, inputs, states, until, sizes.longest)

    args = (arrays, inputs, states, jnp.asarray(until))
    return single_kernel(run, *args) if "one kernel" in method.offers else run(jnp.zeros(()), *args)


def _lane_by_lane(
    method: Method, system, assembly, inputs: LaneInputs, states: LaneStates, until, longest: int
) -> tuple[LaneStates, Float[Array, " lanes"]]:
    """The lanes one after the other, and their energies at the end."""
    rows = ROWS + method.impacts_reserved

    def lane(args):
        each, dt, one = args
        params = assembly(inputs.shared, each)

        def going(one: LaneStates):
            return (one.status == OK) & (one.step < until)

        def go_on(one: LaneStates):
            most = jnp.asarray(np.iinfo(np.int32).max, jnp.int32)
            grid = Grid(dt, one.step, until - one.step, most, longest, rows)
            start = State(inputs.t0, one.q, one.p, None if system.controller is None else one.control)
            chunk = advance(method, system, params, start, grid)
            going_on = (chunk.status == TABLE_FULL) & (chunk.steps + chunk.num_impacts > 0)  # with an empty table
            status = jnp.where(going_on, OK, chunk.status).astype(jnp.int32)
            taken, hits = one.step + chunk.steps, one.impacts + chunk.num_impacts
            control = () if system.controller is None else chunk.state.control
            return LaneStates(chunk.state.q, chunk.state.p, taken, hits, status, control)

        one = jax.lax.while_loop(going, go_on, one)
        return one, _energy(system, params, one.q, one.p, inputs.t0 + one.step * dt)

    first = lambda tree: jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), tree)  # noqa: E731
    steps = jnp.broadcast_to(inputs.dt, states.step.shape)
    out = jax.lax.map(lane, first((inputs.each, steps, states)))
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), out)


def _energies(system, assembly, inputs: LaneInputs, states: LaneStates) -> Float[Array, " lanes"]:
    def one(inputs: LaneInputs, q, p, step):
        return _energy(system, assembly(inputs.shared, inputs.each), q, p, inputs.t0 + step * inputs.dt)

    return over_lanes(one, [inputs.varies, True, True, True])(inputs, states.q, states.p, states.step)


def _energy(system, params, q, p, t) -> Float[Array, ""]:
    m = system.bind(params, q.shape[0])
    return m.energy(q, m.velocity(q, p, t), t)

"""The tools. Each `prepare` compiles, where there is something to compile, and returns how long that took and a function that runs.

Other tools get what a careful user would give them: compiled loops where they can be compiled, long steps, and the states on the
same grid as carom.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import soft
from benchmarks.common import timed
from benchmarks.problems import GRAVITY, Problem, Run

RTOL, ATOL = 1e-10, 1e-12
LIFT = 4e-16  # after an impact the gap is zero up to rounding; this makes it positive, so that the next one is seen

Prepared = tuple[float, Callable[[], Run]]


@dataclass(frozen=True)
class Tool:
    key: str
    label: str
    needs: tuple[str, ...]  #    modules
    problems: tuple[str, ...]
    prepare: Callable[[Problem, int], Prepared]
    compiles: bool = True


def _carom(rule: str) -> Callable[[Problem, int], Prepared]:
    def prepare(problem: Problem, steps: int) -> Prepared:
        import carom

        model = carom.models.ALL[problem.model]()
        method = carom.VariationalCollision() if rule == "default" else carom.VariationalCollision(carom.Trapezoidal())

        def solve():
            return model.solve(method, q0=problem.q0, v0=problem.v0, dt=problem.dt, num_steps=steps, progress=False)

        def run() -> Run:
            solution = solve()
            return Run(solution.seconds, solution.q, solution.v, len(solution.impacts), solution.fallbacks)

        return solve().compile_seconds, run

    return prepare


def _diffrax(solver_name: str) -> Callable[[Problem, int], Prepared]:
    def prepare(problem: Problem, steps: int) -> Prepared:
        import jax

        jax.config.update("jax_enable_x64", True)
        simulate = jax.jit(_event_loop(problem, steps, solver_name))
        start = np.array([*problem.q0, *problem.v0])
        clock = time.perf_counter()
        compiled = simulate.lower(start).compile()
        compile_seconds = time.perf_counter() - clock
        n = len(problem.q0)

        def run() -> Run:
            clock = time.perf_counter()
            states, impacts, fine = [np.asarray(x) for x in compiled(start)]
            seconds = time.perf_counter() - clock
            if not fine:
                raise RuntimeError("more flights, or more steps in a flight, than there is room for")
            return Run(seconds, states[:, :n], states[:, n:], int(impacts))

        return compile_seconds, run

    return prepare


def flights(problem: Problem, solver_name: str, dense: bool, longest: float | None, room: int):
    """(flight, bounce): diffrax from a state to the next impact or the end, in at most `room` steps, and the elastic impact."""
    import diffrax
    import jax
    import jax.numpy as jnp
    import optimistix

    n = len(problem.q0)
    acceleration = jnp.zeros(n).at[1].set(-GRAVITY)
    masses, corners = jnp.array(problem.masses), jnp.array(problem.corners)

    def gap(q):
        return jnp.min(q[1] + corners @ jnp.array([jnp.sin(q[2]), jnp.cos(q[2])])) if problem.turns else q[1]

    def bounce(state):
        q, v = state[:n], state[n:]
        height, normal = jax.value_and_grad(gap)(q)
        v = v - 2 * (normal @ v) / (normal**2 @ (1 / masses)) * normal / masses
        return jnp.concatenate([q.at[1].add(jnp.maximum(LIFT - height, 0.0)), v])

    solver = getattr(diffrax, solver_name)()
    term = diffrax.ODETerm(lambda t, state, args: jnp.concatenate([state[n:], acceleration]))
    controller = diffrax.PIDController(rtol=RTOL, atol=ATOL, dtmax=longest)
    # With several corners Newton ended on wrong roots, such as the impact just left, and the run got stuck; bisection did not.
    finder = optimistix.Bisection(rtol=1e-15, atol=1e-15) if problem.turns else optimistix.Newton(rtol=RTOL, atol=ATOL)
    event = diffrax.Event(lambda t, y, args, **kwargs: gap(y[:n]), finder, direction=False)

    def flight(state, rest):
        first = jnp.minimum(min(longest or math.inf, problem.first_step), rest)
        return diffrax.diffeqsolve(
            term, solver, 0.0, rest, first, state, saveat=diffrax.SaveAt(t1=True, dense=dense), stepsize_controller=controller,
            event=event, max_steps=room, adjoint=diffrax.ForwardMode(), throw=False,
        )  # fmt: skip

    return flight, bounce


def _event_loop(problem: Problem, steps: int, solver_name: str):
    """diffrax from impact to impact inside a `scan`; its steps are kept, and interpolated on the whole grid at the end."""
    import diffrax
    import jax
    import jax.numpy as jnp

    end = steps * problem.dt
    most = math.ceil(end / problem.mean_flight) + 8  # flights
    grid = problem.dt * np.arange(steps + 1)
    longest = problem.max_step if problem.turns else None
    flight, bounce = flights(problem, solver_name, True, longest, problem.steps_per_flight)
    interpolation = getattr(diffrax, solver_name).interpolation_cls

    def go_on(carry, _):
        """One flight, on its own clock: near t = 900 the rounding of t would keep the root finder from converging."""
        impacts, fine, t, state = carry
        solution = flight(state, end - t)
        hit, after, dense = solution.event_mask, solution.ys[-1], solution.interpolation
        stop = jnp.where(hit, t + solution.ts[-1], end)
        fine &= hit | (t + solution.ts[-1] >= end)
        return (impacts + hit, fine, stop, jnp.where(hit, bounce(after), after)), (t, stop, dense.ts, dense.infos)

    def on_grid(t, begins, stops, clocks, infos):
        i = jnp.minimum(jnp.searchsorted(stops, t), most - 1)
        j = jnp.maximum(jnp.sum(clocks[i] < t - begins[i]) - 1, 0)
        info = jax.tree.map(lambda table: table[i, j], infos)
        return interpolation(t0=clocks[i, j], t1=clocks[i, j + 1], **info).evaluate(t - begins[i])

    def simulate(state):
        carry = (0, True, 0.0, state)
        (impacts, fine, t, _), tables = jax.lax.scan(go_on, carry, length=most)
        return jax.vmap(lambda t: on_grid(t, *tables))(jnp.asarray(grid)), impacts, fine & (t >= end)

    return simulate


def _scipy(problem: Problem, steps: int) -> Prepared:
    from scipy.integrate import solve_ivp

    n, end = len(problem.q0), steps * problem.dt
    grid, window = problem.dt * np.arange(steps + 1), math.ceil(problem.longest_flight / problem.dt)
    gap, bounce = _by_hand(problem)

    drift, pull = np.eye(2 * n, k=n), -GRAVITY * np.eye(2 * n)[n + 1]

    def slope(t, state):
        return drift @ state + pull

    def event(t, state):
        return gap(state)

    event.terminal, event.direction = True, -1

    def run() -> Run:
        clock = time.perf_counter()
        t, state, done, impacts, pieces = 0.0, np.array([*problem.q0, *problem.v0]), 0, 0, []
        while done <= steps:
            first = min(problem.first_step, end - t) or None
            limits = {"rtol": RTOL, "atol": ATOL, "first_step": first, "max_step": problem.max_step}
            out = solve_ivp(slope, (t, end), state, "DOP853", grid[done : done + window], events=event, **limits)
            pieces.append(np.reshape(out.y, (2 * n, -1)).T)  # an empty list, where no grid point lies before the impact
            done += len(out.t)
            if out.status != 1:
                break
            t, state, impacts = out.t_events[0][0], bounce(out.y_events[0][0]), impacts + 1
        states = np.concatenate(pieces)
        return Run(time.perf_counter() - clock, states[:, :n], states[:, n:], impacts)

    return 0.0, run


def _by_hand(problem: Problem):
    """The lowest gap and the elastic impact in plain Python floats, which are faster here than small arrays."""
    if not problem.turns:
        return (lambda state: state[1]), (lambda state: np.array([state[0], max(state[1], LIFT), state[2], -state[3]]))
    corners, (mass, _, inertia) = problem.corners, problem.masses

    def gap(state):
        s, c = math.sin(state[2]), math.cos(state[2])
        return state[1] + min(s * x + c * y for x, y in corners)

    def bounce(state):
        s, c = math.sin(state[2]), math.cos(state[2])
        height, arm = min((s * x + c * y, c * x - s * y) for x, y in corners)
        speed = state[4] + arm * state[5]
        impulse = -2 * speed / (1 / mass + arm**2 / inertia)
        lift = max(LIFT - (state[1] + height), 0.0)
        return state + np.array([0.0, lift, 0.0, 0.0, impulse / mass, arm * impulse / inertia])

    return gap, bounce


def _numba(problem: Problem, steps: int) -> Prepared:
    import numba

    clock = time.perf_counter()
    fall = numba.njit("UniTuple(int64, 1)(float64[:, :], float64[:, :], float64)")(_fall)
    compile_seconds = time.perf_counter() - clock

    def run() -> Run:
        clock = time.perf_counter()
        q, v = np.empty((steps + 1, 2)), np.empty((steps + 1, 2))
        q[0], v[0] = problem.q0, problem.v0
        (impacts,) = fall(q, v, problem.dt)
        return Run(time.perf_counter() - clock, q, v, impacts)

    return compile_seconds, run


def _fall(q, v, dt):
    """Steps of Verlet, exact for constant gravity; the impact in closed form."""
    x, y, vx, vy = q[0, 0], q[0, 1], v[0, 0], v[0, 1]
    impacts = 0
    for i in range(1, len(q)):
        rest = dt
        x += dt * vx
        below = y + rest * vy - 0.5 * GRAVITY * rest**2
        while below < 0:
            tau = (vy + math.sqrt(vy**2 + 2 * GRAVITY * y)) / GRAVITY
            vy, y, rest = GRAVITY * tau - vy, 0.0, rest - tau
            impacts += 1
            below = rest * vy - 0.5 * GRAVITY * rest**2
        y = below
        vy -= GRAVITY * rest
        q[i, 0], q[i, 1], v[i, 0], v[i, 1] = x, y, vx, vy
    return (impacts,)


def _mujoco(problem: Problem, steps: int) -> Prepared:
    model = soft.particle(problem.dt)
    q0, v0 = np.array([problem.q0]), np.array([problem.v0])

    def run() -> Run:
        seconds, (q, v) = timed(lambda: soft.rollout(model, q0, v0, steps))
        q, v = np.concatenate([q0, q[0]]), np.concatenate([v0, v[0]])
        impacts = int(np.sum((v[:-1, 1] <= 0) & (v[1:, 1] > 0)))
        return Run(seconds, q, v, impacts)

    return 0.0, run


BOTH = ("P1", "P2")
DIFFRAX = ("diffrax", "optimistix")
TOOLS = (
    Tool("carom-4", "carom, composition of order 4 (default)", (), BOTH, _carom("default")),
    Tool("carom-2", "carom, trapezoidal rule", (), BOTH, _carom("trapezoidal")),
    Tool("diffrax-tsit5", "diffrax, Tsit5, events, own restart loop", DIFFRAX, BOTH, _diffrax("Tsit5")),
    Tool("diffrax-dopri8", "diffrax, Dopri8, events, own restart loop", DIFFRAX, BOTH, _diffrax("Dopri8")),
    Tool("scipy", "scipy, DOP853, events, own restart loop", ("scipy",), BOTH, _scipy, compiles=False),
    Tool("mujoco", "MuJoCo, undamped contact of stiffness 2/dt²", ("mujoco",), ("P1",), _mujoco, compiles=False),
    Tool("numba", "numba by hand: the limit for this one problem", ("numba",), ("P1",), _numba),
)

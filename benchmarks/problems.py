"""The problems: plain numbers that every tool can use, and how a result is judged, whichever tool it came from."""

from dataclasses import dataclass

import numpy as np

GRAVITY = 9.81


@dataclass(frozen=True)
class Problem:
    """A rigid body, or a particle, above an elastic floor: mass matrix diag(masses), one gap per corner."""

    key: str
    about: str
    model: str  #                      its name in carom.models
    dt: float
    sizes: dict[str, int]  #           steps
    target: float  #                   µs per step with the order-4 rule, after compilation
    q0: tuple[float, ...]
    v0: tuple[float, ...]
    masses: tuple[float, ...]
    corners: tuple[tuple[float, float], ...]  # about the centre of mass; a particle has one, at (0, 0)
    first_step: float  #               for adaptive solvers, after each impact
    max_step: float  #                 for adaptive solvers: corners that dip below the floor for less time may be missed
    longest_flight: float  #           at least: no impact is that far from the next
    steps_per_flight: int  #           of adaptive solvers, at most: room to keep them
    mean_flight: float  #              at least: room for the flights

    @property
    def turns(self) -> bool:
        return len(self.q0) == 3

    def gaps(self, q: np.ndarray) -> np.ndarray:
        """The height of every corner, for the states in the rows of q."""
        if not self.turns:
            return q[:, 1:2]
        x, y = np.array(self.corners).T
        return q[:, 1:2] + np.sin(q[:, 2:]) * x + np.cos(q[:, 2:]) * y

    def energy_error(self, q: np.ndarray, v: np.ndarray) -> float:
        """The largest |E − E₀| / |E₀| in flight, over the rows of q and v, the states on the grid.

        In a soft contact part of the energy is in the floor: states below it count as penetration."""
        energy = 0.5 * v**2 @ np.array(self.masses) + self.masses[1] * GRAVITY * q[:, 1]
        return float(np.max(np.abs(energy / energy[0] - 1)[np.all(self.gaps(q) >= 0, axis=1)]))

    def penetration(self, q: np.ndarray) -> float:
        """How deep the deepest corner is below the floor, over the rows of q."""
        return float(max(0.0, -np.min(self.gaps(q))))


PARTICLE = Problem(
    key="P1",
    about="a particle on an elastic floor, dt = 0.01",
    model="particle",
    dt=0.01,
    sizes={"whole": 90_300, "quick": 9_030, "tiny": 500},
    target=0.15,
    q0=(0.0, 1.0),
    v0=(-2.0, 0.0),
    masses=(1.0, 1.0),
    corners=((0.0, 0.0),),
    first_step=0.1,
    max_step=np.inf,
    longest_flight=1.0,
    steps_per_flight=4,
    mean_flight=0.9,
)

STAR = Problem(
    key="P2",
    about="a star (square hull, four gaps) tumbling on an elastic floor, dt = 0.005",
    model="star",
    dt=0.005,
    sizes={"whole": 20_000, "quick": 2_000, "tiny": 200},
    target=0.3,
    q0=(0.0, 3.5, 0.0),
    v0=(-2.0, 0.0, 5.0),
    masses=(1.0, 1.0, 29 / 192),
    corners=((0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5), (0.5, -0.5)),
    first_step=0.01,
    max_step=0.02,
    longest_flight=2.0,
    steps_per_flight=104,
    mean_flight=0.7,
)

PROBLEMS = {problem.key: problem for problem in (PARTICLE, STAR)}


@dataclass(frozen=True)
class Run:
    """One run of one tool: the time it took, and the states on the grid 0, dt, 2 dt, …"""

    seconds: float  #        spent stepping, with the states on the grid stored
    q: np.ndarray  #         [steps + 1, n]
    v: np.ndarray  #         [steps + 1, n]
    impacts: int
    fallbacks: int | None = None  #  carom only

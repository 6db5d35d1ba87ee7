"""Small contact problems with solutions that are many, or nearly: one regular problem after the other, each about the one before.

A row of dominoes that has fallen touches at twice as many points as its bodies have velocities. Its impulses are not unique, some
of its contacts hold and slip at a millionth of the speed of others, and neither Newton's method nor a path through the inside of
the cones (`dense_newton`, `dense_interior`) finds out which. With

    W → W + λ/ρ,    q → q − (λ/ρ) r₀                                                                                        (1)

all impulses have their price: the problem is regular, Newton's method solves it from r₀ in a few steps if λ is not too small, and
where its solution is r₀ it is one of the problem itself. So r₀ ← r, again and again (the proximal point method
[rockafellar1976]), with a smaller λ when that went well, since the smaller the faster, and a larger one when not.
"""

from dataclasses import replace

import numpy as np

from carom.bodies.dense_newton import Dense, Found, newton

TURNS = 150
NEAR, FAR = 1e-2, 1.0  # λ to begin with, near a solution and anywhere
LEAST, LARGEST = 1e-9, 1e3
BOLDER, SHYER = 0.3, 5.0
PATIENCE = 8  #       Newton's steps without progress
INSIDE = 1e-4  #      of the best certificate so far: how exactly (1) is solved
FINEST = 1e-12  #     but not more exactly than this
REGULAR = 1e-12  #    λ of Newton's method itself: (1) has one of its own


def solve_proximal(problem: Dense, start: np.ndarray, goal: float, price: float = FAR) -> Found:
    """From `start` with λ = `price`: the best impulses met, their certificate, and the number of Newton's steps."""
    best, least = start, problem.residual(start)
    r, taken = start, 0
    for _ in range(TURNS):
        if least <= goal or price > LARGEST:
            break
        answer, residual, steps = newton(_about(problem, r, price), r, REGULAR, PATIENCE)
        taken += steps
        if residual > max(FINEST, INSIDE * least):
            price *= SHYER
            continue
        r, price = answer, max(BOLDER * price, LEAST)
        residual = problem.residual(r)
        if residual < least:
            best, least = r, residual
    return best, least, taken


def _about(problem: Dense, r: np.ndarray, price: float) -> Dense:
    """(1)."""
    weight = price / problem.rho
    W = problem.W.copy()
    W.flat[:: len(r) + 1] += weight
    return replace(problem, W=W, q=problem.q - weight * r, least=problem.size)

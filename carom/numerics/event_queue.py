"""Hard spheres in a box, from collision to collision: no time step, no approximation but rounding.

Between collisions every sphere flies straight, so the next event of a sphere is known in closed form: it meets another one,

    |r + v s| = σ,   s = (r² − σ²) / (−b + √(b² − v²(r² − σ²))),   b = r·v < 0                                 (1)

(r, v relative, σ the sum of the radii; the form that does not cancel), a wall, or the edge of its cell. Cells are at least as wide
as the largest sphere, so partners are found in the neighbouring cells only. A binary heap holds one event per sphere, its next
one; each takes O(log n). A prediction about a partner that has collided with somebody else since then is recognised by the
partner's count of collisions, and made anew when its time comes: it was a lower bound. Each sphere keeps its own clock and is
moved only when it takes part in something.

A collision exchanges the impulse 2 m₁m₂/(m₁+m₂) (v·n) n along the line of centres: energy and momentum are kept to rounding.

Compiled by numba: the heap changes a few entries of long arrays at a time, which JAX's compiler would copy.
"""

import math

import numba
import numpy as np

NOTHING, PAIR, WALL, CELL = range(4)
_compiled = numba.njit(cache=True, fastmath=False)


@_compiled
def _sift(heap, place, key, at):
    """Put the sphere at this place of the heap where its key belongs."""
    who, size = heap[at], len(heap)
    while at > 0:
        above = (at - 1) >> 1
        if key[heap[above]] <= key[who]:
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and key[heap[below + 1]] < key[heap[below]]:
            below += 1
        if key[heap[below]] >= key[who]:
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = who
    place[who] = at


@_compiled
def _meeting(x, v, clock, radius, i, j, now):
    """(1): how long until i, which is up to date, and j touch; infinite if they do not."""
    distance = speed = approach = 0.0
    for k in range(x.shape[1]):
        dx = x[j, k] + v[j, k] * (now - clock[j]) - x[i, k]
        dv = v[j, k] - v[i, k]
        distance += dx * dx
        speed += dv * dv
        approach += dx * dv
    if approach >= 0.0:
        return np.inf
    apart = distance - (radius[i] + radius[j]) ** 2
    root = approach * approach - speed * apart
    if root < 0.0:
        return np.inf
    return max(apart, 0.0) / (math.sqrt(root) - approach)


@_compiled
def _predict(x, v, clock, radius, count, box, cell, wide, cells, head, after, event, partner, seen, key, i, now):
    """The next event of sphere i, which is up to date."""
    dim = x.shape[1]
    best, kind, who = np.inf, NOTHING, -1
    for k in range(dim):
        if v[i, k] == 0.0:
            continue
        forward = v[i, k] > 0.0
        wall = (box[k] - radius[i] if forward else radius[i]) - x[i, k]
        s = max(wall / v[i, k], 0.0)
        if s < best:
            best, kind, who = s, WALL, k
        inside = cell[i, k] + 1 < cells[k] if forward else cell[i, k] > 0
        if inside:
            edge = (cell[i, k] + (1 if forward else 0)) * wide[k] - x[i, k]
            s = max(edge / v[i, k], 0.0)
            if s < best:
                best, kind, who = s, CELL, k
    for offset in range(3**dim):
        rest, index, inside = offset, 0, True
        for k in range(dim):
            c = cell[i, k] + rest % 3 - 1
            rest //= 3
            inside = inside and 0 <= c < cells[k]
            index = index * cells[k] + c
        if not inside:
            continue
        j = head[index]
        while j >= 0:
            if j != i:
                s = _meeting(x, v, clock, radius, i, j, now)
                if s < best:
                    best, kind, who = s, PAIR, j
            j = after[j]
    event[i], partner[i], key[i] = kind, who, now + best
    if kind == PAIR:
        seen[i] = count[who]


@_compiled
def _index(cell, cells, i):
    index = 0
    for k in range(len(cells)):
        index = index * cells[k] + cell[i, k]
    return index


@_compiled
def _move(x, v, clock, i, now):
    for k in range(x.shape[1]):
        x[i, k] += v[i, k] * (now - clock[i])
    clock[i] = now


@_compiled
def _collide(x, v, mass, i, j):
    square = approach = 0.0
    for k in range(x.shape[1]):
        n = x[j, k] - x[i, k]
        square += n * n
        approach += n * (v[j, k] - v[i, k])
    impulse = 2.0 * mass[i] * mass[j] / (mass[i] + mass[j]) * approach / square
    for k in range(x.shape[1]):
        n = x[j, k] - x[i, k]
        v[i, k] += impulse * n / mass[i]
        v[j, k] -= impulse * n / mass[j]


@_compiled
def _change_cell(cell, cells, head, after, before, v, i, k):
    """Over the edge of its cell, along axis k."""
    index = _index(cell, cells, i)
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        head[index] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]
    cell[i, k] += 1 if v[i, k] > 0.0 else -1
    _enter(cell, cells, head, after, before, i)


@_compiled
def _enter(cell, cells, head, after, before, i):
    index = _index(cell, cells, i)
    after[i], before[i] = head[index], -1
    if head[index] >= 0:
        before[head[index]] = i
    head[index] = i


@_compiled
def fly(x, v, mass, radius, box, cells, times, frames_x, frames_v, pairs, walls, wall_impulse):
    """From the state (x, v) at time 0 through `times`: fills the frames, and per frame the numbers of collisions so far and the
    impulse that the walls have given. x and v are changed."""
    n, dim = x.shape
    wide = box / cells
    clock, key = np.zeros(n), np.zeros(n)
    count, seen = np.zeros(n, np.int64), np.zeros(n, np.int64)
    event, partner = np.zeros(n, np.int64), np.zeros(n, np.int64)
    head = np.full(np.prod(cells), -1)
    after, before = np.full(n, -1), np.full(n, -1)
    cell = np.zeros((n, dim), np.int64)
    for i in range(n):
        for k in range(dim):
            cell[i, k] = min(int(x[i, k] / wide[k]), cells[k] - 1)
        _enter(cell, cells, head, after, before, i)
    for i in range(n):
        _predict(x, v, clock, radius, count, box, cell, wide, cells, head, after, event, partner, seen, key, i, 0.0)
    heap, place = np.argsort(key), np.empty(n, np.int64)  # what is sorted is a heap
    for at in range(n):
        place[heap[at]] = at

    num_pairs = num_walls = 0
    impulse = np.zeros(dim)
    for frame in range(len(times)):
        while key[heap[0]] <= times[frame]:
            i = heap[0]
            now, kind, j = key[i], event[i], partner[i]
            _move(x, v, clock, i, now)
            if kind == CELL:
                _change_cell(cell, cells, head, after, before, v, i, j)
            elif kind == WALL:
                impulse[j] -= 2.0 * mass[i] * v[i, j]
                v[i, j] = -v[i, j]
                count[i] += 1
                num_walls += 1
            elif kind == PAIR and count[j] == seen[i]:
                _move(x, v, clock, j, now)
                _collide(x, v, mass, i, j)
                count[i] += 1
                count[j] += 1
                num_pairs += 1
                _predict(x, v, clock, radius, count, box, cell, wide, cells, head, after, event, partner, seen, key, j, now)
                _sift(heap, place, key, place[j])
            _predict(x, v, clock, radius, count, box, cell, wide, cells, head, after, event, partner, seen, key, i, now)
            _sift(heap, place, key, place[i])
        for i in range(n):
            for k in range(dim):
                frames_x[frame, i, k] = x[i, k] + v[i, k] * (times[frame] - clock[i])
                frames_v[frame, i, k] = v[i, k]
        pairs[frame], walls[frame] = num_pairs, num_walls
        wall_impulse[frame] = impulse


@_compiled
def smallest_gap(x, radius, box, cells):
    """The smallest gap between two spheres in neighbouring cells or between a sphere and a wall: negative where they overlap."""
    n, dim = x.shape
    wide = box / cells
    head, after, before = np.full(np.prod(cells), -1), np.full(n, -1), np.full(n, -1)
    cell = np.zeros((n, dim), np.int64)
    smallest = np.inf
    for i in range(n):
        for k in range(dim):
            smallest = min(smallest, x[i, k] - radius[i], box[k] - radius[i] - x[i, k])
            cell[i, k] = max(0, min(int(x[i, k] / wide[k]), cells[k] - 1))
        for offset in range(3**dim):
            rest, index, inside = offset, 0, True
            for k in range(dim):
                c = cell[i, k] + rest % 3 - 1
                rest //= 3
                inside = inside and 0 <= c < cells[k]
                index = index * cells[k] + c
            j = head[index] if inside else -1
            while j >= 0:
                square = 0.0
                for k in range(dim):
                    square += (x[i, k] - x[j, k]) ** 2
                smallest = min(smallest, math.sqrt(square) - radius[i] - radius[j])
                j = after[j]
        _enter(cell, cells, head, after, before, i)
    return smallest

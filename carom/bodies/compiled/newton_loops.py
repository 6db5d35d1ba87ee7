"""Newton's method of `carom.bodies.dense_newton`, compiled: one call per problem in place of some thirty in each of its steps.

The same steps with the same limits. Two things are cheaper by loops than by arrays and are done here always: contacts that are
open are left out of the matrix, and rows that W does not couple once they are out are solved by themselves. A row of dominoes
has one problem of a hundred rows in which most dominoes touch the floor only.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from carom.bodies.compiled import inner, outer, plain

if TYPE_CHECKING:
    from carom.bodies.dense_newton import Dense, Found

LINE, TABLE = "float64[::1]", "float64[:, ::1]"


def newton_from(
    problem: "Dense", start: np.ndarray, proximal: float, patience: int, enough: float, most: int, limits: tuple[float, ...]
) -> "Found":
    r, residual, taken = steps_of_newton(
        plain(problem.W),
        plain(problem.q),
        plain(problem.friction),
        1 + problem.tangents,
        problem.least,
        problem.weight,
        plain(start),
        proximal,
        patience,
        enough,
        most,
        limits,
    )
    return r, residual, taken


@inner
def _rates(W, q, r, u):
    """u = W r + q; W is symmetric, and many impulses are zero."""
    m = len(q)
    for i in range(m):
        u[i] = q[i]
    for j in range(m):
        if r[j] != 0.0:
            rj, column = r[j], W[j]
            for i in range(m):
                u[i] += rj * column[i]


@inner
def _judged(r, u, mu, width, rho, size, swallows, blurred):
    """The certificate E of impulses r with rates u."""
    edge, total, square = len(mu) * width, 0.0, 0.0
    for c in range(len(mu)):
        at, m = c * width, mu[c]
        sliding = length = 0.0
        for i in range(1, width):
            sliding += u[at + i] * u[at + i]
            part = r[at + i] - rho * u[at + i]
            length += part * part
        sliding, length = math.sqrt(sliding), math.sqrt(length)
        height = r[at] - rho * u[at] - rho * (m * sliding)
        normal = max((height + m * length) / (1.0 + m * m), 0.0)
        share = min(m * normal / length, 1.0) if length > 0.0 else 1.0
        change = r[at] - max(height, normal)
        total += change * change
        for i in range(1, width):
            change = r[at + i] - share * (r[at + i] - rho * u[at + i])
            total += change * change
    for i in range(edge, len(r)):
        total += rho * rho * u[i] * u[i]
    total = math.sqrt(total)
    if not math.isfinite(total):
        return math.inf
    if size == 0.0:
        return 1.0 if total > 0.0 else 0.0
    for i in range(len(r)):
        square += r[i] * r[i]
    swallowed = swallows * math.sqrt(square) / (rho * size)
    return total / (rho * size) + (swallowed if swallowed > blurred else 0.0)


@inner
def _couples(W, width, contacts, begin, other):
    """Which units (contacts, and bilateral rows) W couples: those of unit i stand in `other` from begin[i] to begin[i + 1]."""
    units, edge = len(begin) - 1, contacts * width
    count = 0
    for i in range(units):
        begin[i] = count
        first = i * width if i < contacts else edge + i - contacts
        last = first + width if i < contacts else first + 1
        for j in range(units):
            start = j * width if j < contacts else edge + j - contacts
            end = start + width if j < contacts else start + 1
            if j == i or _any(W, first, last, start, end):
                other[count] = j
                count += 1
    begin[units] = count
    return count


@inner
def _any(W, first, last, start, end):
    for k in range(first, last):
        for j in range(start, end):
            if W[k, j] != 0.0:
                return True
    return False


@inner
def _blocks(r, u, at, mu, width, rho, proximal, lifts, blocks, wrongs):
    """Of the contact whose rows begin `at`: what multiplies its rows of W, what is added on the diagonal, and x − P(p). Whether it
    is open: P' = 0."""
    scale = mu if mu > 0.0 else 1.0
    head, rough = rho * (u[at] / scale), mu > 0.0
    sliding = length = 0.0
    for i in range(at + 1, at + width):
        sliding += u[i] * u[i]
        wrongs[i] = r[i] - rho * u[i]  # p for the time being
        length += wrongs[i] * wrongs[i]
    sliding, length = math.sqrt(sliding), math.sqrt(length)
    height = scale * r[at] - head - (rho * sliding if rough else 0.0)
    wrongs[at] = height
    inside = length <= height if rough else height > 0.0
    opens = length <= -height and not inside if rough else not inside
    share = 0.5 + 0.5 * height / length if rough and not inside and not opens else 0.0
    for i in range(width):
        for j in range(width):
            if inside or opens:
                lifts[at + i, j] = 1.0 if inside and i == j and (rough or i == 0) else 0.0
            elif i == 0 or j == 0:
                lifts[at + i, j] = 0.5 if i == j else 0.5 * (wrongs[at + i + j] / length)
            else:
                lifts[at + i, j] = (0.5 - share) * (wrongs[at + i] / length) * (wrongs[at + j] / length) + (
                    share if i == j else 0.0
                )
    for i in range(width):
        projected = 0.0
        for j in range(width):
            projected += lifts[at + i, j] * wrongs[at + j]
            blocks[at + i, j] = (1.0 + proximal if i == j else 0.0) - lifts[at + i, j]
        blocks[at + i, 0] *= scale
        lifts[at + i, width] = (scale * r[at] if i == 0 else r[at + i]) - projected
    for i in range(width):
        wrongs[at + i] = lifts[at + i, width]
        first = lifts[at + i, 0]
        for j in range(1, width):
            along = u[at + j] / sliding if rough and sliding > 0.0 else 0.0
            lifts[at + i, j] = rho * (lifts[at + i, j] + first * along)
        lifts[at + i, 0] = rho * first / scale
    return opens


@inner
def _solve(A, b):
    """b becomes A⁻¹b, by elimination with pivots, four columns at a time; False where one vanishes. What is zero is left out: units
    come in an order in which those that W couples are near each other."""
    n, k = len(b), 0
    while k < n:
        end = min(k + 4, n)
        for c in range(k, end):
            pivot, largest = c, abs(A[c, c])
            for i in range(c + 1, n):
                if abs(A[i, c]) > largest:
                    pivot, largest = i, abs(A[i, c])
            if not largest > 0.0:
                return False
            if pivot != c:
                for j in range(k, n):
                    A[c, j], A[pivot, j] = A[pivot, j], A[c, j]
                b[c], b[pivot] = b[pivot], b[c]
            inverse = 1.0 / A[c, c]
            for i in range(c + 1, n):
                factor = A[i, c] * inverse
                A[i, c] = factor
                for j in range(c + 1, end):
                    A[i, j] -= factor * A[c, j]
                b[i] -= factor * b[c]
        for c in range(k + 1, end):
            for above in range(k, c):
                factor = A[c, above]
                for j in range(end, n):
                    A[c, j] -= factor * A[above, j]
        if end < n:
            first, second, third, fourth = A[k], A[k + 1], A[k + 2], A[k + 3]
            last = n
            while last > end and first[last - 1] == 0.0 and second[last - 1] == 0.0:
                if third[last - 1] != 0.0 or fourth[last - 1] != 0.0:
                    break
                last -= 1
            for i in range(end, n):
                row = A[i]
                f1, f2, f3, f4 = row[k], row[k + 1], row[k + 2], row[k + 3]
                if f1 != 0.0 or f2 != 0.0 or f3 != 0.0 or f4 != 0.0:
                    for j in range(end, last):
                        row[j] -= f1 * first[j] + f2 * second[j] + f3 * third[j] + f4 * fourth[j]
        k = end
    for k in range(n - 1, -1, -1):
        value = b[k]
        for j in range(k + 1, n):
            value -= A[k, j] * b[j]
        b[k] = value / A[k, k]
    return True


@inner
def _connected(first, begin, other, waits, found):
    """The units that wait and that W connects with the first one; they wait no longer."""
    found[0], count, done = first, 1, 0
    waits[first] = 0
    while done < count:
        unit = found[done]
        done += 1
        for k in range(begin[unit], begin[unit + 1]):
            if waits[other[k]]:
                waits[other[k]] = 0
                found[count] = other[k]
                count += 1
    return count


@inner
def _rows_of(unit, width, contacts):
    """The first row of a unit, and how many it has."""
    return (unit * width, width) if unit < contacts else (contacts * width + unit - contacts, 1)


@inner
def _component(W, u, units, count, place, begin, other, pushed, lifts, blocks, wrongs, width, contacts, rho, proximal, change):
    """(F' + λ)⁻¹F for the rows of some units, into `change`; `pushed` is what W makes of the change of all that is open."""
    n = 0
    for one in range(count):
        place[units[one]] = n
        n += _rows_of(units[one], width, contacts)[1]
    A, b = np.zeros((n, n)), np.empty(n)
    for one in range(count):
        unit = units[one]
        at, (first, rows) = place[unit], _rows_of(unit, width, contacts)
        bilateral = unit >= contacts
        for k in range(begin[unit], begin[unit + 1]):
            column = place[other[k]]
            if column >= 0:
                start, columns = _rows_of(other[k], width, contacts)
                for i in range(rows):
                    for c in range(columns):
                        value = 0.0
                        for j in range(rows):
                            value += (rho if bilateral else lifts[first + i, j]) * W[first + j, start + c]
                        A[at + i, column + c] = value
        for i in range(rows):
            value = rho * u[first] if bilateral else wrongs[first + i]
            for j in range(rows):
                value -= (rho if bilateral else lifts[first + i, j]) * pushed[first + j]
                A[at + i, at + j] += proximal if bilateral else blocks[first + i, j]
            b[at + i] = value
    good = _solve(A, b)
    for one in range(count):
        first, rows = _rows_of(units[one], width, contacts)
        for i in range(rows):
            change[first + i] = b[place[units[one]] + i]
        place[units[one]] = -1
    return good


@inner
def _direction(W, mu, r, u, width, rho, proximal, begin, other, change):
    """(F' + λ)⁻¹F as a change of r, contacts that are open by themselves, the others as far as W connects them."""
    m, contacts = len(r), len(mu)
    units, edge = len(begin) - 1, contacts * width
    lifts, blocks, wrongs = np.empty((edge, width + 1)), np.empty((edge, width)), np.empty(edge)
    waits, pushed, nothing = np.ones(units, np.int64), np.zeros(m), np.zeros(m)
    pushes = False
    for i in range(m):
        change[i] = 0.0
    for c in range(contacts):
        at = c * width
        if not _blocks(r, u, at, mu[c], width, rho, proximal, lifts, blocks, wrongs):
            continue
        waits[c] = 0
        for i in range(width):
            if r[at + i] != 0.0:
                change[at + i], pushes = r[at + i] / (1.0 + proximal), True
    if pushes:
        _rates(W, nothing, change, pushed)
    found, place = np.empty(units, np.int64), np.full(units, -1)
    for unit in range(units):
        if waits[unit]:
            count = _connected(unit, begin, other, waits, found)
            if not _component(
                W, u, found, count, place, begin, other, pushed, lifts, blocks, wrongs, width, contacts, rho, proximal, change
            ):
                return False
    return True


@outer(
    f"Tuple(({LINE}, float64, int64))({TABLE}, {LINE}, {LINE}, int64, float64, float64, {LINE}, float64, int64, float64, int64, "
    "UniTuple(float64, 3))"
)
def steps_of_newton(W, q, mu, width, least_size, weight, start, proximal, patience, enough, most, limits):
    """`newton_from` of arrays: the best impulses met, their certificate, and the number of steps."""
    good, swallows, blurred = limits
    m, contacts = len(q), len(mu)
    edge, trace, stretched, square = contacts * width, 0.0, 0.0, 0.0
    for i in range(m):
        factor = mu[i // width] if i < edge and i % width == 0 and mu[i // width] > 0.0 else 1.0
        trace += W[i, i]
        stretched += W[i, i] / (factor * factor)
        square += q[i] * q[i]
    rho = m / trace if trace > 0.0 else 1.0
    size = max(math.sqrt(square), least_size)
    inner = weight * (m / max(stretched, 1e-300))
    r, u, change = start.copy(), np.empty(m), np.empty(m)
    _rates(W, q, r, u)
    best, least = start.copy(), _judged(r, u, mu, width, rho, size, swallows, blurred)
    if least <= good:
        return best, least, 0
    units = contacts + m - edge
    begin, other = np.empty(units + 1, np.int64), np.empty(units * units, np.int64)
    _couples(W, width, contacts, begin, other)
    step = since = 0
    while step < most:
        step += 1
        if not _direction(W, mu, r, u, width, inner, proximal, begin, other, change):
            break
        for i in range(m):
            r[i] -= change[i]
        _rates(W, q, r, u)
        residual = _judged(r, u, mu, width, rho, size, swallows, blurred)
        last = least <= enough and not residual < 0.5 * least
        if residual < least:
            for i in range(m):
                best[i] = r[i]
            least, since = residual, step
        if last or least <= good or not math.isfinite(residual) or step - since >= patience:
            break
    return best, least, step

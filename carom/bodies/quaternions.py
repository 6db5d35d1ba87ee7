"""Rotations of many bodies at once, as unit quaternions (w, x, y, z), and the free rotation of a rigid body.

All functions work on the last axis, so one body and a thousand are the same call.
"""

import numpy as np

from carom.calls import floats

IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])
AXES = np.eye(3)
TURN = 0.5  # the largest turn of the momentum, seen from the body, in one stretch of `rotate_freely`: its iteration then contracts
UNTURNED = 1e-15  # the same, up to which nothing turns but space
TINY = 1e-300
LONG = 40  # stretches, from which on the motion is computed by its closed form, whose cost does not grow with the turn,
EDGE = 1e-6  # unless it is as near as that to turning over about its middle axis: there the closed form loses digits
ALIKE = 1e-14  # relative: two moments that differ by less are equal
SWEEPS = 60  # halvings enough for double precision: a stretch contracts by TURN / 2 or better


def _left() -> np.ndarray:
    """[4, 16]: a → the matrix [4, 4] that multiplies by a from the left."""
    table = np.zeros((4, 4, 4))
    for row, parts in enumerate(((0, -1, -2, -3), (1, 0, -3, 2), (2, 3, 0, -1), (3, -2, 1, 0))):
        for column, part in enumerate(parts):
            table[abs(part), row, column] = -1.0 if part < 0 else 1.0
    return table.reshape(4, 16)


def _squares() -> np.ndarray:
    """[16, 9]: the products of two components of q → R − 1."""
    table = np.zeros((4, 4, 3, 3))
    for i, j, k in ((1, 2, 3), (2, 3, 1), (3, 1, 2)):
        table[j, j, i - 1, i - 1] = table[k, k, i - 1, i - 1] = -2.0
        table[i, j, i - 1, j - 1] = table[i, j, j - 1, i - 1] = table[0, k, j - 1, i - 1] = 2.0
        table[0, k, i - 1, j - 1] = -2.0
    return table.reshape(16, 9)


# Small arrays cost by the call, not by the number: what is a sum of many products is one product with a constant matrix. Its
# entries are 0, ±1 and ±2, so that what is zero or one stays so.
LEFT, SQUARES = _left(), _squares()
CROSS = np.array([[0, 0, 0, 0, 0, 1, 0, -1, 0], [0, 0, -1, 0, 0, 0, 1, 0, 0], [0, 1, 0, -1, 0, 0, 0, 0, 0]], float)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a × b; numpy's own is three times slower on small arrays."""
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    first = a1 * b2 - a2 * b1
    product = np.empty((*first.shape, 3))
    product[..., 0], product[..., 1], product[..., 2] = first, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0
    return product


def crossing(a: np.ndarray) -> np.ndarray:
    """[..., 3, 3]: the matrix with b @ matrix = a × b; its rows are a × e_k."""
    return a.reshape(-1, 3).dot(CROSS).reshape(*a.shape[:-1], 3, 3)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rotation b, then a."""
    return apply(a.reshape(-1, 4).dot(LEFT).reshape(*a.shape[:-1], 4, 4), b)


def exponential(angle: np.ndarray) -> np.ndarray:
    """The rotation about the axis of the vector `angle` by its length."""
    half = 0.5 * lengths(angle)[..., None]
    share = np.sin(half) / np.maximum(half, TINY)  # of no turn half an angle of no length is what it shall be
    return np.concatenate([np.cos(half), (0.5 * share) * angle], axis=-1)


def matrix(q: np.ndarray) -> np.ndarray:
    """The rotation matrix [..., 3, 3]: columns are the body's axes in space."""
    squares = (q[..., :, None] * q[..., None, :]).reshape(-1, 16)
    return AXES + squares.dot(SQUARES).reshape(*q.shape[:-1], 3, 3)


def apply(rotation: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """R x for matrices [..., 3, 3] and vectors [..., 3]."""
    return np.matmul(rotation, vector[..., None])[..., 0]


def lengths(x: np.ndarray) -> np.ndarray:
    """|x| along the last axis; numpy's own is four times slower on small arrays."""
    return np.sqrt(np.vecdot(x, x))


def normalise(q: np.ndarray) -> np.ndarray:
    return q / lengths(q)[..., None]


def turned(q: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Orientations q after a turn of space about the axes of the vectors `angle` by their lengths."""
    return normalise(multiply(exponential(angle), q))


Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def principal(inverse: np.ndarray) -> Parts:
    """What `rotate_freely` needs of I⁻¹ [n, 3, 3]: 1/c [n], A [n, 3, 3], the largest value of A, its trace and the product of those
    two of its values that are not zero [n]."""
    moments = np.linalg.eigvalsh(inverse)
    middle = moments[:, 1].copy()
    low, high = moments[:, 0] - middle, moments[:, 2] - middle
    return middle, inverse - middle[:, None, None] * np.eye(3), np.maximum(-low, high), low + high, low * high


def rotate_freely(q: np.ndarray, L: np.ndarray, inverse: np.ndarray, tau: float, parts: Parts | None = None) -> np.ndarray:
    """Orientations after a free rotation of length tau, with the angular momentum L [n, 3] of space kept.

    With the momentum Π = RᵀL seen from the body and 1/c, the middle value of I⁻¹, the energy ½ Π·I⁻¹Π is |Π|²/2c, whose motion is a
    rotation of space about L, and the rest ½ Π·AΠ with A = I⁻¹ − 1/c, whose motion turns Π about AΠ. The two commute. The second is

        s = A(Π₀ + Π₁)/2,   Π₁ = exp(−τ(1 + α)s) Π₀,   R₁ = exp((τ/c + β)L) R₀ exp(τ(1 + α)s)                              (1)

    A turn about s leaves Π₁ − Π₀ at right angles to it, so Π·AΠ and |Π| are kept, whatever α and β are: (1) keeps the energy and
    the momentum to rounding, and is its own inverse backwards. With α = β = 0 it is of order 2: it runs ahead on the way of Π by
    τ³(−|AΠ|² + tr A Π·AΠ − σ|Π|²/2)/6, with σ the product of the two values of A that are not zero, and turns about L by
    −τ³σ Π·AΠ/12 |L| too far. Of this |AΠ|² alone changes on the way, and s tells it, so what takes both back costs nothing:

        α = τ²(|s|² − tr A Π·AΠ + σ|Π|²/2)/6,     β = τ³σ Π·AΠ/12                                                           (2)

    Order 4 in tau, and exact for a body with two equal moments (σ = 0, and α with it). What turns too far for that in one step is
    left to `tumble`. `inverse` is I⁻¹ [n, 3, 3] in the body, `parts` what `principal` says of it, where it is known.
    """
    middle, A, spread, trace, product = principal(inverse) if parts is None else parts
    size = lengths(L)
    turn = abs(tau) * size * spread
    if np.all(turn <= UNTURNED):  # balls, and bodies at rest: (1) is a rotation of space
        return turned(q, tau * middle[:, None] * L)
    turn = np.where(np.abs(product) <= ALIKE * spread**2, 0.0, turn)  # two equal moments: (1) is exact
    if np.count_nonzero(far := turn > LONG * TURN) and len(q) > 1:  # what turns less than that goes as it would alone
        found = np.empty_like(q)
        for rows in (~far, *np.eye(len(q), dtype=bool)[far]):
            found[rows] = rotate_freely(q[rows], L[rows], inverse[rows], tau)
        return found
    if far.any() and (closed := tumble(q[0], L[0], inverse[0], tau)) is not None:
        return closed[None]
    stretches = max(1, int(np.ceil(np.max(turn, initial=0.0) / TURN)))
    step = tau / stretches
    energy = kept = 0.0
    for stretch in range(stretches):
        start = apply(np.swapaxes(matrix(q), -1, -2), L)
        if stretch == 0:
            energy = np.vecdot(start, apply(A, start))
            kept = 0.5 * product * size * size - trace * energy  # the part of α that does not change
        end, angle, last = start, start, np.inf
        for _ in range(SWEEPS):
            spin = apply(A, 0.5 * (start + end))
            angle = (step + step**3 / 6 * (np.vecdot(spin, spin) + kept))[:, None] * spin  # (2)
            new = apply(matrix(exponential(-angle)), start)
            change, end = np.max(np.abs(new - end)), new
            if change <= 1e-16 * np.max(size) or (change >= last and change <= 1e-14 * np.max(size)):  # rounding
                break
            last = change
        q = multiply(q, exponential(angle))
    return turned(q, (tau * middle + stretches * step**3 / 12 * product * energy)[:, None] * L)


def tumble(q: np.ndarray, L: np.ndarray, inverse: np.ndarray, tau: float) -> np.ndarray | None:
    """The orientation of one body after a free rotation of any length, in closed form; None near the EDGE.

    With a_i the values of I⁻¹ and Π the momentum seen from the body, along the axes d, m, c of these values: m has the middle one,
    and d is the one that Π goes round, the axis of the largest where (a₁ − a₂)Π₁² > (a₂ − a₃)Π₃², else that of the smallest.

        Π = (A dn u, B sn u, C cn u),   u = u₀ + pτ,   p² = (a_d − a_c)(a_d − a_m)A²,   k² = (a_m − a_c)C²/(a_d − a_m)A²         (3)

    d turns about L by the angle ∫ |L| ω·Π⊥/|Π⊥|² dτ with Π⊥ = (Π_m, Π_c), which is

        |L| (a_c τ + (a_m − a_c)β [F(u) − F(u₀)]/p),   F(u) = ∫ sn²/(1 + νsn²) du,   β = 1 + ν = (a_d − a_c)/(a_d − a_m)       (4)

    Momentum and energy are kept to rounding: Π lies on both of their surfaces.
    """
    from scipy.special import ellipj, ellipk, ellipkinc, elliprj

    values, axes = np.linalg.eigh(inverse)
    body, size = matrix(q).T @ L, float(np.linalg.norm(L))
    high = (values[2] - values[1]) * (axes[:, 2] @ body) ** 2 - (values[1] - values[0]) * (axes[:, 0] @ body) ** 2
    order = [2, 1, 0] if high > 0 or (high == 0 and values[2] - values[1] >= values[1] - values[0]) else [0, 1, 2]
    (ad, am, ac), axes = values[order], axes[:, order]
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    along, middle, across = body @ axes
    beta, nu = (ad - ac) / (ad - am), (am - ac) / (ad - am)
    C, A = np.hypot(across, middle / np.sqrt(beta)), np.copysign(np.sqrt(along**2 + middle**2 * nu / beta), along)
    B = np.copysign(np.sqrt(beta), (ad - ac) * A)  # in units of C
    square, p = min(nu * (C / max(abs(A), TINY)) ** 2, 1.0), np.sqrt((ad - ac) * (ad - am)) * abs(A)
    if square > 1 - EDGE:
        return None
    period = ellipk(square)  # a quarter of it

    def until(s: float, c: float, halves: float) -> float:
        part = lambda s, c: s**3 / 3 * elliprj(c * c, 1 - square * s * s, 1.0, 1 + nu * s * s)  # noqa: E731
        return 2 * halves * part(1.0, 0.0) + part(s, c)

    def frame(s: float, c: float, d: float) -> np.ndarray:
        """Columns: across Π beside d, the third, and Π itself."""
        round_, e = np.hypot(B * s, c), np.array([A * d, C * B * s, C * c]) / size
        beside = np.array([C * round_, -A * d * B * s / round_, -A * d * c / round_]) / size
        return axes @ np.column_stack([beside, cross(e, beside), e])

    s0, c0 = (middle / B, across) / C if C > 0 else (0.0, 1.0)
    halves0, u = np.round(np.arctan2(s0, c0) / np.pi), ellipkinc(np.arctan2(s0, c0), square) + p * tau
    halves = np.round(u / (2 * period))
    s, c, d, _ = ellipj(u - 2 * period * halves, square)
    sign0, sign = 1 - 2 * (halves0 % 2), 1 - 2 * (halves % 2)
    turned_by = size * (ac * tau + (am - ac) * beta * (until(s, c, halves) - until(sign0 * s0, sign0 * c0, halves0)) / p)
    change = frame(s0, c0, along / A) @ frame(sign * s, sign * c, d).T
    return turned(multiply(q, of_matrix(change)), turned_by * L / size)


def from_user(orientation: object, dim: int) -> np.ndarray | None:
    """A quaternion from what a person writes: an angle, a quaternion, a rotation matrix; None if it is none of them, or if it turns
    a body out of the plane in which it lives."""
    try:
        value = floats(IDENTITY if orientation is None else orientation)
    except (TypeError, ValueError):
        return None
    if not np.all(np.isfinite(value)):
        return None
    found = None
    if value.shape == () and dim == 2:
        found = exponential(np.array([0.0, 0.0, float(value)]))
    elif value.shape == (4,) and np.linalg.norm(value) > 0:
        found = normalise(value)
    elif value.shape == (3, 3) and np.allclose(value @ value.T, np.eye(3), atol=1e-9) and np.linalg.det(value) > 0:
        found = of_matrix(value)
    flat = found is None or dim == 3 or np.max(np.abs(found[1:3])) < 1e-9  # as good as the matrix is asked to be
    return found if flat else None


def of_matrix(R: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation matrix, from the largest of its four squares, so that nothing cancels."""
    squares = np.array([1 + np.trace(R), *(1 + 2 * np.diag(R) - np.trace(R))])
    k = int(np.argmax(squares))
    if k == 0:
        q = np.array([squares[0], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
        return normalise(q)
    i, j, m = k - 1, k % 3, (k + 1) % 3
    q = np.zeros(4)
    q[0], q[1 + i], q[1 + j], q[1 + m] = R[m, j] - R[j, m], squares[k], R[j, i] + R[i, j], R[m, i] + R[i, m]
    return normalise(q)

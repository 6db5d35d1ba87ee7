"""Plain loops for elastic bodies, as one would write them for numba: the limit that carom is measured against.

Both are written from the equations alone and share nothing with carom, so they also check it.
"""

import math

import numpy as np
from numba import njit


@njit
def _bar_step(q, p, force, mass, stiffness, rest, h):
    """Kick, drift, kick over h; `force` belongs to q before and after."""
    n = len(q)
    for i in range(n):
        p[i] += 0.5 * h * force[i]
        q[i] += h * p[i] / mass[i]
    previous = 0.0
    for i in range(n - 1):
        tension = stiffness[i] * (q[i + 1] - q[i] - rest[i])
        force[i] = tension - previous
        previous = tension
    force[n - 1] = -previous
    for i in range(n):
        p[i] += 0.5 * h * force[i]


@njit
def run_bars(q0, p0, mass, stiffness, rest, tip, dt, steps):
    """Two bars, `tip` the first node of the second: states after every step, and the number of impacts (momenta are reflected)."""
    n = len(q0)
    q, p, force = q0.copy(), p0.copy(), np.zeros(n)
    _bar_step(q, p, force, mass, stiffness, rest, 0.0)
    history, hits = np.empty((steps, 2 * n)), 0
    for step in range(steps):
        left = dt
        while True:
            # Over a leg of length τ the two ends move on parabolas: g + s τ + a τ²/2.
            g = q[tip] - q[tip - 1]
            s = p[tip] / mass[tip] - p[tip - 1] / mass[tip - 1]
            a = force[tip] / mass[tip] - force[tip - 1] / mass[tip - 1]
            if g + (s + 0.5 * a * left) * left >= 0:
                break
            root = -s + math.sqrt(max(s * s - 2 * a * g, 0.0))
            tau = min(2 * g / root if root > 0 else 0.0, left)
            _bar_step(q, p, force, mass, stiffness, rest, tau)
            q[tip] = q[tip - 1] = 0.5 * (q[tip] + q[tip - 1])
            rate = p[tip] / mass[tip] - p[tip - 1] / mass[tip - 1]
            impulse = -2 * rate / (1 / mass[tip] + 1 / mass[tip - 1])
            p[tip] += impulse
            p[tip - 1] -= impulse
            left -= tau
            hits += 1
        _bar_step(q, p, force, mass, stiffness, rest, left)
        for i in range(n):
            history[step, i] = q[i]
            history[step, n + i] = p[i]
    return history, hits


@njit
def leap_bars(q, p, lighter, stiffness, rest, tip, h, steps):
    """Two bars in flight with the momenta at half steps, nothing kept: as few passes over the nodes as there can be. The number of
    steps until the ends meet."""
    n = len(q)
    for step in range(steps):
        for i in range(n):
            q[i] += h * lighter[i] * p[i]
        p[0] += h * stiffness[0] * (q[1] - q[0] - rest[0])
        for i in range(1, n - 1):
            p[i] += h * (stiffness[i] * (q[i + 1] - q[i] - rest[i]) - stiffness[i - 1] * (q[i] - q[i - 1] - rest[i - 1]))
        p[n - 1] -= h * stiffness[n - 2] * (q[n - 1] - q[n - 2] - rest[n - 2])
        if q[tip] < q[tip - 1]:
            return step
    return steps


@njit(inline="always")
def _cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@njit(inline="always")
def _rotate(w, x, y, z, a, b, c):
    tx, ty, tz = _cross(x, y, z, a, b, c)
    ux, uy, uz = _cross(x, y, z, 2 * tx, 2 * ty, 2 * tz)
    return a + 2 * w * tx + ux, b + 2 * w * ty + uy, c + 2 * w * tz + uz


@njit(inline="always")
def _compose(a0, a1, a2, a3, b0, b1, b2, b3):
    return (
        a0 * b0 - a1 * b1 - a2 * b2 - a3 * b3,
        a0 * b1 + a1 * b0 + a2 * b3 - a3 * b2,
        a0 * b2 - a1 * b3 + a2 * b0 + a3 * b1,
        a0 * b3 + a1 * b2 - a2 * b1 + a3 * b0,
    )


@njit
def _beam_force(q, mass, stiffness, spacing, gravity, force):
    n = len(q)
    for i in range(n):
        w, x, y, z = q[i, 0], q[i, 1], q[i, 2], q[i, 3]
        force[i, 0] = force[i, 1] = force[i, 2] = 0.0
        down = _rotate(w, -x, -y, -z, 0.0, 0.0, -gravity * mass[i, 3])
        force[i, 3], force[i, 4], force[i, 5] = down
    for i in range(n - 1):
        w, x, y, z = q[i, 0], q[i, 1], q[i, 2], q[i, 3]
        r0, r1, r2, r3 = _compose(w, -x, -y, -z, q[i + 1, 0], q[i + 1, 1], q[i + 1, 2], q[i + 1, 3])
        sx, sy, sz = _rotate(w, -x, -y, -z, q[i + 1, 4] - q[i, 4], q[i + 1, 5] - q[i, 5], q[i + 1, 6] - q[i, 6])
        ox, oy, oz = 2 * r1 / r0, 2 * r2 / r0, 2 * r3 / r0
        cx, cy, cz = _cross(ox, oy, oz, sx, sy, sz)
        gx, gy, gz = sx - 0.5 * cx, sy - 0.5 * cy, sz - 0.5 * cz
        ax, ay, az = stiffness[0] * ox / spacing, stiffness[1] * oy / spacing, stiffness[2] * oz / spacing
        bx, by, bz = stiffness[3] * gx / spacing, stiffness[4] * gy / spacing, stiffness[5] * (gz / spacing - 1)
        cx, cy, cz = _cross(ox, oy, oz, bx, by, bz)
        nx, ny, nz = bx + 0.5 * cx, by + 0.5 * cy, bz + 0.5 * cz
        cx, cy, cz = _cross(ox, oy, oz, ax, ay, az)
        along = 0.25 * (ox * ax + oy * ay + oz * az)
        dx, dy, dz = _cross(gx, gy, gz, nx, ny, nz)
        mx, my, mz = ax + 0.5 * (cx + dx) + along * ox, ay + 0.5 * (cy + dy) + along * oy, az + 0.5 * (cz + dz) + along * oz
        force[i, 0] += mx
        force[i, 1] += my
        force[i, 2] += mz
        force[i, 3] += nx
        force[i, 4] += ny
        force[i, 5] += nz
        cx, cy, cz = _cross(nx, ny, nz, sx, sy, sz)
        mx, my, mz = _rotate(r0, -r1, -r2, -r3, mx + cx, my + cy, mz + cz)
        nx, ny, nz = _rotate(r0, -r1, -r2, -r3, nx, ny, nz)
        force[i + 1, 0] -= mx
        force[i + 1, 1] -= my
        force[i + 1, 2] -= mz
        force[i + 1, 3] -= nx
        force[i + 1, 4] -= ny
        force[i + 1, 5] -= nz


@njit
def _beam_drift(q, p, mass, h, i):
    """One node: Newton for ω, with the velocity eliminated, then the new configuration and momentum."""
    mx, my, mz, nx, ny, nz = p[i, 0], p[i, 1], p[i, 2], p[i, 3], p[i, 4], p[i, 5]
    jx, jy, jz, m = mass[i, 0], mass[i, 1], mass[i, 2], mass[i, 3]
    ox, oy, oz = mx / jx, my / jy, mz / jz
    c, d = 0.5 * h, 0.25 * h * h
    for _ in range(20):
        lx, ly, lz = jx * ox, jy * oy, jz * oz
        e = d * (ox * lx + oy * ly + oz * lz)
        hx, hy, hz = c * ox, c * oy, c * oz
        tx, ty, tz = _cross(hx, hy, hz, nx, ny, nz)
        s = hx * nx + hy * ny + hz * nz
        f = 1 / (m * (1 + hx * hx + hy * hy + hz * hz))
        gx, gy, gz = f * (nx - tx + s * hx), f * (ny - ty + s * hy), f * (nz - tz + s * hz)
        ux, uy, uz = _cross(ox, oy, oz, lx, ly, lz)
        vx, vy, vz = _cross(gx, gy, gz, nx, ny, nz)
        rx = lx + c * (ux + vx) + e * ox - mx
        ry = ly + c * (uy + vy) + e * oy - my
        rz = lz + c * (uz + vz) + e * oz - mz
        k = d * (nx * gx + ny * gy + nz * gz) + e
        a00 = jx + k + 2 * d * ox * lx - d * gx * nx
        a10 = c * (oz * jx - lz) + 2 * d * oy * lx - d * gy * nx
        a20 = c * (ly - oy * jx) + 2 * d * oz * lx - d * gz * nx
        a01 = c * (lz - oz * jy) + 2 * d * ox * ly - d * gx * ny
        a11 = jy + k + 2 * d * oy * ly - d * gy * ny
        a21 = c * (ox * jy - lx) + 2 * d * oz * ly - d * gz * ny
        a02 = c * (oy * jz - ly) + 2 * d * ox * lz - d * gx * nz
        a12 = c * (lx - ox * jz) + 2 * d * oy * lz - d * gy * nz
        a22 = jz + k + 2 * d * oz * lz - d * gz * nz
        bx, by, bz = _cross(a01, a11, a21, a02, a12, a22)
        inverse = 1 / (a00 * bx + a10 * by + a20 * bz)
        ex, ey, ez = _cross(a02, a12, a22, a00, a10, a20)
        wx, wy, wz = _cross(a00, a10, a20, a01, a11, a21)
        dx, dy, dz = (bx * rx + by * ry + bz * rz), (ex * rx + ey * ry + ez * rz), (wx * rx + wy * ry + wz * rz)
        ox, oy, oz = ox - dx * inverse, oy - dy * inverse, oz - dz * inverse
        if (abs(dx) + abs(dy) + abs(dz)) * abs(inverse) <= 1e-15 * (abs(ox) + abs(oy) + abs(oz)):
            break
    hx, hy, hz = c * ox, c * oy, c * oz
    size = 1 + hx * hx + hy * hy + hz * hz
    tx, ty, tz = _cross(hx, hy, hz, nx, ny, nz)
    s = hx * nx + hy * ny + hz * nz
    f = h / (m * size)
    gx, gy, gz = f * (nx - tx + s * hx), f * (ny - ty + s * hy), f * (nz - tz + s * hz)
    tx, ty, tz = _cross(hx, hy, hz, gx, gy, gz)
    s = hx * gx + hy * gy + hz * gz
    sx, sy, sz = (gx + tx + s * hx) / size, (gy + ty + s * hy) / size, (gz + tz + s * hz) / size
    r0 = 1 / math.sqrt(size)
    r1, r2, r3 = hx * r0, hy * r0, hz * r0
    dx, dy, dz = _rotate(q[i, 0], q[i, 1], q[i, 2], q[i, 3], sx, sy, sz)
    a0, a1, a2, a3 = _compose(q[i, 0], q[i, 1], q[i, 2], q[i, 3], r0, r1, r2, r3)
    unit = 1.5 - 0.5 * (a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3)
    q[i, 0], q[i, 1], q[i, 2], q[i, 3] = a0 * unit, a1 * unit, a2 * unit, a3 * unit
    q[i, 4] += dx
    q[i, 5] += dy
    q[i, 6] += dz
    cx, cy, cz = _cross(nx, ny, nz, sx, sy, sz)
    p[i, 0], p[i, 1], p[i, 2] = _rotate(r0, -r1, -r2, -r3, mx + cx, my + cy, mz + cz)
    p[i, 3], p[i, 4], p[i, 5] = _rotate(r0, -r1, -r2, -r3, nx, ny, nz)


@njit
def run_beam(q0, p0, mass, stiffness, spacing, gravity, dt, steps):
    """A beam in the air: states after every step, and the lowest node that was seen (below zero it would have struck the plane)."""
    n = len(q0)
    q, p, force = q0.copy(), p0.copy(), np.empty((n, 6))
    history, lowest = np.empty((steps, 13 * n)), np.inf
    _beam_force(q, mass, stiffness, spacing, gravity, force)
    for step in range(steps):
        for i in range(n):
            for k in range(6):
                p[i, k] += 0.5 * dt * force[i, k]
            _beam_drift(q, p, mass, dt, i)
            lowest = min(lowest, q[i, 6])
        _beam_force(q, mass, stiffness, spacing, gravity, force)
        for i in range(n):
            for k in range(6):
                p[i, k] += 0.5 * dt * force[i, k]
        history[step, : 7 * n] = q.ravel()
        history[step, 7 * n :] = p.ravel()
    return history, lowest

"""Meshes from files: STL (text or binary) and OBJ, as points and triangles."""

from pathlib import Path

import numpy as np

from carom.calls import public
from carom.errors import InputError
from carom.results.places import file_path


@public
def read_mesh(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Points [k, 3] and triangles [m, 3] of a mesh file; corners of triangles that coincide become one point."""
    path = file_path(path, "part.stl", there=True)
    if not path.is_file():
        raise InputError(f"there is no mesh file {str(path)!r}")
    suffix = path.suffix.lower()
    if suffix == ".stl":
        corners = _stl(path.read_bytes(), path)
        _refuse_wild(corners, path)
        points, index = np.unique(corners, axis=0, return_inverse=True)
        return points, index.reshape(-1, 3)
    if suffix == ".obj":
        return _obj(path.read_text("utf-8", errors="replace"), path)
    raise InputError(f"a mesh file ends in .stl or .obj; got {str(path)!r}")


def refuse_open(points: np.ndarray, triangles: np.ndarray, path: str | Path) -> None:
    """A surface has no inside where sides belong to one triangle only and the areas of all, as vectors, do not sum up to zero. One
    of both alone may come from sides that are cut into pieces, or from triangles that are not turned alike."""
    places = np.unique(np.round(points / (1e-6 * np.ptp(points, axis=0).max())), axis=0, return_inverse=True)[1].ravel()
    corners = places[triangles]
    sides = np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]), axis=1)
    alone = int(np.sum(np.unique(sides, axis=0, return_counts=True)[1] == 1))
    p, q, r = np.moveaxis(points[triangles], 1, 0)
    areas = 0.5 * np.cross(q - p, r - p)
    if alone and np.linalg.norm(areas.sum(axis=0)) > 1e-6 * np.sum(np.linalg.norm(areas, axis=1)):  # single precision of a file
        raise InputError(
            f"the mesh in {str(path)!r} is open: {alone} sides belong to one triangle only. Close it, or pass its points if you "
            "want their hull: ConvexPolyhedron(carom.shapes.read_mesh(path)[0])"
        )


def _stl(data: bytes, path: Path) -> np.ndarray:
    """The corners of the triangles, three in a row. A binary file has 80 bytes, a count, and 50 bytes per triangle."""
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:
        record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("extra", "<u2")])
        return np.frombuffer(data, record, offset=84)["corners"].reshape(-1, 3).astype(float)
    lines = [line.split() for line in data.decode(errors="replace").splitlines()]
    try:
        corners = np.array([[float(x) for x in words[1:4]] for words in lines if words[:1] == ["vertex"]])
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not an STL file: {error}") from error
    if corners.size == 0 or len(corners) % 3 or corners.shape[1] != 3:
        raise InputError(f"{str(path)!r} is not an STL file, neither binary nor text: it has {len(corners)} vertex lines")
    return corners


def _obj(text: str, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Lines `v x y z` and `f a b c …`; a face with more corners is cut into triangles from its first one."""
    points, triangles = [], []
    try:
        for line in text.splitlines():
            words = line.split()
            if words[:1] == ["v"]:
                x, y, z = map(float, words[1:4])
                points.append([x, y, z])
            elif words[:1] == ["f"]:
                named = [int(word.split("/")[0]) for word in words[1:]]
                loop = [i - 1 if i > 0 else len(points) + i for i in named]
                triangles += [[loop[0], loop[k], loop[k + 1]] for k in range(1, len(loop) - 1)]
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not an OBJ file: {error}") from error
    if not points or not triangles or np.min(triangles) < 0 or np.max(triangles) >= len(points):
        raise InputError(f"{str(path)!r} has {len(points)} points and {len(triangles)} triangles that do not fit together")
    _refuse_wild(np.array(points), path)
    return np.array(points), np.array(triangles)


def _refuse_wild(points: np.ndarray, path: Path) -> None:
    wild = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if wild.size:
        raise InputError(f"a corner in {str(path)!r} is {points[wild[0]]}; all of them must be finite numbers")

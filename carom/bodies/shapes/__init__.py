"""What bodies look like: in space `Sphere`, `Box`, `Capsule`, `Cylinder`, `Ellipsoid`, `ConvexPolyhedron`, `HalfSpace`, `Plate`,
`TriangleMesh`, `HeightField`; in the plane `Disc`, `Polygon`, `Segment` and again `HalfSpace` (as `HalfPlane`).

Lengths are in the units of the world. A shape has its own frame; `shape.at(position, orientation)` places it in a body.
"""

from carom.bodies.shapes.fixed import HalfPlane, HalfSpace, HeightField, Plate, TriangleMesh
from carom.bodies.shapes.flat import Disc, Polygon, Segment
from carom.bodies.shapes.mesh_files import read_mesh
from carom.bodies.shapes.polyhedron import ConvexPolyhedron
from carom.bodies.shapes.round import Capsule, Cylinder, Ellipsoid, Sphere
from carom.bodies.shapes.shape import Placed, Shape
from carom.bodies.shapes.solid import Box

__all__ = [
    "Box",
    "Capsule",
    "ConvexPolyhedron",
    "Cylinder",
    "Disc",
    "Ellipsoid",
    "HalfPlane",
    "HalfSpace",
    "HeightField",
    "Placed",
    "Plate",
    "Polygon",
    "Segment",
    "Shape",
    "Sphere",
    "TriangleMesh",
    "read_mesh",
]

"""The film of a world: every shape is drawn where its body is."""

import json

import numpy as np

import carom
from carom.bodies import shapes
from carom.bodies.pictures import _turned, from_text
from carom.bodies.world import World

SOLIDS = [
    shapes.Sphere(0.2),
    shapes.Box(0.2, 0.3, 0.4),
    shapes.Capsule(0.1, 0.3),
    shapes.Cylinder(0.2, 0.3),
    shapes.Ellipsoid(0.1, 0.2, 0.3),
    shapes.ConvexPolyhedron([(0, 0, 0), (0.5, 0, 0), (0, 0.5, 0), (0, 0, 0.5)]),
]


def test_a_film_in_space_follows_the_bodies():
    world = World()
    world.fix([shapes.HalfSpace(offset=-9.0), shapes.Plate((1, 0, 0), 0.1).at((-9, 0, 0))])
    world.fix([shapes.HeightField(np.zeros((3, 3))).at((0, 0, -5)), shapes.Box(1, 1, 1).at((0, 0, -7))])
    bodies = [world.add(shape, density=1, position=(i, 0, 0), spin=(1, 2, 0)) for i, shape in enumerate(SOLIDS)]
    run = world.solve(1e-2, 5)
    made = world.film(run)
    assert made.dim == 3 and len(made.parts) == 4 + len(bodies) and len(made.t) == 6
    for k, (body, shape) in enumerate(zip(bodies, SOLIDS, strict=True)):
        far = np.linalg.norm(made.track(4 + k)[-1] - run.body(body).position[-1], axis=1)
        assert 0.9 * shape.reach < far.max() <= shape.reach * (1 + 1e-12)
        assert made.parts[4 + k].triangles.max() < len(made.parts[4 + k].points) and not made.parts[4 + k].fixed
    assert made.parts[0].fixed


def test_a_film_in_the_plane():
    world = World(gravity=(0, -1))
    world.fix(shapes.HalfPlane(offset=-5.0))
    for i, shape in enumerate([shapes.Disc(0.3), shapes.Polygon.box(0.2, 0.4), shapes.Segment((-0.2, 0), (0.2, 0), 0.1)]):
        world.add(shape, density=1, position=(i, 0), spin=1.0)
    made = world.solve(1e-2, 3).film
    assert made.dim == 2 and [part.kind for part in made.parts] == ["wall", "line", "line", "line"]
    assert np.allclose(made.part(0, 2)[0], made.part(0, 2)[-1])


def test_the_mesh_of_a_cylinder_is_closed():
    """Its area is that of a cylinder with lids, 2πr(r + l), but for the corners of its polygons."""
    points, _, triangles = _turned(shapes.Cylinder(1.0, 1.0), 24)
    corner = points[triangles]
    area = 0.5 * np.sum(np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1))
    assert 0.97 * 4 * np.pi < area < 4 * np.pi  # without lids 2π


def test_strings_are_seen_in_a_run_and_in_a_run_from_a_file(tmp_path):
    """Lines as long as the string, from the beam to the ball. Files of earlier versions know shapes alone."""
    model = carom.models.newtons_cradle(balls=2)
    run = model.solve(num_steps=40)
    run.save(tmp_path / "run.zarr")
    kept = carom.load(tmp_path / "run.zarr")
    lengths = [float(np.linalg.norm(np.subtract(*joint.at))) for joint in model.world.joints]
    for one in (run, kept):
        reel = one.film
        tracks = [reel.track(i) for i, part in enumerate(reel.parts) if part.kind == "line"]
        assert len(tracks) == len(lengths) == len(one.strings) > 0
        for track, length in zip(tracks, lengths, strict=True):
            found = np.linalg.norm(np.diff(track, axis=1)[:, 0], axis=1)
            assert np.allclose(found, length, rtol=1e-6)  # what a distance drifts by in 40 steps
        ways = [np.ptp(track, axis=0).max(axis=1) for track in tracks]  # the upper end stays, a lifted ball falls
        assert all(hung == 0.0 for _, hung in ways) and max(ball for ball, _ in ways) > 0.01 * lengths[0]
    shapes, strings = from_text(json.dumps([part.told() for part in run.outlines]))
    assert len(shapes) == len(run.outlines) and strings == ()

"""Things with shapes: bodies that collide, slide, roll, stack and rest, in the plane and in space.

- `shapes`: what a body looks like, and its volume, centre and inertia.
- `detection`: where bodies touch or soon may: points, normals, gaps, with names that last from step to step.
- `world`: what a person writes; `stepping`: how time advances; `run`: what came out.
"""

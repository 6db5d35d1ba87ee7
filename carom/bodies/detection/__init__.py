"""Where bodies touch, or may touch before the step is over.

geometry     the convex pieces of all bodies, in arrays of equal kind, and their place in space
broad        which pairs of pieces come near each other: a sweep along one axis
separation   the axis that separates two polytopes most, or the one along which they overlap least
nearest      the nearest points of two polytopes that are apart
manifold     the points in which two polytopes meet: a face clipped against a face, or one point
exposed      which of them are on the surface of a body of several pieces, not between the pieces
within       the balls inside bodies, which stop what comes far in a step
walls        half-spaces and plates against everything
support      shapes known by their support functions (cylinder, ellipsoid) against everything
detect       all of it: `Contacts`
"""

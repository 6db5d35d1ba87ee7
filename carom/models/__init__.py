"""Ready-made systems: every example of the papers, with its exact answers where they are known."""

from carom.models.bodies import ellipse, polygon, star
from carom.models.model import Model
from carom.models.particles import particle

__all__ = ["Model", "ellipse", "particle", "polygon", "star"]

"""What a run shows: conserved quantities and orders, Lyapunov exponents, periodic orbits, sections, bifurcation diagrams."""

from carom.diagnostics.bifurcations import Diagram as Diagram
from carom.diagnostics.bifurcations import bifurcation as bifurcation
from carom.diagnostics.action import ActionGradient as ActionGradient
from carom.diagnostics.action import action_gradient as action_gradient
from carom.diagnostics.chaos import Exponents as Exponents
from carom.diagnostics.chaos import lyapunov as lyapunov
from carom.diagnostics.forms import extended_symplectic_defect as extended_symplectic_defect
from carom.diagnostics.measures import constraint_residual as constraint_residual
from carom.diagnostics.measures import discrete_energy as discrete_energy
from carom.diagnostics.measures import energy as energy
from carom.diagnostics.measures import gaps as gaps
from carom.diagnostics.measures import measured_order as measured_order
from carom.diagnostics.measures import momentum_in_space as momentum_in_space
from carom.diagnostics.measures import momentum_map as momentum_map
from carom.diagnostics.measures import nonholonomic_momentum as nonholonomic_momentum
from carom.diagnostics.measures import penetration as penetration
from carom.diagnostics.measures import reversibility_error as reversibility_error
from carom.diagnostics.measures import step_jacobian as step_jacobian
from carom.diagnostics.measures import symplectic_defect as symplectic_defect
from carom.diagnostics.periodic import Orbit as Orbit
from carom.diagnostics.periodic import periodic_orbit as periodic_orbit
from carom.diagnostics.sections import poincare as poincare

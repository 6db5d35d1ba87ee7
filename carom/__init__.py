"""carom: mechanical systems with collisions, simulated so that what mechanics conserves stays conserved."""
import jax
jax.config.update("jax_enable_x64", True)

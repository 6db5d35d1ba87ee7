"""How time advances."""

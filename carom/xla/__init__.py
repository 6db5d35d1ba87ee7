"""What the compiler is told."""

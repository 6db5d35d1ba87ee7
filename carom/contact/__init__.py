"""What touches: gaps, the laws of impact, and how an impact is located and resolved. Arrays in, arrays out."""

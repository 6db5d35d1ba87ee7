"""Which equations are solved: small linear systems, Newton, bracketed roots, cones. Arrays in, arrays out."""

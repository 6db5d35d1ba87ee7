"""Discrete Lagrangians, and impacts between their steps."""

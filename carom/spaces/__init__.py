"""Where a system lives."""

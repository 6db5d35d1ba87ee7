"""Speed, energy and compile time of carom and of other tools, side by side in one run: `python -m benchmarks`."""

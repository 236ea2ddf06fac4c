"""Scripts that make the shipped weights, reproducible."""

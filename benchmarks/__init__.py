"""Benchmarks: one file a question, each run as ``python -m benchmarks.NAME``; tables to the terminal, JSON to ``results/``."""

"""Texts without context: which language, sentences, numbers, units, dates, names, negation, and JSON. Pure functions, no state."""

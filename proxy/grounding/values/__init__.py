"""Numbers, units, dates, names and negations of two texts, compared as such."""

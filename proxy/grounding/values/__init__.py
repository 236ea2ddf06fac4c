"""Numbers, units, dates, names and negations of a claim beside those of its evidence, compared as such."""

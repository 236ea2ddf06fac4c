"""The pieces of the load benchmark: stub upstream, load generator, systems, statistics, report."""

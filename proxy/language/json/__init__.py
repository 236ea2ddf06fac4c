"""JSON as models write it: read leniently, checked against schemas, mended where nothing is lost, its strings found in place."""

"""The stages: one file each, a thin shell over pure functions."""

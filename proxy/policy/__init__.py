"""A policy: its YAML made an ordered list of stages (`loading`), shadow mode (`shadow`), and how precise its actions are (`precision`)."""

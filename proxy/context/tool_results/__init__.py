"""What an agent's tools were called with, and what their results say: calls with results, failures, exit codes, names. Pure."""

"""What an operator sees of exchanges that are over: records (`recording`), log lines (`logs`, `finished`), metrics and traces."""

"""What a client key may take, and what it has taken: limits over all processes, and spending by key, team, model and day."""

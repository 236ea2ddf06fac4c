"""What an answer says: its claims, which of them can be checked, and what is left of it when some are taken out."""

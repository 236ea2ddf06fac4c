"""The question that the proxy puts to the user about a clash, and the reply."""

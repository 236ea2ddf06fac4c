"""OpenAI's Responses: bodies (`api`, `items`, `output`), streams (`stream`), and the calls of the proxy's own tools (`own_calls`)."""

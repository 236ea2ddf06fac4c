"""OpenAI's Responses: bodies (`dialect`, `items`, `output`), streams (`stream`), and the calls of the proxy's own tools (`own_tools`)."""

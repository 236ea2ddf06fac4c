"""OpenAI's chat completions: bodies (`completions`), streams (`stream`), messages, and the calls of the proxy's own tools."""

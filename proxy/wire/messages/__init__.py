"""Anthropic's Messages: bodies (`requests`, `prompts`, `answers`), streams (`stream`), and the calls of the proxy's own tools."""

"""Groundwire: an OpenAI-compatible proxy with a policy for every request's context and answer."""

__version__ = "0.1.0"

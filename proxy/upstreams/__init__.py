"""Upstreams: where requests go. One protocol (`proxy.ports.upstream`), three kinds.

`openai` speaks to any OpenAI-compatible server byte for byte; `litellm` translates for every other provider; `embedded` runs a small model
beside this process. `resilience` wraps them with retries, fallbacks and a concurrency cap.
"""

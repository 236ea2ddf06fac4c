"""Why an answer ends, in chat's words, whatever its server calls it: one table for all APIs.

``stop``, ``length``, ``tool_calls`` and ``content_filter`` have many spellings (vLLM, TGI, Gemini, Mistral, Cohere, Bedrock, GLM, DeepSeek,
Ollama); an end that is not known is told as what it is, and never as a good one. ``""``, which Ollama and others send with each chunk,
is no end.
"""

from __future__ import annotations

from collections.abc import Mapping

_SPELLINGS: Mapping[str, str] = {
    "stop": "end end_turn eos eos_token complete completed finished stop_sequence stop_token finish_reason_stop",
    "length": "max_tokens max_new_tokens max_output_tokens max_length model_length model_context_window_exceeded"
    " context_length_exceeded error_limit token_limit",
    "tool_calls": "tool_call tool_use function_call function_calls",
    "content_filter": "blocklist content_filtered error_toxic filtered guardrail_intervened image_safety prohibited_content recitation"
    " refusal safety sensitive spii",
}
_KNOWN = {spelling: end for end, spellings in _SPELLINGS.items() for spelling in (end, *spellings.split())}
GOOD = frozenset(("stop", "tool_calls"))
"""Ends of an answer that is whole."""


def end_of(reason: object) -> str | None:
    """The end that a ``finish_reason`` or ``stop_reason`` tells; None where it tells none. 0.2 µs."""
    if not isinstance(reason, str) or not reason or reason.isspace():
        return None
    return _KNOWN.get(reason) or _KNOWN.get(reason.lower().removeprefix("finish_reason_"), reason)

"""Keys of a request that servers read differently: one that stands twice in an object, and another spelling of one that an API knows.

RFC 8259 section 4 leaves open which of two equal keys counts. Servers written in Go take ``"Messages"`` and ``"meſsages"`` for ``messages``
(``encoding/json`` folds case): beside the real one, they are asked another conversation than the one that was looked at.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

from proxy.errors import InvalidRequest

_NAMES = """
    model messages tools tool_choice functions function_call stream stream_options temperature top_p top_k n max_tokens
    max_completion_tokens
    stop presence_penalty frequency_penalty logit_bias logprobs top_logprobs response_format seed user metadata parallel_tool_calls
    reasoning_effort modalities audio prediction service_tier store verbosity web_search_options prompt_cache_key safety_identifier
    system stop_sequences thinking container mcp_servers context_management output_config output_format
    input instructions previous_response_id conversation prompt include text reasoning truncation background max_output_tokens
    max_tool_calls
    role content name tool_calls tool_call_id refusal reasoning_content type id status call_id output arguments summary encrypted_content
    source title context citations cache_control is_error tool_use_id image_url input_audio file file_id file_data file_url filename
    signature data function custom description parameters input_schema strict transcript url groundwire
"""
_KNOWN = frozenset(_NAMES.split())
"""What the three APIs call the fields of a request, its messages or items, their parts, and its tools."""
_FOLDED = frozenset(key.casefold() for key in _KNOWN)
_OWN = "input arguments parameters input_schema schema action metadata groundwire logit_bias response_format json"
_DATA = frozenset(_OWN.split())
"""Fields of an item, part or tool below which keys are the client's own."""


def check_keys(body: bytes, carries: str) -> None:
    """Raises `InvalidRequest` with the key's name. `body` has been parsed before; `carries` is the field that the conversation stands in.
    Milliseconds for a megabyte.
    """
    fields = json.loads(body, object_pairs_hook=_unique)
    for key in fields:
        _check(key)
    for name in (carries, "system", "tools", "functions"):
        for key in _keys(fields.get(name)):
            _check(key)


def _keys(value: Any) -> Iterator[str]:
    """Of all objects below `value`, but for those that are the client's own."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one.__class__ is list:
            waiting += one
        elif one.__class__ is dict:
            yield from one
            waiting += [below for key, below in one.items() if key not in _DATA and below.__class__ in (list, dict)]


def _check(key: str) -> None:
    if key not in _KNOWN and (meant := unicodedata.normalize("NFKC", key).casefold()) in _FOLDED:
        raise InvalidRequest(f"the key {key[:80]!r}: write {meant!r}, which some servers take it for", param=key[:80])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidRequest(f"the key {twice[:80]!r} stands twice in one object: which of them counts is not defined", param=twice[:80])
    return found

"""What the bodies of every dialect have in common: a JSON object within bounds, typed fields, Groundwire's own extension.

In: a client's bytes. Out: its fields, or an `InvalidRequest` that names the field. The extension is ``groundwire`` at the top of the body
(``context``, retrieved passages) and in a message (``timestamp``, ``source``), the same in every API.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from gc import is_tracked
from itertools import chain
from typing import Any

import msgspec
import orjson

from proxy.errors import InvalidRequest
from proxy.exchange import Evidence
from proxy.language.dates import seconds_of
from proxy.offloop import LARGE

EXTENSION = "groundwire"
_DEPTH = 254
_COUNTED_BYTES = 2**18
"""Looked at in one go: a count may be over after a few bytes, and the rest of the piece is then copied in vain."""
raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""An object's fields, each in its own bytes."""
raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""A list's items, each in its own bytes."""
_NUMBERS = frozenset((int, float))
_MAX_MODEL_CHARS = 512
"""No provider's names are as long, and many parts of a process remember something by the name."""


def load(body: bytes, integers: Callable[[bytes], Any] = orjson.loads) -> dict[str, Any]:
    """A body's fields, as `integers` reads them. Raises `InvalidRequest`: not JSON, not an object, or nested too deep."""
    try:
        fields = integers(body)
    except ValueError as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidRequest(f"the body must be a JSON object, not {kind_of(fields)}")
    if len(body) > 2 * _DEPTH and _is_deep(fields):  # orjson reads 1,024 levels and writes 254
        raise InvalidRequest(f"the body is nested more than {_DEPTH} levels deep")
    return fields


def reading(body: bytes) -> int:
    """How much it is to parse a body, as `proxy.offloop.aside` counts: texts take a nanosecond or two a byte, each object half a
    microsecond, in Messages two. 200 KB of an agent's conversation are a third of a millisecond; 200 KB of empty objects are seven.
    """
    size = len(body)
    return size if size < LARGE // 10 else size // 24 + 6 * count_up_to(body, b"{", LARGE // 6 + 1)


def count_up_to(body: bytes, mark: bytes, most: int) -> int:
    """How often `mark`, one byte, stands in it, if that is less often than `most`.

    They are taken out and the lengths compared: of 204 KB with 200 of them that takes 6 to 12 µs, and `bytes.count`, which looks at each
    byte, 50 to 100.
    """
    if len(body) <= _COUNTED_BYTES:
        return len(body) - len(body.replace(mark, b"", most))
    found = 0
    for start in range(0, len(body), _COUNTED_BYTES):
        if found >= most:
            break
        found += count_up_to(body[start : start + _COUNTED_BYTES], mark, most - found)
    return found


def _is_deep(fields: dict[str, Any]) -> bool:
    """Whether more than `_DEPTH` objects and lists stand in each other, level by level.

    What the garbage collector need not follow has no container in it: texts, numbers and, with CPython up to 3.13, objects of those alone,
    as most messages are. Of an agent's 200 KB that takes half the time of a look at each value.
    """
    objects, lists = [fields], list[list[Any]]()
    for _ in range(_DEPTH - 1):
        inside = list(filter(is_tracked, chain(*map(dict.values, objects), *lists)))
        if not inside:
            return False
        objects, lists = [value for value in inside if type(value) is dict], [value for value in inside if type(value) is list]
    return any(type(value) in (dict, list) for value in chain(*map(dict.values, objects), *lists))


def read_typed(fields: dict[str, Any], name: str, kind: type, expected: str) -> Any:
    """The field `name`. Raises `InvalidRequest` when it is not of this `kind`."""
    value = fields.get(name)
    if not isinstance(value, kind):
        raise InvalidRequest(f"{name}: expected {expected}, got {kind_of(value) if name in fields else 'nothing'}", param=name)
    return value


def model_of(fields: dict[str, Any]) -> str:
    """The field ``model``. Raises `InvalidRequest`."""
    model: str = read_typed(fields, "model", str, "a string")
    if not model:
        raise InvalidRequest("you must provide a model", param="model")
    return check_model(model)


def check_model(name: str) -> str:
    """The model's name. Raises `InvalidRequest` where it is too long to be one."""
    if len(name) > _MAX_MODEL_CHARS:
        raise InvalidRequest(f"model: at most {_MAX_MODEL_CHARS} characters", param="model")
    return name


def messages_of(fields: dict[str, Any]) -> list[Any]:
    """The field ``messages``. Raises `InvalidRequest`."""
    messages: list[Any] = read_typed(fields, "messages", list, "a list of messages")
    if not messages:
        raise InvalidRequest("messages: at least one message is needed", param="messages")
    return messages


def unexpected(at: str, expected: str, value: object) -> InvalidRequest:
    """For what stands at `at` in place of what is expected there."""
    return InvalidRequest(f"{at}: expected {expected}, got {kind_of(value)}", param=at)


def object_at(value: object, at: str) -> dict[str, Any]:
    """What stands at `at`. Raises `InvalidRequest` when it is no object."""
    if not isinstance(value, dict):
        raise unexpected(at, "an object", value)
    return value


def string_at(value: object, at: str) -> str:
    """What stands at `at`. Raises `InvalidRequest` when it is no string."""
    if not isinstance(value, str):
        raise unexpected(at, "a string", value)
    return value


def objects_at(value: object, at: str, expected: str = "a list") -> list[dict[str, Any]]:
    """A list of objects, which may be missing. Raises `InvalidRequest`."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise unexpected(at, expected, value)
    return [object_at(item, f"{at}[{i}]") for i, item in enumerate(value)]


def hint_of(message: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    """The extension of a message that has one. Raises `InvalidRequest`."""
    hint = message[EXTENSION]
    if not isinstance(hint, dict):
        raise InvalidRequest(f"{at}.{EXTENSION}: expected an object", param=f"{at}.{EXTENSION}")
    return hint


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """The field `name`; missing or null is false. Raises `InvalidRequest` when it is anything else than true or false."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"{name}: expected true or false", param=name)
    return value is True


def object_in(data: bytes) -> dict[str, Any] | None:
    """The object that is this JSON; None for what is none."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def typed_object_in(data: bytes) -> dict[str, Any] | None:
    """The object that is this JSON, where its ``type`` is a string: an event of Messages or Responses; None for anything else."""
    found = object_in(data)
    return found if found is not None and isinstance(found.get("type"), str) else None


def object_of(value: object) -> dict[str, Any]:
    """An object's fields; none where it is something else."""
    if type(value) is dict:
        return value
    return dict(value) if isinstance(value, Mapping) else {}


def entries_of(value: object) -> list[Any]:
    """A list's items; none where it is something else."""
    return value if isinstance(value, list) else []


def objects_of(value: object) -> list[dict[str, Any]]:
    """The objects of a list; none for what is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def is_number(value: object) -> bool:
    """Whether it is a JSON number."""
    return type(value) in _NUMBERS  # which a boolean is not among


def present(**fields: Any) -> dict[str, Any]:
    """Those of the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def as_raw(value: object) -> msgspec.Raw:
    """A value as the bytes of its JSON; what is `msgspec.Raw` in it stays as it is."""
    return msgspec.Raw(msgspec.json.encode(value))


def encode_raw(value: object) -> msgspec.Raw:
    """A value that has nothing raw in it as the bytes of its JSON."""
    return msgspec.Raw(orjson.dumps(value))


def splice(raw: msgspec.Raw, old: Sequence[object], new: Sequence[Any], write: Callable[[Any], object] = lambda item: item) -> msgspec.Raw:
    """`new` as a JSON array: an item that is one of `old`, which `raw` says, in its own bytes; another as `write` makes it."""
    bytes_of = {id(item): piece for item, piece in zip(old, raw_items(raw), strict=True)}
    return as_raw([bytes_of.get(id(item)) or encode_raw(write(item)) for item in new])


def check_extension(extension: object) -> None:
    """Raises `InvalidRequest` for a key of the body's ``groundwire`` that means nothing: passages under another name would be lost."""
    for key in object_of(extension):
        if key != "context":
            hint = "did you mean 'context'?" if get_close_matches(key, ("context",)) else "known: context"
            raise InvalidRequest(f"groundwire: unknown key {key[:80]!r}; {hint}", param=f"groundwire.{key[:80]}")


def passages_of(extension: object) -> tuple[Evidence, ...]:
    """``groundwire.context`` of a body. Raises `InvalidRequest`."""
    if extension is None:
        return ()
    context = extension.get("context", []) if isinstance(extension, dict) else None
    if not isinstance(context, list):
        raise InvalidRequest("groundwire.context: expected a list of {content, source?, score?, timestamp?, fields?}", param="groundwire")
    return tuple(_passage(item, i) for i, item in enumerate(context))


def _passage(item: object, i: int) -> Evidence:
    where = f"groundwire.context[{i}]"
    if not isinstance(item, dict) or not isinstance(item.get("content"), str):
        raise InvalidRequest(f"{where}.content: expected a string", param=where)
    source, score, timestamp, fields = (item.get(k) for k in ("source", "score", "timestamp", "fields"))
    for name, value, kind in (
        ("source", source, str),
        ("score", score, float | int),
        ("timestamp", timestamp, float | int | str),
        ("fields", fields, dict),
    ):
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise InvalidRequest(f"{where}.{name}: unexpected {kind_of(value)}", param=where)
    time = seconds_of(timestamp)
    if timestamp is not None and time is None:
        raise InvalidRequest(f"{where}.timestamp: expected seconds since the epoch or an ISO 8601 time, got {timestamp!r:.60}", param=where)
    return Evidence(item["content"], source=source or "", score=score, timestamp=time, fields=fields or {})


def kind_of(value: object) -> str:
    """JSON's name for a value's type."""
    if value is None:
        return "null"
    names = ((bool, "a boolean"), (int | float, "a number"), (str, "a string"), (list, "a list"), (dict, "an object"))
    return next(name for kind, name in names if isinstance(value, kind))


def listing(body: bytes, field: str, name: str) -> dict[str, Any]:
    """An answer's fields. Raises `ValueError` where there is no list in `field`, without which it is not what goes by the `name`."""
    fields = orjson.loads(body)
    if not isinstance(fields, dict) or not isinstance(fields.get(field), list):
        raise ValueError(f"not {name}")
    return fields


_BIG = re.compile(rb"[0-9]{19}")
_BIG_DIGITS = 19
"""2**63 has as many."""


def exact(text: bytes | str) -> Any:
    """The value of JSON; an integer that does not fit in 64 bits is an `orjson.Fragment` of its digits. Raises `ValueError`."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not _BIG.search(data):
        return orjson.loads(data)
    orjson.loads(data)  # stricter than Python's parser: what is no JSON to it is none here
    try:
        return json.loads(data, parse_int=_integer)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def exact_object(text: str) -> dict[str, Any] | None:
    """The object that is this JSON, as `exact` reads it; None for what is none."""
    try:
        found = exact(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _integer(digits: str) -> Any:
    return int(digits) if len(digits.lstrip("-")) < _BIG_DIGITS else orjson.Fragment(digits)


_NAMES = """
    model messages tools tool_choice functions function_call stream stream_options temperature top_p top_k n max_tokens
    max_completion_tokens
    stop presence_penalty frequency_penalty logit_bias logprobs top_logprobs response_format seed user metadata parallel_tool_calls
    reasoning_effort modalities audio prediction service_tier store verbosity web_search_options prompt_cache_key safety_identifier
    system stop_sequences thinking thread container mcp_servers context_management output_config output_format
    input instructions previous_response_id conversation prompt include text reasoning truncation background max_output_tokens
    max_tool_calls
    role content name tool_calls tool_call_id refusal reasoning_content type id status call_id output arguments summary encrypted_content
    source title context citations cache_control is_error tool_use_id image_url input_audio file file_id file_data file_url filename
    signature data function custom description parameters input_schema strict transcript url groundwire
    contents parts systemInstruction system_instruction functionDeclarations function_declarations toolConfig tool_config thought
    generationConfig generation_config safetySettings safety_settings cachedContent cached_content inlineData inline_data fileData
    file_data functionCall function_call functionResponse function_response args response executableCode executable_code
    codeExecutionResult code_execution_result thoughtSignature thought_signature mimeType mime_type fileUri file_uri
    parametersJsonSchema parameters_json_schema
"""
_FIELD_NAMES = frozenset(_NAMES.split())
"""What the four APIs call the fields of a request, its messages or items, their parts, and its tools."""
_FOLDED = frozenset(key.casefold() for key in _FIELD_NAMES)
_OWN = """
    input arguments args response parameters parametersJsonSchema parameters_json_schema input_schema schema action metadata groundwire
    logit_bias response_format json
"""
_DATA = frozenset(_OWN.split())
"""Fields of an item, part or tool below which keys are the client's own."""


def check_keys(body: bytes, carries: str) -> None:
    """Raises `InvalidRequest` with the key's name. `body` has been parsed before; `carries` is the field that the conversation stands in.

    A body that is written again as it was has no key twice; most clients write as orjson does. Of an agent's 200 KB that takes half a
    millisecond, a parser that shows each pair two.
    """
    fields = orjson.loads(body)
    if orjson.dumps(fields) != body:
        fields = json.loads(body, object_pairs_hook=_unique)
    names = (carries, "system", "systemInstruction", "system_instruction", "tools", "functions")
    for key in {**fields, **_keys([fields.get(name) for name in names])}:
        if key not in _FIELD_NAMES:
            _check(key)


def _keys(waiting: list[Any]) -> dict[str, Any]:
    """Of all objects in and below the values that wait, but for those that are the client's own."""
    found: dict[str, Any] = {}
    while waiting:
        one = waiting.pop()
        if one.__class__ is list:
            waiting += one
        elif one.__class__ is dict:
            found.update(one)
            waiting += [below for key, below in one.items() if (below.__class__ is list or below.__class__ is dict) and key not in _DATA]
    return found


def _check(key: str) -> None:
    if (meant := unicodedata.normalize("NFKC", key).casefold()) in _FOLDED:
        raise InvalidRequest(f"the key {key[:80]!r}: write {meant!r}, which some servers take it for", param=key[:80])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidRequest(f"the key {twice[:80]!r} stands twice in one object: which of them counts is not defined", param=twice[:80])
    return found

"""An answer of ``generateContent``: read into `Answer`, given other words, made of its chunks and taken apart into them.

An answer's text is all its parts' that are words and no thoughts, joined with nothing, as clients join them. A changed text goes back
into the parts that it stood in; what tells of places in it (grounding supports, citations) moves with its words, or goes with them.

What of an answer is recognised (`proxy.wire.shapes`) stands last. Reference: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from proxy.exchange import Answer, Choice, Exchange, ToolCall, Usage
from proxy.wire.answers import end_of, has_words, number, spread, usage_in
from proxy.wire.bodies import exact_object, is_number, object_of, objects_of
from proxy.wire.dialect import Recogniser
from proxy.wire.gemini.fields import is_text, new_call_id
from proxy.wire.shapes import ABSENT, AnswerBounds, Fields, either, list_of, strings, table

USAGE = "usageMetadata"
_SILENT = frozenset(("functionCall", "executableCode", "codeExecutionResult", "inlineData", "fileData", "thoughtSignature", "thought"))
"""What a part has beside words that are read; the result of the provider's own code is no part of the answer."""
_GROUNDING_FIELDS = ("groundingSupports", "citationSources", "citations")


def candidates_of(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The candidates of an answer or a chunk."""
    return objects_of(payload.get("candidates"))


def parts_of(candidate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What it says."""
    return objects_of(object_of(candidate.get("content")).get("parts"))


def call_in(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The call that a part makes."""
    call = part.get("functionCall")
    return call if isinstance(call, Mapping) else None


def block_reason(payload: Mapping[str, Any]) -> str:
    """Why the API answers nothing to the prompt; "" where it does."""
    feedback = payload.get("promptFeedback")
    reason = feedback.get("blockReason") if isinstance(feedback, Mapping) else None
    return reason if isinstance(reason, str) else ""


def unread(candidate: Mapping[str, Any]) -> str:
    """The name of a field of a part with words that are not read as the answer's; "" where there are none."""
    content = candidate.get("content")
    if content and (not isinstance(content, dict) or not isinstance(content.get("parts", []), list)):
        return "content"
    for part in parts_of(candidate):
        for name, value in part.items():
            known = name in _SILENT or (name == "text" and isinstance(value, str))
            if not known and (has_words({name: value}) or (isinstance(value, dict) and has_words(value))):
                return f"content.parts.{name[:60]}"
    return ""


class Candidate:
    """What a candidate says, growing."""

    __slots__ = ("calls", "finish_reason", "inputs", "reasoning", "sources", "text")

    def __init__(self) -> None:
        self.text, self.reasoning, self.inputs = list[str](), list[str](), list[str]()
        self.calls: list[ToolCall] = []
        self.sources: list[tuple[str, str]] = []
        self.finish_reason: str | None = None

    def absorb(self, candidate: Mapping[str, Any]) -> str:
        """Add some of it, or all; the answer text in that."""
        before = len(self.text)
        for part in parts_of(candidate):
            if is_text(part):
                self.text.append(part["text"])
            elif isinstance(part.get("text"), str):
                self.reasoning.append(part["text"])
            elif (call := call_in(part)) is not None:
                given = call.get("args")
                arguments = orjson.dumps(given if given is not None else {}).decode()
                place = len(self.calls)
                self.calls.append(ToolCall(str(call.get("id") or new_call_id(0, place)), str(call.get("name") or ""), arguments, place))
            elif isinstance(code := part.get("executableCode"), Mapping) and isinstance(code.get("code"), str):
                self.inputs.append(code["code"])
            elif isinstance(call := part.get("toolCall"), Mapping):
                self.inputs += filter(None, strings(call.get("args")))
        self.sources += _sources(candidate.get("groundingMetadata"))
        self.finish_reason = end_of(candidate.get("finishReason")) or self.finish_reason
        return "".join(self.text[before:])

    def choice(self, index: int) -> Choice:
        """So far."""
        said = "".join(self.text), "", "".join(self.reasoning)
        return Choice(index, *said, tuple(self.calls), self.finish_reason, tuple(self.inputs))


def _sources(grounding: object) -> Iterator[tuple[str, str]]:
    """What a search found that tells its text; pages of the web are addresses alone."""
    for chunk in objects_of(object_of(grounding).get("groundingChunks")):
        for found in chunk.values():
            if isinstance(found, Mapping) and isinstance(text := found.get("text"), str) and text:
                yield text, str(found.get("uri") or found.get("title") or "")


def answer_from(candidates: Mapping[int, Candidate], model: object, usage: object, missed: str = "") -> Answer:
    """What the candidates say together."""
    choices = tuple(one.choice(index) for index, one in sorted(candidates.items()))
    sources = tuple(source for one in candidates.values() for source in one.sources)
    return Answer(choices, model if isinstance(model, str) else "", usage_in("gemini", usage), missed, sources=sources)


def answer_of(payload: Mapping[str, Any]) -> Answer:
    """A whole answer. Raises `ValueError` for what is none."""
    if not isinstance(payload.get("candidates"), list) and not block_reason(payload):
        raise ValueError("not an answer of generateContent")
    found: dict[int, Candidate] = {}
    for candidate in candidates_of(payload):
        found.setdefault(number(candidate, "index"), Candidate()).absorb(candidate)
    if not found and block_reason(payload):
        found[0] = Candidate()
        found[0].finish_reason = "content_filter"
    missed = next((name for one in candidates_of(payload) if (name := unread(one))), "")
    return answer_from(found, payload.get("modelVersion"), payload.get(USAGE), missed)


# ---- other words ----


def with_changes(candidate: Mapping[str, Any], text: str | None, arguments: Mapping[int, str]) -> dict[str, Any]:
    """A whole candidate that says `text`, if that is any, and whose calls have these arguments, by their index."""
    parts = parts_of(candidate)
    words = [i for i, part in enumerate(parts) if is_text(part)]
    before = "".join(parts[i]["text"] for i in words)
    changed = text is not None and text != before
    said = dict(zip(words, spread([parts[i]["text"] for i in words], text or ""), strict=True)) if changed and words else {}
    calls = [i for i, part in enumerate(parts) if call_in(part) is not None]
    new = {calls[index]: given for index, given in arguments.items() if index < len(calls)}
    made = []
    for i, part in enumerate(parts):
        if i in new:
            part = {**part, "functionCall": {**part["functionCall"], "args": exact_object(new[i]) or {}}}
        made.append({**part, "text": said[i]} if i in said else part)
    made = [part for i, part in enumerate(made) if i not in said or said[i] or len(part) > 1]
    if changed and text and not words:
        made.insert(calls[0] if calls else len(made), {"text": text})
    content = candidate.get("content")
    about = content if isinstance(content, dict) else {"role": "model"}
    found = {**candidate, "content": {**about, "parts": made}}
    if not changed or text is None:
        return found
    return relocate_citations(found, before, text, PartStarts(parts).starts, PartStarts(made).starts)


def relocate_citations(
    candidate: Mapping[str, Any], old: str, new: str, starts: Mapping[int, int] = {}, ends: Mapping[int, int] = {}
) -> dict[str, Any]:
    """A candidate whose text was `old` and is `new`: what tells of places in it, by its UTF-8 bytes, tells of those in the new one.

    A segment counts from the beginning of its part, by ``partIndex``: `starts` has where each part with text began, `ends` where each
    begins now. Without them the text is one part's.
    """
    found = dict(candidate)
    found.pop("logprobsResult", None)  # they belong to the words that were replaced
    before, after = old.encode(), new.encode()
    for name in ("groundingMetadata", "citationMetadata"):
        given = found.get(name)
        if isinstance(given, dict):
            found[name] = {
                key: [moved for one in value if (moved := _move_place(one, before, after, starts, ends)) is not None]
                if key in _GROUNDING_FIELDS and isinstance(value, list)
                else value
                for key, value in given.items()
            }
    return found


class PartStarts:
    """Where each part with text begins in a candidate's text, in bytes, by the part's index. With `joins`, parts come in chunks, and words
    go on with the words before them, as in `to_whole`.
    """

    __slots__ = ("_at", "_index", "_joins", "_last", "starts")

    def __init__(self, parts: Iterable[Mapping[str, Any]] = (), *, joins: bool = False) -> None:
        self.starts: dict[int, int] = {}
        self._joins, self._at, self._index, self._last = joins, 0, -1, dict[str, Any]()
        self.add(parts)

    def add(self, parts: Iterable[Mapping[str, Any]]) -> None:
        """What comes next."""
        for part in parts:
            words = is_text(part)
            if not (self._joins and _goes_on(part, self._last)):
                self._index += 1
                if words:
                    self.starts[self._index] = self._at
            self._at += len(part["text"].encode()) if words else 0
            self._last = {**part, "text": ""} if "text" in part else {}


def _move_place(one: Any, before: bytes, after: bytes, starts: Mapping[int, int], ends: Mapping[int, int]) -> Any:
    """A support or citation; None where its words are not there any more, or not in one part."""
    segment = one.get("segment", one) if isinstance(one, dict) else None
    if not isinstance(segment, dict) or not is_number(segment.get("endIndex")) or not is_number(segment.get("startIndex") or 0):
        return None
    index = segment.get("partIndex") or 0
    base = starts.get(index, 0) if isinstance(index, int) else 0
    start, end = base + int(segment.get("startIndex") or 0), base + int(segment["endIndex"])
    words = before[start:end]
    at = after.find(words, max(0, start - abs(len(before) - len(after)))) if words else -1
    at = after.find(words) if at < 0 and words else at  # more was put in behind it than was left out before it
    if at < 0:
        return None
    if "segment" not in one:  # a citation has no part
        return {**segment, "startIndex": at, "endIndex": at + len(words)}
    part, base = max(((i, begin) for i, begin in ends.items() if begin <= at), default=(0, 0))
    if at + len(words) > min((begin for begin in ends.values() if begin > base), default=len(after)):
        return None
    named = {"partIndex": part} if ("partIndex" in segment and ends) or base else {}
    return {**one, "segment": {**segment, **named, "startIndex": at - base, "endIndex": at - base + len(words)}}


# ---- a stream as one answer ----


def to_events(answer: Mapping[str, Any], asked: bytes) -> bytes:
    """An answer as the one event of a stream. Raises `ValueError` for what is none."""
    answer_of(answer)
    return b"data: " + orjson.dumps(answer) + b"\r\n\r\n"


def payloads(answer: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The same parsed."""
    answer_of(answer)
    return [dict(answer)]


def to_whole(chunks: Iterable[Mapping[str, Any]], *, marked: bool) -> dict[str, Any] | None:
    """The answer that a stream's chunks come to; None where it broke off, or is none."""
    whole: dict[str, Any] = {}
    found: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        whole |= {name: value for name, value in chunk.items() if name != "candidates"}
        for candidate in candidates_of(chunk):
            known = found.setdefault(number(candidate, "index"), {"content": {"parts": [], "role": "model"}})
            known |= {name: value for name, value in candidate.items() if name != "content"}
            for part in parts_of(candidate):
                _append(known["content"]["parts"], part)
    if not block_reason(whole) and not (found and all(end_of(one.get("finishReason")) for one in found.values())):
        return None
    return {"candidates": [one for _, one in sorted(found.items())], **whole} if found else whole


def _append(parts: list[dict[str, Any]], part: Mapping[str, Any]) -> None:
    """A part behind the others; words go on with the words before them."""
    last = parts[-1] if parts else {}
    if _goes_on(part, last):
        parts[-1] = {**last, "text": last["text"] + part["text"]}
    else:
        parts.append(dict(part))


def _goes_on(part: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Whether a part's words are of one part with those before them."""
    return (
        part.keys() <= {"text", "thought"} and last.keys() == part.keys() and last.get("thought") == part.get("thought") and "text" in part
    )


# ---- an answer of the proxy's own ----


def own_body(exchange: Exchange, answer: Answer) -> dict[str, Any]:
    """The answer."""
    choice = answer.choices[0]
    parts: Sequence[dict[str, Any]] = [{"text": choice.text}] if choice.text else []
    reason = "SAFETY" if choice.finish_reason == "content_filter" else "STOP"
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": reason, "index": 0}
    return {
        "candidates": [candidate],
        USAGE: usage_written(answer.usage or Usage(0, 0)),
        "modelVersion": answer.model,
        "responseId": exchange.id,
    }


def usage_written(used: Usage) -> dict[str, int]:
    """As ``usageMetadata``, which counts thoughts apart."""
    made = {"promptTokenCount": used.prompt_tokens, "candidatesTokenCount": max(0, used.completion_tokens - used.reasoning_tokens)}
    more = {"cachedContentTokenCount": used.cached_tokens, "thoughtsTokenCount": used.reasoning_tokens}
    return made | {name: value for name, value in more.items() if value} | {"totalTokenCount": used.prompt_tokens + used.completion_tokens}


_PART = Fields(
    "part",
    {
        "functionCall": Fields("functionCall", word="id name", data="args"),
        "executableCode": Fields("executableCode", word="id language", text="code"),
        "codeExecutionResult": Fields("codeExecutionResult", word="id outcome", quoted="output"),
        "toolCall": Fields("toolCall", word="id toolType", data="args"),
        "toolResponse": Fields("toolResponse", word="id toolType", figures="response"),
        "inlineData": Fields("inlineData", word="mimeType data", quoted="displayName"),
    },
    text="text",
    flag="thought",
    word="thoughtSignature",
)
_SOURCE = table({"title": either("word", "quoted")}, url="uri", quoted="text placeId domain")
_CHUNK = Fields("groundingChunk", {name: Fields(name, _SOURCE) for name in ("web", "retrievedContext", "maps")})
_SUPPORT = Fields(
    "groundingSupport",
    {"segment": Fields("segment", number="partIndex startIndex endIndex", padding="text")},
    figures="groundingChunkIndices confidenceScores",
)
_GROUNDING = Fields(
    "groundingMetadata",
    {
        "groundingChunks": list_of(_CHUNK, "groundingChunks"),
        "groundingSupports": list_of(_SUPPORT, "groundingSupports"),
        "webSearchQueries": list_of("quoted", "webSearchQueries"),
    },
    figures="retrievalMetadata",
    padding="searchEntryPoint",
)
_CITATIONS = list_of(Fields("citation", number="startIndex endIndex", url="uri", word="license"), "citations")
_CANDIDATE = Fields(
    "candidate",
    {
        "content": Fields("content", {"parts": list_of(_PART, "parts")}, word="role"),
        "groundingMetadata": _GROUNDING,
        "citationMetadata": Fields("citationMetadata", {"citationSources": _CITATIONS, "citations": _CITATIONS}),
    },
    number="index tokenCount avgLogprobs",
    word="finishReason continuationToken",
    figures="safetyRatings urlContextMetadata",
    padding="finishMessage",
)
_ERROR = Fields("error", number="code", text="message", word="status", figures="details")
_FAILURE = Fields("error", {"error": _ERROR})
_FEEDBACK = Fields("promptFeedback", word="blockReason", figures="safetyRatings", padding="blockReasonMessage")
_ANSWER = Fields(
    "answer",
    {"candidates": list_of(_CANDIDATE, "candidates"), "promptFeedback": _FEEDBACK, "error": _ERROR},
    figures="usageMetadata modelStatus",
    label="modelVersion responseId",
    word="createTime",
)


class GeminiShapes(Recogniser):
    """Of Gemini's API."""

    api = "gemini"
    failure = _FAILURE

    def __init__(self, bounds: AnswerBounds) -> None:
        super().__init__(bounds)
        self._ended_candidates: set[int] = set()

    def answer(self, fields: Any) -> Any:
        """An answer, or a chunk of one, with what is recognised of it."""
        made = _ANSWER(fields, self.reading)
        if made is not ABSENT and made.get("candidates"):
            made["candidates"] = [candidate for candidate in candidates_of(made) if self._may_leave(candidate)]
        self.says = self.says or (made is not ABSENT and bool((made.get("promptFeedback") or {}).get("blockReason")))
        return made

    def _may_leave(self, candidate: dict[str, Any]) -> bool:
        index = number(candidate, "index")
        if not 0 <= index < self.reading.bounds.choices or index in self._ended_candidates:
            self.reading.leave_out(
                "what follows a candidate's end" if index in self._ended_candidates else "a candidate that was not asked for"
            )
            return False
        if candidate.get("finishReason"):
            self._ended_candidates.add(index)
        if isinstance(candidate.get("content"), dict):
            candidate["content"]["parts"] = [part for part in parts_of(candidate) if self._is_offered(part)]
        self.says = self.says or any(part.get("text") or call_in(part) for part in parts_of(candidate))
        return True

    def _is_offered(self, part: dict[str, Any]) -> bool:
        call, bounds = call_in(part), self.reading.bounds
        if bounds.offers(str(call.get("name") or "")) if call is not None else "toolCall" not in part or bounds.provides(""):
            return True
        self.reading.leave_out("a call of a tool that was not offered")
        return False

    def events(self, fields: Any) -> list[dict[str, Any]]:
        """A chunk with what is recognised of it; none where nothing is left."""
        made = self.answer(fields)
        if made is ABSENT:
            self.reading.leave_out("chunk")
            return []
        return [made] if made.keys() & {"candidates", "usageMetadata", "promptFeedback", "error"} else []

"""What of a ``generateContent`` answer is recognised (`proxy.wire.shapes`), whole and chunk by chunk.

Reference: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

from typing import Any

from proxy.wire.dialect import Recogniser
from proxy.wire.gemini.answers import call_in, candidates_of, index_of, parts_of
from proxy.wire.shapes import ABSENT, Asked, Fields, either, listed, table

_PART = Fields(
    "part",
    {
        "functionCall": Fields("functionCall", word="id name", data="args"),
        "executableCode": Fields("executableCode", word="id language", text="code"),
        "codeExecutionResult": Fields("codeExecutionResult", word="id outcome", quoted="output"),
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
        "groundingChunks": listed(_CHUNK, "groundingChunks"),
        "groundingSupports": listed(_SUPPORT, "groundingSupports"),
        "webSearchQueries": listed("quoted", "webSearchQueries"),
    },
    figures="retrievalMetadata",
    padding="searchEntryPoint",
)
_CITED = listed(Fields("citation", number="startIndex endIndex", url="uri", word="license"), "citations")
_CANDIDATE = Fields(
    "candidate",
    {
        "content": Fields("content", {"parts": listed(_PART, "parts")}, word="role"),
        "groundingMetadata": _GROUNDING,
        "citationMetadata": Fields("citationMetadata", {"citationSources": _CITED, "citations": _CITED}),
    },
    number="index tokenCount avgLogprobs",
    word="finishReason",
    figures="safetyRatings urlContextMetadata",
    padding="finishMessage",
)
_ERROR = Fields("error", number="code", text="message", word="status", figures="details")
_FAILURE = Fields("error", {"error": _ERROR})
_FEEDBACK = Fields("promptFeedback", word="blockReason", figures="safetyRatings", padding="blockReasonMessage")
_ANSWER = Fields(
    "answer",
    {"candidates": listed(_CANDIDATE, "candidates"), "promptFeedback": _FEEDBACK, "error": _ERROR},
    figures="usageMetadata modelStatus",
    label="modelVersion responseId",
    word="createTime",
)


class GeminiShapes(Recogniser):
    """Of Gemini's API."""

    api = "gemini"
    failure = _FAILURE

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._ended: set[int] = set()

    def answer(self, fields: Any) -> Any:
        """An answer, or a chunk of one, with what is recognised of it."""
        made = _ANSWER(fields, self.reading)
        if made is not ABSENT and made.get("candidates"):
            made["candidates"] = [candidate for candidate in candidates_of(made) if self._leaves(candidate)]
        self.says = self.says or (made is not ABSENT and bool((made.get("promptFeedback") or {}).get("blockReason")))
        return made

    def _leaves(self, candidate: dict[str, Any]) -> bool:
        index = index_of(candidate)
        if not 0 <= index < self.reading.asked.choices or index in self._ended:
            self.reading.leave_out("what follows a candidate's end" if index in self._ended else "a candidate that was not asked for")
            return False
        if candidate.get("finishReason"):
            self._ended.add(index)
        if isinstance(candidate.get("content"), dict):
            candidate["content"]["parts"] = [part for part in parts_of(candidate) if self._is_offered(part)]
        self.says = self.says or any(part.get("text") or call_in(part) for part in parts_of(candidate))
        return True

    def _is_offered(self, part: dict[str, Any]) -> bool:
        call = call_in(part)
        if call is None or self.reading.asked.offers(str(call.get("name") or "")):
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

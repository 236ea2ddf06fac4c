"""A shape of decisions: what is written for it, and read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from proxy.errors import ProxyError
from proxy.ports.decisions import Answer, Decision, Question

MAX_QUESTIONS, MAX_OPTIONS, MAX_LEVELS = 400, 255, 10
"""Of one request, as OpenAI documents them; what is served here has the same bounds in both shapes."""


class Asked(Protocol):
    """As a client of it."""

    def render_request(self, model: str, state: str, questions: Sequence[Question]) -> bytes:
        """The body of a call."""

    def parse_answers(self, fields: Mapping[str, Any], questions: Sequence[Question]) -> dict[str, Answer]:
        """One answer for each of the `questions`, by name. Raises `ValueError` where `fields` are no answer of this shape."""


class ServedCall(Protocol):
    """A client's request."""

    @property
    def model(self) -> str:
        """As the client named it."""

    @property
    def state(self) -> str:
        """What the questions are about; JSON where the client sent that."""

    @property
    def questions(self) -> Sequence[Question]:
        """Under names that differ."""

    def render(self, decision: Decision, model: str) -> bytes:
        """The answer's body; a question without probabilities is refused. ``confidence`` is the greatest probability."""


class Served(Protocol):
    """As its server."""

    def parse(self, body: bytes) -> ServedCall:
        """Raises `InvalidRequest`, with the path of the bad field in ``param``."""

    def error(self, error: ProxyError) -> tuple[int, bytes]:
        """Status and body that tell of an error."""

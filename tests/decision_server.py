"""A scripted server of decision models, for `proxy.testing.ScriptedUpstream`.

What real servers do wrong are replies of their own (``reply({}, 429)``, `hang`, `cut_off`) or a `spoil` of a right answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from proxy.config.sections import Shape
from proxy.errors import InvalidRequest
from proxy.ports.decisions import Answer, Question
from proxy.testing.models import Judge, evenly, judged
from proxy.testing.upstream import ReceivedCall, ScriptedReply, raw, reply
from proxy.wire.decisions.served import DecisionServer, OpenAIServed, SystemOneServed

Spoil = Callable[[dict[str, Any]], Any]
"""The fields of a right answer -> what is sent instead."""


def refusing(state: str, question: Question) -> Answer:
    """A model that declines every question."""
    return Answer(problem="refused")


def judging(shape: Shape, judge: Judge = evenly, *, max_questions: int = 400, spoil: Spoil | None = None) -> ScriptedReply:
    """A server of the shape. More than `max_questions`, an image or a bad field are refused as its API does."""
    served: DecisionServer = OpenAIServed() if shape == "openai" else SystemOneServed()

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        fields = call.json
        body = orjson.dumps({**fields, "state": fields["input"]}) if shape == "gemini" else call.body
        try:
            asked = served.parse(body)
            if len(asked.questions) > max_questions:
                raise InvalidRequest(f"at most {max_questions} questions", param="questions")
        except InvalidRequest as error:
            status, told = served.error(error)
            await reply(told, status)(writer, call)
            return
        answer = asked.render(judged(judge, asked.state, asked.questions), asked.model)
        sent = answer if spoil is None else json.dumps(spoil(json.loads(answer))).encode()
        await reply(sent)(writer, call)

    return write


cut_off = raw(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n{"answers": ')
"""An answer that breaks off."""


def renamed(fields: dict[str, Any]) -> Any:
    """Answers under names that nobody asked for."""
    answers = fields["answers"]
    if isinstance(answers, list):
        return {**fields, "answers": [{**answer, "name": f"other_{i}"} for i, answer in enumerate(answers)]}
    return {**fields, "answers": {f"other_{name}": answer for name, answer in answers.items()}}


def enveloped(fields: dict[str, Any]) -> Any:
    """As Cloudflare wraps it."""
    return {"result": fields, "success": True, "errors": [], "messages": []}


def with_probabilities(value: Callable[[float], Any]) -> Spoil:
    """Every probability is what `value` makes of it: NaN, null, half of it."""

    def changed(node: Any) -> Any:
        if isinstance(node, list):
            return [changed(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        return {name: _changed_field(name, item) for name, item in node.items()}

    def _changed_field(name: str, item: Any) -> Any:
        if name in ("probability", "noul"):
            return value(item)
        if name == "probabilities" and isinstance(item, Mapping):
            return {option: value(chance) for option, chance in item.items()}
        return changed(item)

    return changed

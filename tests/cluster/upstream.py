"""The provider behind a test's cluster: every answer names what it was asked, so that no client can be given another's."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from proxy.testing import ReceivedCall, ScriptedUpstream, completion, reply, stream, streamed
from tests.responses_api import events, response, text_item

THINKS_S = 0.03
"""Before each answer, as a provider does, so that a fault meets exchanges that are under way."""


def provider() -> ScriptedUpstream:
    """Chat and Responses, streamed or not. Answers end with the first word of the last message, which is the client's mark."""
    return ScriptedUpstream(_answer)


def said(mark: str) -> str:
    """What is answered to a question that begins with `mark`."""
    return f"The answer to your question is {mark}"


async def _answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    await asyncio.sleep(THINKS_S)
    body = call.json
    text, streams = said(_mark(body)), body.get("stream")
    if call.path.endswith("/responses"):
        identity = f"resp_{uuid.uuid4().hex}"
        item = text_item(text, identity=f"msg_{uuid.uuid4().hex}")
        made = stream(events(item, id=identity)) if streams else reply(response(item, id=identity))
    else:
        made = (
            stream(streamed([f"{word} " for word in text.split(" ")[:-1]] + [text.split(" ")[-1]])) if streams else reply(completion(text))
        )
    await made(writer, call)


def _mark(body: Any) -> str:
    asked = body["input"] if "input" in body else body["messages"]
    texts = [asked] if isinstance(asked, str) else [one["content"] for one in asked if one.get("role") == "user"]
    last = texts[-1] if isinstance(texts[-1], str) else texts[-1][0]["text"]
    return last.split(" ")[0]

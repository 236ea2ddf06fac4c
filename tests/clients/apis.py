"""A provider of all four APIs, each on its path."""

from __future__ import annotations

import asyncio

from proxy.testing import ReceivedCall
from tests.clients import gemini_provider, messages_provider, provider, responses_provider


async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """The reply to any call, as a `proxy.testing.ScriptedReply`."""
    if call.path.startswith("/v1/responses") and call.method == "POST":
        await responses_provider.answer(writer, call)
    elif call.path.startswith("/v1/messages"):
        await messages_provider.answer(writer, call)
    elif gemini_provider.ADDRESS.fullmatch(call.path):
        await gemini_provider.answer(writer, call)
    else:
        await provider.answer(writer, call)

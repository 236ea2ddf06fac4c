"""Contradictions in a conversation as a library, with the built-in models and without a proxy.

    from proxy.clash import detect_clash, resolve_clash

    said = [
        {"role": "user", "content": "A hotel in Rome, please. My budget is 500 €."},
        {"role": "user", "content": "My budget is 900 €."},
    ]
    for clash in detect_clash(said):
        done = resolve_clash(clash, "prefer_recent")
        print(clash.type, clash.reason, done.kept, done.dropped, done.reason)

It is the stage `clash` with `semantic: true`, over all parts of the conversation, with every sentence read. A `Resolution` says what is to
be done, and leaves the messages as they are. The models are loaded when they are first needed, and run in an event loop of their own:
`detect_clash` waits for them, in a running event loop as `await asyncio.to_thread(detect_clash, said)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from proxy.exchange import Exchange, Message, Prompt, Request
from proxy.grounding.clashes.kinds import Resolution as Resolution
from proxy.grounding.clashes.kinds import Statement as Statement
from proxy.grounding.clashes.kinds import StatementClash as StatementClash
from proxy.models import making as builtin_models
from proxy.ports import Embedder, Verifier
from proxy.stages.clash.context import Context
from proxy.stages.clash.finding import Finder
from proxy.stages.clash.ledger import Ledger
from proxy.stages.clash.options import ClashOptions, Part
from proxy.stages.clash.resolution import resolve_clash as resolve_clash

Messages = Sequence[str | Mapping[str, Any]]
"""Chat messages, with a ``timestamp`` (`proxy.language.dates`) and a ``source`` where they are known, or a user's sentences; in order."""


def detect_clash(
    said: Messages, *, verifier: Verifier | None = None, embedder: Embedder | None = None, known: Collection[str] = ()
) -> list[StatementClash]:
    """The clashes among what was said, each pair of statements judged once; `known` are pair hashes that need not be judged again.

    A change of mind that is said as such is among them, with `update` set; `certain` is set where both plainly say one thing of one person.
    `verifier` and `embedder` are the built-in ones where not given; they are called in this library's event loop. Raises `TypeError` for
    what is neither a text nor a message.
    """
    return builtin_models.wait_for(_detect(said, verifier, embedder, known))


async def _detect(said: Messages, verifier: Verifier | None, embedder: Embedder | None, known: Collection[str]) -> list[StatementClash]:
    options, exchange = ClashOptions(between=get_args(Part), semantic=True), _conversation(said)
    spoken = (await Context(options.between, whole=True).stated(exchange)).spoken
    finder = Finder(options, embedder or builtin_models.embedder(), verifier or builtin_models.verifier())
    return (await finder.find(exchange, Ledger(spoken, ()), spoken, known=known)).clashes


def _conversation(said: Messages) -> Exchange:
    """What the stage would see of it."""
    messages: list[Message] = [{"role": "user", "content": one} if isinstance(one, str) else dict(one) for one in said]
    request = Request("", tuple(messages), (), {}, stream=False, message_hints=dict(enumerate(messages)))
    prompt = Prompt(request.messages, request.tools, request.params)
    return Exchange("library", "", "", "", "", original=request, model="", prompt=prompt)

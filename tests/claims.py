"""Answers and what they rest on, for the tests of the stage `claims`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from proxy.context.passages import RETRIEVAL_TOOLS
from proxy.exchange import Answer, Choice, Evidence, Exchange, Message, ToolCall, Verdict
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import Ports
from proxy.stages.claims import Claims, ClaimsOptions
from proxy.testing import ScriptedVerifiers, make_exchange, make_ports

TOWER = "The Eiffel Tower stands in Paris. It is 330 metres tall and was opened in 1889."
PARIS = "The Eiffel Tower stands in Paris."
LONDON = "The Eiffel Tower stands in London."
TALL = "The Eiffel Tower is 330 metres tall."
GOLD = "The Eiffel Tower was painted with pure gold."
WHERE = "Where does the Eiffel Tower stand?"


def judged_by_words(pair: ClaimPair) -> Support | None:
    """Supported where the evidence has every word; contradicted where the claim says London; not judged where it says Klingon."""
    if "Klingon" in pair.claim:
        return None
    if "London" in pair.claim:
        return Support(0.02, 0.97)
    there = set(re.findall(r"\w+", pair.evidence.casefold()))
    missing = set(re.findall(r"\w+", pair.claim.casefold())) - there
    return Support(0.96, 0.01) if not missing else Support(0.04, 0.05)


def answering(
    *texts: str,
    passages: Sequence[str] = (TOWER,),
    question: str | list[Message] = WHERE,
    calls: Sequence[ToolCall] = (),
    **params: Any,
) -> Exchange:
    """An exchange whose model has said `texts`, one for each choice."""
    messages: list[Message] = [{"role": "user", "content": question}] if isinstance(question, str) else question
    exchange = make_exchange(messages, **params)
    exchange.passages = tuple(Evidence(passage, source=f"file{i}.txt") for i, passage in enumerate(passages))
    exchange.evidence = tuple(exchange.passages)
    exchange.retrieval_tools = RETRIEVAL_TOOLS
    choices = tuple(Choice(i, text, tool_calls=tuple(calls), finish_reason="stop") for i, text in enumerate(texts))
    exchange.answer = exchange.upstream_answer = Answer(choices, "gpt-4o")
    return exchange


def make_stage(ports: Ports | None = None, **options: Any) -> Claims:
    """The stage; its verifier judges by words. What is not supported fails, too, unless `options` say otherwise."""
    return Claims(ClaimsOptions(**{"fail_on": "unsupported", **options}), ports or ports_with())


def ports_with(verifiers: ScriptedVerifiers | None = None, **parts: Any) -> Ports:
    """Ports with a verifier that judges by words."""
    return make_ports(verifiers=verifiers or ScriptedVerifiers(judged_by_words), **parts)


async def checked(exchange: Exchange, ports: Ports | None = None, **options: Any) -> Verdict:
    """The stage's verdict on a whole answer."""
    stage = make_stage(ports, **options)
    verdict = await stage.on_answer(exchange)
    stage.release(exchange)
    assert verdict is not None
    return verdict


def texts_of(exchange: Exchange) -> list[str]:
    """What each choice says now."""
    assert exchange.answer is not None
    return [choice.text for choice in exchange.answer.choices]


def labels(exchange: Exchange, choice: int = 0) -> list[str]:
    """The labels of a choice's claims."""
    return [judgement.label for judgement in exchange.judgements.get(choice, [])]

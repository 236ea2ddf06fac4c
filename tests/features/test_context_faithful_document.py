"""The acceptance cases of the document that asked for context-faithful prompting, with its inputs and values."""

from __future__ import annotations

from pathlib import Path

import pytest

import proxy.faithful as library
from proxy.faithful import (
    build_context_block,
    detect_context_ignoring,
    extract_citations,
    extract_confidence,
    wrap_with_context_faithful_prompt,
)
from proxy.testing import completion, reply
from tests.conftest import Start

POLICIES = Path(__file__).parents[2] / "policies"


@pytest.mark.parametrize(
    ("passages", "options", "there", "missing"),
    [
        ([], {}, ("No passages retrieved",), ()),
        ([{"content": "The answer is 42."}], {}, ("Passage 1", "The answer is 42."), ()),
        ([{"content": "Data.", "source": "config.yaml"}], {}, ("Source: config.yaml",), ()),
        ([{"content": "Data.", "score": 0.95}], {}, ("0.95",), ()),
        ([{"content": f"Passage {i}"} for i in range(20)], {"max_passages": 5}, ("Passage 5", "5 passages"), ("Passage 6",)),
    ],
)
def test_blocks_of_passages(passages: list[dict[str, object]], options: dict[str, int], there: tuple[str], missing: tuple[str]) -> None:
    block = build_context_block(passages, **options)
    assert [True] * len(there) == [text in block for text in there]
    assert [False] * len(missing) == [text in block for text in missing]


def test_the_template_of_retrieval_augmented_generation() -> None:
    suffix, message = wrap_with_context_faithful_prompt("What model does Timmy use?", [{"content": "Timmy runs on mimo-v2-pro."}])
    assert "CONTEXT-FAITHFUL" in suffix
    assert all(text in message for text in ("Passage 1", "mimo-v2-pro", "Cite which passage"))


def test_the_template_is_filled_in_by_the_documents_names() -> None:
    """The context first, then the question, then the instructions, the rating last among them."""
    template = library.CONTEXT_FAITHFUL_RAG_TEMPLATE
    filled = template.format(
        context_block=build_context_block([{"content": "Timmy runs on mimo-v2-pro."}]), question="What does Timmy use?"
    )
    order = ("mimo-v2-pro", "Based ONLY on the context above", "What does Timmy use?", "[Passage N]", "HIGH / MEDIUM / LOW")
    places = [filled.index(text) for text in order]
    assert sorted(places) == places


def test_the_block_before_the_question() -> None:
    _, message = wrap_with_context_faithful_prompt("Question?", [{"content": "Data."}], use_rag_template=False)
    assert all(text in message for text in ("Question: Question?", "ONLY the provided context"))


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("The answer is 42 [Passage 1].", [("number", 1)]),
        ("See [Context Passage 3] for details.", [("number", 3)]),
        ("Per [Retrieved from: config.yaml]...", [("source", "config.yaml")]),
        ("The answer is 42.", []),
        ("[Passage 1] says X. [Passage 3] says Y.", [("number", 1), ("number", 3)]),
    ],
)
def test_citations(answer: str, found: list[tuple[str, object]]) -> None:
    citations = extract_citations(answer)
    assert [value for _, value in found] == [citation[key] for (key, _), citation in zip(found, citations, strict=True)]


@pytest.mark.parametrize(
    ("answer", "rating"),
    [("The answer is 42. Confidence: HIGH", "HIGH"), ("Based on the context. MEDIUM.", "MEDIUM"), ("The answer is 42.", None)],
)
def test_ratings(answer: str, rating: str | None) -> None:
    assert rating == extract_confidence(answer)


@pytest.mark.parametrize(
    ("answer", "context", "expected"),
    [
        (
            "The capital of France is Paris. This is because France is a country in Europe, and Paris has been its capital for centuries.",
            "Passage 1: Timmy runs on mimo-v2-pro.",
            {"likely_ignored": True, "has_citation": False},
        ),
        (
            "According to [Passage 1], Timmy runs on mimo-v2-pro.",
            "Passage 1: Timmy runs on mimo-v2-pro.",
            {"likely_ignored": False, "has_citation": True},
        ),
        (
            "I don't have enough information in the provided context.",
            "Passage 1: Unrelated data.",
            {"likely_ignored": False, "has_idk": True},
        ),
    ],
)
def test_answers_that_ignore_their_context(answer: str, context: str, expected: dict[str, bool]) -> None:
    found = detect_context_ignoring(answer, context)
    assert expected == {name: found[name] for name in expected}


@pytest.mark.parametrize(
    ("question", "passage", "order"),
    [
        (
            "What model does Timmy use?",
            "Timmy runs on mimo-v2-pro.",
            ("Based ONLY on the context above", "[Passage N]", "Confidence: HIGH"),
        ),
        ("Welches Modell nutzt Timmy?", "Timmy läuft auf mimo-v2-pro.", ("allein aus dem Kontext oben", "[Passage N]", "Vertrauen: HOCH")),
        ("¿Qué modelo usa Timmy?", "Timmy funciona con mimo-v2-pro.", ("solo a partir del contexto", "[Pasaje N]", "Confianza: ALTA")),
        ("Quel modèle utilise Timmy ?", "Timmy tourne sur mimo-v2-pro.", ("à partir du contexte", "[Passage N]", "Confiance : ÉLEVÉE")),
    ],
)
async def test_the_model_reads_the_context_then_the_question_then_the_instructions(
    start: Start, question: str, passage: str, order: tuple[str, str, str]
) -> None:
    """Through the shipped policy, with the passages that a client sends along."""
    hints = {"context": [{"content": passage, "source": "01-hardware.md", "score": 0.91}]}
    async with start(reply(completion("mimo-v2-pro [Passage 1]")), policy=(POLICIES / "rag.yaml").read_text("utf-8")) as proxy:
        await proxy.post({"model": "gpt-4o", "messages": [{"role": "user", "content": question}], "groundwire": hints})
        sent = proxy.upstream.calls[0].json["messages"][-1]["content"]
    based, cite, rate = order
    places = [sent.index(text) for text in (passage, based, question, cite, rate)]
    assert sorted(places) == places


@pytest.mark.parametrize("policy", ["rag", "strict"])
@pytest.mark.parametrize("name", ["session_search", "read_file", "web_extract", "browser"])
async def test_each_of_its_four_retrieval_tools_brings_the_guidance(start: Start, policy: str, name: str) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}}
    messages = [{"role": "system", "content": "You are Timmy."}, {"role": "user", "content": "What model do you use?"}]
    async with start(reply(completion("I do not know.")), policy=(POLICIES / f"{policy}.yaml").read_text("utf-8")) as proxy:
        await proxy.post({"model": "gpt-4o", "messages": messages, "tools": [tool]})
        sent = proxy.upstream.calls[0].json["messages"]
    assert "You are Timmy." + library.CONTEXT_FAITHFUL_SYSTEM_SUFFIX == sent[0]["content"]
    assert sent[0]["content"].startswith("You are Timmy.\n\n" + library.CONTEXT_FAITHFUL_GUIDANCE)


def test_the_names_that_its_callers_import() -> None:
    names = ("SYSTEM_SUFFIX", "USER_PREFIX", "RAG_TEMPLATE", "GUIDANCE")
    assert all(len(getattr(library, f"CONTEXT_FAITHFUL_{name}")) > 50 for name in names)
    assert "Passage N" in library.CONTEXT_FAITHFUL_GUIDANCE

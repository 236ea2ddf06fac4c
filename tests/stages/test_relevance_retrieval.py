"""When the stage answers in the model's stead, and why it does not."""

from typing import Any

import pytest

from benchmarks import relevance_turns
from proxy.context.faithful import TEXTS, build_context_block, wrap_with_context_faithful_prompt
from proxy.exchange import Exchange, Message, Verdict
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.pipeline import Pipeline
from proxy.testing import make_ports
from tests.stages.test_relevance import BREAD, TALL, TOOLS, make_stage

SEARCH = {"id": "c1", "type": "function", "function": {"name": "search_docs", "arguments": "{}"}}


def sent(question: str = TALL, *, context: list[str] | None = None, before: list[Message] | None = None, **more: Any) -> Exchange:
    """The exchange of a request, by way of its body."""
    messages = [*(before or []), {"role": "user", "content": question}, *more.pop("after", [])]
    hints = {} if context is None else {"groundwire": {"context": [{"content": text} for text in context]}}
    return relevance_turns.exchange_of({"model": "gpt-4o", "messages": messages, **hints, **more})


def results(*texts: str) -> list[Message]:
    """A search's results, one a call."""
    found: list[Message] = []
    for text in texts:
        found += [{"role": "assistant", "content": None, "tool_calls": [SEARCH]}, {"role": "tool", "tool_call_id": "c1", "content": text}]
    return found


async def judged(exchange: Exchange) -> Verdict:
    await Pipeline([make_stage()]).request(exchange)
    return exchange.verdicts[-1]


async def unsure(exchange: Exchange) -> Any:
    """Why the model was asked all the same."""
    verdict = await judged(exchange)
    assert exchange.answer is None
    return verdict.detail.get("unsure")


SHORT = "Knead the dough for ten minutes."


@pytest.mark.parametrize("passages", [[BREAD], [SHORT], [SHORT, "Rinse the filter."]])
async def test_passages_about_something_else_are_answered_whatever_their_length(passages: list[str]) -> None:
    exchange = sent(context=passages)
    await judged(exchange)
    assert exchange.answer is not None


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("How tall?", "says too little of its subject"),
        ("How tall is it beside the river bank?", "points at what was said before"),
        ("And how tall is the Eiffel Tower?", "goes on from what was said before"),
        ("What should I tell you of the Eiffel Tower's height?", "it asks for no fact"),
        ("Erkläre mir das Konzept von RAG", "an abbreviation, which a passage may spell out"),
    ],
)
async def test_a_question_that_cannot_be_judged_for_certain_goes_to_the_model(question: str, reason: str) -> None:
    assert reason == await unsure(sent(question, context=[BREAD]))


async def test_what_cannot_be_refused_is_warned_of() -> None:
    exchange = sent("And how tall is that?", context=[BREAD])
    verdict = await judged(exchange)
    assert ("warn", "low_relevance", None) == (verdict.outcome, verdict.code, exchange.answer)


@pytest.mark.parametrize(
    ("question", "outcome"),
    [
        ("¿Qué dice el correo?", "unchecked"),
        ("Was sagt die Mail?", "unchecked"),
        ("What does the mail say?", "warn"),
        ("¿Cuánto mide la torre Eiffel de París?", "warn"),
    ],
)
async def test_of_passages_in_another_language_a_question_must_name_its_subject(question: str, outcome: str) -> None:
    after = [{"role": "assistant", "content": None, "tool_calls": [SEARCH]}, {"role": "tool", "tool_call_id": "c1", "content": BREAD}]
    verdict = await judged(sent(question, after=after, tools=TOOLS))
    assert (outcome, "low_relevance") == (verdict.outcome, verdict.code)


async def test_what_was_found_for_an_earlier_question_is_no_warning() -> None:
    """In a long talk a question may be answered by anything that stands in it; its searches were for other questions."""
    before = [{"role": "user", "content": "How is bread baked?"}, *results(BREAD), {"role": "assistant", "content": "Warm."}]
    verdict = await judged(sent(TALL, before=before))
    assert ("unchecked", "low_relevance", "note") == (verdict.outcome, verdict.code, verdict.detail["action"])


async def test_a_request_that_is_no_question_is_for_the_record() -> None:
    exchange = sent("Write a short poem for the birthday of my neighbour Anna", context=[BREAD])
    verdict = await judged(exchange)
    assert ("unchecked", "low_relevance", None) == (verdict.outcome, verdict.code, exchange.answer)


async def test_a_language_that_was_not_measured_is_not_judged() -> None:
    exchange = sent("Hur hög är Eiffeltornet i Paris och vem byggde det?", context=[BREAD])
    verdict = await judged(exchange)
    assert ("unchecked", "a language that was not measured") == (verdict.outcome, verdict.detail["reason"])


def marked(place: str, passage: str) -> Exchange:
    """A passage in each of the places that one may stand in."""
    if place == "pasted":
        return sent(f"<context>\n{passage}\n</context>\n\n{TALL}")
    if place == "system":
        return sent(before=[{"role": "system", "content": f"Answer from the context.\n<context>\n{passage}\n</context>"}])
    if place == "introduced":
        rules = f"Use the following pieces of context to answer the user's question.\n----------------\n{passage}"
        return sent(before=[{"role": "system", "content": rules}])
    return sent(after=results(passage)) if place == "tool" else sent(context=[passage])


@pytest.mark.parametrize("place", ["pasted", "system", "introduced", "tool", "hints"])
async def test_passages_are_judged_wherever_they_stand(place: str) -> None:
    off, fitting = marked(place, BREAD), marked(place, "The Eiffel Tower in Paris is 330 metres tall.")
    assert ("low_relevance", "pass") == ((await judged(off)).code, (await judged(fitting)).outcome)
    assert off.answer is not None
    assert fitting.answer is None


async def test_this_project_s_own_template_is_read_as_retrieved() -> None:
    exchange = sent(TEXTS["en"].template(cite=True, rate=True).format(context_block=build_context_block([BREAD]), question=TALL))
    await judged(exchange)
    assert exchange.answer is not None


async def test_passages_of_an_earlier_question_say_nothing_of_this_one() -> None:
    before = [{"role": "user", "content": "How is bread baked?"}, *results(BREAD), {"role": "assistant", "content": "In an oven."}]
    assert "nothing was retrieved for this question" == await unsure(sent(before=before))


async def test_what_the_system_message_says_may_be_the_answer() -> None:
    rules = {"role": "system", "content": "You are a guide. The Eiffel Tower has 330 metres."}
    assert "the answer may stand elsewhere in the conversation" == await unsure(sent(context=[BREAD], before=[rules]))


async def test_rules_that_speak_of_something_else_leave_it_certain() -> None:
    exchange = sent(context=[BREAD], before=[{"role": "system", "content": "Answer from the passages. Be polite."}])
    await judged(exchange)
    assert exchange.answer is not None


# ---- nothing was found ----


@pytest.mark.parametrize("result", ["[]", "{}", "", "No results found", '{"results": [], "total": 0}', "Keine Treffer.", "Aucun résultat."])
async def test_a_search_that_found_nothing_is_answered(result: str) -> None:
    exchange = sent(after=results(result))
    verdict = await judged(exchange)
    assert ("low_relevance", 0.0, "the search found nothing") == (verdict.code, verdict.score, verdict.detail["reason"])
    assert exchange.answer is not None


@pytest.mark.parametrize("context", [[], [" "], ["[]"]])
async def test_an_empty_context_is_answered(context: list[str]) -> None:
    exchange = sent(context=context)
    verdict = await judged(exchange)
    assert "groundwire.context is empty" == verdict.detail["reason"]
    assert exchange.answer is not None


@pytest.mark.parametrize(
    ("question", "answered"),
    [
        ("What is the refund policy?", True),
        ("Wie hoch sind die Versandkosten?", True),
        ("What's new?", False),
        ("What is the total?", False),
        ("What is 12 plus 30?", False),
        ("How are you?", False),
    ],
)
async def test_where_nothing_was_found_two_words_name_a_subject(question: str, answered: bool) -> None:
    for context in ([], ["Bread is baked from flour, water and yeast."]):
        exchange = sent(question, context=context)
        await judged(exchange)
        assert (answered and not context) == (exchange.answer is not None), context


async def test_where_the_model_may_search_again_nothing_found_is_a_warning() -> None:
    exchange = sent(after=results("[]"), tools=TOOLS)
    verdict = await judged(exchange)
    assert ("warn", "low_relevance", None) == (verdict.outcome, verdict.code, exchange.answer)


async def test_a_follow_up_without_a_find_is_a_warning() -> None:
    before = [{"role": "user", "content": "Where does the Eiffel Tower stand?"}, {"role": "assistant", "content": "In Paris."}]
    exchange = sent("And how tall is it?", before=before, context=[])
    verdict = await judged(exchange)
    assert ("warn", None) == (verdict.outcome, exchange.answer)


async def test_thanks_need_no_find() -> None:
    verdict = await judged(sent("Thank you!", context=[]))
    assert ("unchecked", "thanks") == (verdict.outcome, verdict.detail["reason"])


async def test_a_search_that_failed_has_not_found_nothing() -> None:
    verdict = await judged(sent(after=results("Error: the index is being rebuilt")))
    assert ("unchecked", "no passages") == (verdict.outcome, verdict.detail["reason"])


async def test_an_earlier_search_s_empty_result_says_nothing_of_this_question() -> None:
    before = [{"role": "user", "content": "How is bread baked?"}, *results('{"results": []}'), {"role": "assistant", "content": "Warm."}]
    verdict = await judged(sent(before=before))
    assert ("unchecked", "no passages") == (verdict.outcome, verdict.detail["reason"])


async def test_the_only_passage_taken_out_is_nothing_found() -> None:
    exchange = sent(context=[BREAD])
    verdict = await make_stage().on_request(exchange)
    assert verdict is not None
    assert "no passage was left in the context" == verdict.detail["reason"]
    assert exchange.answer is not None


async def test_a_pasted_passage_taken_out_is_nothing_found() -> None:
    exchange = sent(f"<context>\n{BREAD}\n</context>\n\n{TALL}")
    await make_stage().on_request(exchange)
    assert exchange.answer is not None


async def test_this_project_s_own_template_without_passages_is_nothing_found() -> None:
    _, message = wrap_with_context_faithful_prompt(TALL, [])
    exchange = sent(message)
    verdict = await judged(exchange)
    assert ("low_relevance", "the prompt's place for passages is empty") == (verdict.code, verdict.detail["reason"])
    assert exchange.answer is not None


@pytest.mark.parametrize(
    "template",
    [
        f"<context>\n\n</context>\n\nQuestion: {TALL}",
        f"Given these documents, answer the question.\nDocuments:\n\nQuestion: {TALL}\nAnswer:",
        f"Context information is below.\n---------------------\n\n---------------------\nQuery: {TALL}\nAnswer: ",
        f"<documents>\nNo documents found.\n</documents>\n\n{TALL}",
    ],
)
async def test_a_template_without_passages_is_nothing_found(template: str) -> None:
    exchange = sent(template)
    verdict = await judged(exchange)
    assert ("low_relevance", 0.0) == (verdict.code, verdict.score)
    assert exchange.answer is not None


async def test_a_system_message_whose_documents_are_missing_is_nothing_found() -> None:
    exchange = sent(
        "Erkläre mir das Konzept eines Wissensgraphen", before=[{"role": "system", "content": "Antworte daraus.\n\n**Dokumente:**\n"}]
    )
    await judged(exchange)
    assert exchange.answer is not None


@pytest.mark.parametrize(
    "rules",
    [
        "Passages come between <context></context> tags.",
        "End with a list:\n\n**Answer:** …\n\n**Sources:**\n",
        "You help.",
    ],
)
async def test_what_only_speaks_of_passages_is_no_search(rules: str) -> None:
    verdict = await judged(sent(before=[{"role": "system", "content": rules}]))
    assert ("unchecked", "no passages") == (verdict.outcome, verdict.detail["reason"])


async def test_what_asks_for_no_fact_needs_no_find() -> None:
    exchange = sent("Write a short poem for the birthday of my neighbour Anna", context=[])
    verdict = await judged(exchange)
    assert ("unchecked", None) == (verdict.outcome, exchange.answer)


# ---- documents in the system message ----


@pytest.mark.parametrize(
    "label", ["**Dokumente:**", "**Documents:**", "**Documentos:**", "**Kontext:**", "Relevante Dokumente:", "### Documents pertinents:"]
)
async def test_documents_in_the_system_message_are_seen(label: str) -> None:
    exchange = sent(before=[{"role": "system", "content": f"Answer from what follows.\n\n{label}\n{BREAD}"}])
    await judged(exchange)
    assert [BREAD] == [passage.content for passage in exchange.passages]
    assert exchange.answer is not None


async def test_a_label_in_the_user_s_message_is_no_mark() -> None:
    exchange = sent(f"**Documents:**\n{BREAD}\n\n{TALL}")
    await judged(exchange)
    assert () == exchange.passages


# ---- the set ----


@pytest.mark.slow
async def test_no_answerable_turn_of_the_development_set_is_refused() -> None:
    embedder = BatchingEmbedder(UseEncoder())
    ports = make_ports(embedder=embedder)
    found = {turn.id: (await relevance_turns.outcome(turn, ports))[0] for turn in relevance_turns.load() if turn.answerable}
    embedder.stop()
    assert [] == [name for name, outcome in found.items() if outcome == "refused"]

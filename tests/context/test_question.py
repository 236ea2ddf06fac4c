"""What the user asks."""

import pytest

from proxy.context.faithful import LANGUAGES, wrap_with_context_faithful_prompt
from proxy.context.question import bare_text, find_question
from proxy.exchange import Message


def user(text: str) -> Message:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    "text",
    [
        "<context>\nThe pump has two seals. Are there more?\n</context>\n\nHow many seals has the pump?",
        "### Passage 1\nThe pump has two seals.\n\n### Passage 2\nOil is red.\n\nQuestion: How many seals has the pump?\nAnswer:",
        "Answer the question from the context.\n\nContext: The pump has two seals.\n\nQuestion: How many seals has the pump?\nHelpful Answer:",
        "Use the retrieved context.\nQuestion: How many seals has the pump? \nContext: The pump has two seals.\n\nOil is red. \nAnswer:",
        "Regeln.\n\n**Dokumente:**\nDie Pumpe hat zwei.\n\n**Frage:** How many seals has the pump?\n\n**Antwort:**",
        *(wrap_with_context_faithful_prompt("How many seals has the pump?", ["Two."], language=code)[1] for code in LANGUAGES),
        *(wrap_with_context_faithful_prompt("How many seals has the pump?", [], language=code)[1] for code in LANGUAGES),
        wrap_with_context_faithful_prompt("How many seals has the pump?", [], use_rag_template=False)[1],
        "## Retrieved Context (1 passages)\n\n### Passage 1\nTwo.\n\n\n---\nBased ONLY on the context above, answer the following question:\n"
        "How many seals has the pump?\n\nInstructions:\n- Use information from the context passages above\n- Rate your confidence: HIGH / LOW\n",
        "Instructions:\n- Be brief.\n\n<context>\nTwo.\n</context>\n\nHow many seals has the pump?",
        "How many seals has the pump?",
        "How many seals has the pump?\n\n<documents><document index='1'>The pump has two seals.</document></documents>",
    ],
)
def test_passages_and_their_template_are_not_the_question(text: str) -> None:
    assert "How many seals has the pump?" == bare_text(user(text))


def test_content_in_parts() -> None:
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
    }
    assert "What is this?" == bare_text(message)


def test_a_message_of_passages_alone_leaves_the_question_to_the_one_before() -> None:
    found = find_question([user("How many seals has the pump?"), user("<context>The pump has two seals.</context>")])
    assert "How many seals has the pump?" == found.text


def test_a_question_of_its_own_stands_alone() -> None:
    found = find_question([user("How is bread baked?"), user("Which seals of the pump need oil after winter?")])
    assert ("Which seals of the pump need oil after winter?",) == found.readings


@pytest.mark.parametrize(
    "text",
    ["And how tall is it?", "Und wie hoch ist er?", "¿Y cuánto mide?", "Et quelle est sa hauteur ?", "Why?", "OK, why?", "Tell me more"],
)
def test_a_question_that_leans_on_the_one_before_is_read_with_it(text: str) -> None:
    found = find_question([user("Where does the Eiffel Tower stand?"), user("Thanks!"), user(text)])
    assert (text, f"Where does the Eiffel Tower stand? {text}") == found.readings


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Thank you so much!", "thanks"),
        ("Hallo", "thanks"),
        ("Muchas gracias", "thanks"),
        ("ok, merci beaucoup", "thanks"),
        ("谢谢", "thanks"),
        ("Hi, who are you?", "thanks"),
        ("Can you help me?", "thanks"),
        ("Kannst du mir bitte helfen?", "thanks"),
        ("Please summarize the document in 3 bullet points", "instruction"),
        ("Übersetze das ins Englische", "instruction"),
        ("Traduce el texto al alemán", "instruction"),
        ("Can you rewrite that shorter?", "instruction"),
        ("What does it say? Keep it short.", "instruction"),
        ("What are the main points?", "instruction"),
        ("What do I need to know?", "no question"),
        ("Was steht da drin?", "instruction"),
        ("Que dit ce document ?", "instruction"),
        ("¿Qué dice esto?", "instruction"),
        ("???", "no question"),
        ("Why?", "no question"),
    ],
)
def test_a_message_that_asks_nothing_of_the_passages(text: str, reason: str) -> None:
    assert (reason, ()) == (find_question([user(text)]).reason, find_question([user(text)]).readings)


@pytest.mark.parametrize(
    "text",
    [
        "Which languages does the German translator list?",
        "Great Britain's capital?",
        "Explain photosynthesis",
        "ok, and the price of a seal?",
    ],
)
def test_what_only_looks_like_thanks_or_an_instruction_is_judged(text: str) -> None:
    assert text == find_question([user(text)]).text


def test_no_user_message_no_question() -> None:
    assert "no question" == find_question([{"role": "system", "content": "Be kind."}]).reason


def test_of_a_long_message_the_end_counts() -> None:
    assert find_question([user("word " * 2000 + "What follows?")]).text.endswith("What follows?")


def test_a_long_message_is_also_read_by_what_it_asks_in_the_end() -> None:
    story = "Yesterday morning our technician opened pump number four, drained its housing, cleaned every bolt, replaced gaskets, filters, "
    story += "hoses, clamps, valves, sensors, cables, fuses, brackets, springs, washers, bearings, plugs, and finally restarted it. "
    found = find_question([user(story + "How many seals has the pump? Greetings, Ada")])
    assert "How many seals has the pump?" == found.readings[1]


# ---- questions that may be answered in the model's stead ----


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (True, "How tall is the Eiffel Tower?"),
        (True, "which method of forecasting uses averages"),
        (True, "Wie hoch ist der Eiffelturm in Paris?"),
        (True, "What is a knowledge graph?"),
        (True, "Was ist ein Wissensgraph?"),
        (False, "Wie hoch?"),
        (False, "What's the total?"),
        (False, "Combien d'heures pour la moitié ?"),
        (False, "¿Y para la otra mitad del curso?"),
        (False, "When was it built by the company?"),
        (False, "Qual è l'altezza esatta della torre Eiffel di Parigi?"),
        (True, "¿Qué altura tiene la torre Eiffel?"),
        (True, "Combien mesure la tour Eiffel ?"),
        (False, "How are you today?"),
        (False, "Can you put your last answer into a table?"),
        (False, "Wie geht es dir?"),
        (False, "¿Puedes escribir un poema?"),
        (False, "Peux-tu traduire ta réponse ?"),
        (False, "Write a poem about towers."),
        (False, "Hello there"),
    ],
)
def test_a_plain_question_asks_for_a_fact_and_says_of_what(plain: bool, text: str) -> None:
    assert plain == find_question([user(text)]).plain


def test_a_question_that_leans_on_the_talk_is_not_plain() -> None:
    talk = [user("Where is the Eiffel Tower?"), {"role": "assistant", "content": "In Paris."}, user("And how tall is it?")]
    assert not find_question(talk).plain


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Erkläre mir das Konzept von RAG", "RAG"),
        ("Please explain the idea of reranking to me", "reranking to me"),
        ("Explain briefly how a heat pump works.", "how a heat pump works"),
        ("Explícame el concepto de entropía", "entropía"),
        ("Explique-moi le principe de la pompe à chaleur", "pompe à chaleur"),
    ],
)
def test_a_request_for_an_explanation_is_read_by_its_subject_too(text: str, subject: str) -> None:
    assert (text, subject) == find_question([user(text)]).readings


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Erkläre mir das Konzept eines Wissensgraphen", True),
        ("Define entropy in thermodynamics", True),
        ("Explain your last answer", False),
        ("Explain.", False),
        ("Write a poem about entropy", False),
    ],
)
def test_whether_a_request_asks_for_a_fact(text: str, asks: bool) -> None:
    assert asks == find_question([user(text)]).asks

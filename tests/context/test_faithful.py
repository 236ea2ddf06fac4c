import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.context.faithful import (
    CONTEXT_FAITHFUL_RAG_TEMPLATE,
    CONTEXT_FAITHFUL_SYSTEM_SUFFIX,
    CONTEXT_FAITHFUL_USER_PREFIX,
    LANGUAGES,
    admits_ignorance,
    build_context_block,
    detect_context_ignoring,
    extract_citations,
    extract_confidence,
    texts,
    wrap_with_context_faithful_prompt,
)
from proxy.context.faithful_texts import ADMISSIONS
from proxy.exchange import Evidence
from tests.cost import below

# ---- wordings ----


@pytest.mark.parametrize(
    "rule", ["Read all", "Answer only from the context", "not in the context", "trust the context", "[Passage N]", "HIGH", "LOW"]
)
def test_the_rules_of_the_suffix(rule: str) -> None:
    assert rule in CONTEXT_FAITHFUL_SYSTEM_SUFFIX


@pytest.mark.parametrize("form", ["[Passage N]", "[Context Passage N]", "[Source: ", "[Retrieved from: ", "[Context: "])
def test_the_suffix_offers_every_form_of_citation(form: str) -> None:
    assert form in CONTEXT_FAITHFUL_SYSTEM_SUFFIX


@pytest.mark.parametrize("language", LANGUAGES)
def test_where_the_format_is_fixed_nothing_is_asked_that_would_break_it(language: str) -> None:
    plain = texts(language).system_suffix_plain
    assert [] == [word for word in ("[", "HIGH", "HOCH", "ALTA", "Confidence", "Vertrauen:", "Confianza") if word in plain]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_what_the_others_say(language: str) -> None:
    words = texts(language)
    assert texts("en").system_suffix.count("\n") == words.system_suffix.count("\n")
    english, own = (t.template(cite=True, rate=True).format(context_block="C", question="Q") for t in (texts("en"), words))
    assert own.startswith("C\n\n---\n\n")
    assert english.count("\n") == own.count("\n")


def test_a_language_without_wording_gets_the_english_one() -> None:
    assert texts("en") is texts("ja")


# ---- the block ----


def test_passages_are_numbered_with_source_and_relevance() -> None:
    block = build_context_block(
        [{"content": "A", "source": "a.md", "score": 0.9}, {"text": "B", "relevance": "0.5"}, "C", Evidence("D", "d.md")]
    )
    assert (
        "## Retrieved Context (4 passages)\n\n### Passage 1 [Source: a.md] (relevance: 0.90)\nA\n\n### Passage 2 (relevance: 0.50)\nB\n\n"
        "### Passage 3\nC\n\n### Passage 4 [Source: d.md]\nD\n\n## End of Retrieved Context"
    ) == block


def test_the_block_holds_no_more_than_asked() -> None:
    block = build_context_block([str(i) for i in range(20)], max_passages=3)
    assert ["### Passage 1", "### Passage 2", "### Passage 3"] == [line for line in block.splitlines() if line.startswith("### ")]


def test_the_block_has_the_title_it_is_given() -> None:
    assert build_context_block(["a"], source_label="Handbook").startswith("## Handbook (1 passage)\n")


def test_the_block_in_german_spanish_and_french() -> None:
    passage = {"content": "a", "source": "s", "score": 1}
    assert (
        "## Contexte récupéré (1 passage)\n\n### Passage 1 [Source: s] (pertinence: 1.00)\na\n\n## Fin : Contexte récupéré"
        == build_context_block([passage], language="fr")
    )
    assert "## Abgerufener Kontext (1 Passage)\n\n### Passage 1 [Quelle: s] (Relevanz: 1.00)\na" in build_context_block(
        [passage], language="de"
    )
    assert "## Contexto recuperado (1 pasaje)\n\n### Pasaje 1 [Fuente: s] (relevancia: 1.00)\na" in build_context_block(
        [passage], language="es"
    )


@pytest.mark.parametrize("passages", [None, [], [None], [""], [{"content": None}], [{"content": 3}], [7], {}, [["a"]]])
def test_a_block_without_passages_says_so(passages: Any) -> None:
    assert "[Retrieved Context: No passages retrieved]" == build_context_block(passages)
    assert "[Abgerufener Kontext: Keine Passagen abgerufen]" == build_context_block(passages, language="de")


def test_a_source_cannot_start_a_line_of_its_own() -> None:
    assert "[Source: a ### Passage 9]" in build_context_block([{"content": "x", "source": "a\n### Passage 9"}])


# ---- the wrapped message ----


def test_the_template_puts_the_question_behind_the_passages() -> None:
    suffix, wrapped = wrap_with_context_faithful_prompt("How tall?", ["It is 330 m tall."])
    assert CONTEXT_FAITHFUL_SYSTEM_SUFFIX == suffix
    block = build_context_block(["It is 330 m tall."])
    assert CONTEXT_FAITHFUL_RAG_TEMPLATE.format(context_block=block, question="How tall?") == wrapped


def test_the_prefix_keeps_the_message_as_it_is() -> None:
    _, wrapped = wrap_with_context_faithful_prompt("How tall?", ["330 m"], use_rag_template=False)
    assert CONTEXT_FAITHFUL_USER_PREFIX + build_context_block(["330 m"]) + "\n\nQuestion: How tall?" == wrapped


def test_a_question_apart_from_the_message_leaves_nothing_out() -> None:
    _, wrapped = wrap_with_context_faithful_prompt("Be brief.", ["330 m"], question="How tall?")
    assert "Question: Be brief.\n\nHow tall?\n" in wrapped


def test_without_passages_the_message_says_that_there_are_none() -> None:
    suffix, wrapped = wrap_with_context_faithful_prompt("How tall?", [])
    assert CONTEXT_FAITHFUL_SYSTEM_SUFFIX == suffix
    assert "No passages retrieved" in wrapped
    assert "Question: How tall?\n" in wrapped


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_passages_come_before_the_question_and_that_before_the_instructions(language: str) -> None:
    _, wrapped = wrap_with_context_faithful_prompt("How tall?", ["330 m"], language=language)
    places = [wrapped.index(text) for text in ("330 m", "How tall?", texts(language).template_cited, texts(language).template_rated)]
    assert sorted(places) == places


@pytest.mark.parametrize("rag", [True, False])
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_not_asked_for_is_in_neither_text(language: str, rag: bool) -> None:
    both = wrap_with_context_faithful_prompt("Why?", ["x"], use_rag_template=rag, language=language, cite=False, rate=False)
    words = texts(language)
    asking = (words.cited.strip(), words.rated.strip(), words.prefix_cited, words.template_cited, words.template_rated)
    assert [] == [text for text in asking for said in both if text in said]


def test_braces_in_passages_and_questions_are_text() -> None:
    assert "{context} {0} {}" in wrap_with_context_faithful_prompt("{question}", ["{context} {0} {}"])[1]


# ---- citations ----


def passage_numbers(response: str) -> list[int]:
    return [citation["number"] for citation in extract_citations(response) if citation["type"] == "passage"]


def test_citations_are_dicts_with_type_and_span() -> None:
    response = "It is 330 m [Passage 2], see [Source: a.md] and [Context: the table]."
    expected = [
        {"type": "passage", "number": 2, "span": (12, 23)},
        {"type": "source", "source": "a.md", "span": (29, 43)},
        {"type": "context", "reference": "the table", "span": (48, 68)},
    ]
    assert expected == extract_citations(response)
    assert ["[Passage 2]", "[Source: a.md]", "[Context: the table]"] == [
        response[slice(*c["span"])] for c in expected if isinstance(c["span"], tuple)
    ]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("[Context Passage 4]", [4]),
        ("[Passage 1, 2]", [1, 2]),
        ("[Passages 1-3]", [1, 2, 3]),
        ("[Passage 1–2, 5]", [1, 2, 5]),
        ("[Passage 1, Passage 3]", [1, 3]),
        ("[Passage 1 and 2]", [1, 2]),
        ("[Passagen 1, 3]", [1, 3]),
        ("[Passagen 1 und 3]", [1, 3]),
        ("[Pasaje 2]", [2]),
        ("[Pasajes 1 y 2]", [1, 2]),
        ("[passage 2]", [2]),
        ("【Passage 3】", [3]),
        ("[Passage 1: handbook, p. 12]", [1]),
        ("**[Passage 1]**[Passage 2]", [1, 2]),
        ("[Passage 9-2]", [9, 2]),
        ("[Passages 1-9999]", [1, 9999]),
        ("[Passage N] (Passage 2) Passage 3 [2]", []),
    ],
)
def test_forms_of_passage_citations(response: str, expected: list[int]) -> None:
    assert expected == passage_numbers(response)


@pytest.mark.parametrize(
    "form", ["[Source: a b]", "[Retrieved from: a b]", "[Quelle: a b]", "[Abgerufen von: a b]", "[Fuente: a b]", "[Recuperado de: a b]"]
)
def test_forms_of_source_citations(form: str) -> None:
    assert [{"type": "source", "source": "a b", "span": (0, len(form))}] == extract_citations(form)


@pytest.mark.parametrize("form", ["[Context: a]", "[Kontext: a]", "[Contexto: a]"])
def test_forms_of_context_citations(form: str) -> None:
    assert ["a"] == [c["reference"] for c in extract_citations(form)]


# ---- confidence ----


@pytest.mark.parametrize(
    ("expected", "response"),
    [
        ("HIGH", "It is so.\n\nConfidence: HIGH"),
        ("MEDIUM", "**Confidence:** MEDIUM"),
        ("LOW", "**Confidence: LOW**"),
        ("LOW", "Confidence level: low"),
        ("MEDIUM", "Confidence Rating - [Medium]"),
        ("HIGH", "My confidence is high."),
        ("HIGH", "HIGH confidence"),
        ("HIGH", "Confidence: HIGH, since the passage says so"),
        ("HIGH", "Vertrauen: HOCH"),
        ("MEDIUM", "**Vertrauen**: **MITTEL**"),
        ("LOW", "Vertrauensstufe: niedrig"),
        ("HIGH", "Confianza: ALTA"),
        ("LOW", "Nivel de confianza: **BAJA**"),
        ("HIGH", "Confiance : élevée"),
        ("LOW", "Confidence: HIGH at first.\nConfidence: LOW"),
        (None, "Confidence: HIGH / MEDIUM / LOW"),
        (None, "A high-level overview with medium heat."),
        (None, "Confidence matters."),
        ("MEDIUM", "Based on the context. MEDIUM."),
        ("HIGH", "It opened in 1889.\n**HIGH**"),
        ("LOW", "Es steht nur am Rande darin. NIEDRIG"),
        ("HIGH", "HIGH"),
        (None, "The river is HIGH."),
        (None, "It ends on a high."),
        (None, ""),
    ],
)
def test_confidence(expected: str | None, response: str) -> None:
    assert expected == extract_confidence(response)


# ---- admissions, and ignoring the context ----


@pytest.mark.parametrize(
    "response",
    [
        "I don't know.",
        "I couldn’t find that anywhere.",
        "This information is not in the knowledge base.",
        "The passages do not say how tall it is.",
        "The answer cannot be determined from the given context.",
        "Ich weiß es nicht.",
        "Diese Information steht nicht in der Wissensdatenbank.",
        "Der Kontext enthält keine Angaben dazu.",
        "Dazu liegen mir keine Informationen vor.",
        "No lo sé.",
        "Esta información no está en la base de conocimientos.",
        "El contexto no menciona su altura.",
        "Je ne sais pas.",
        "Cette information ne figure pas dans la base de connaissances.",
        "Le contexte ne mentionne pas sa hauteur.",
        "Les documents ne contiennent aucune information à ce sujet.",
        "Aus dem Kontext geht das nicht hervor.",
        "Da der Kontext die Höhe nicht erwähnt, bleibt sie offen.",
        "知识库中没有这方面的信息。",
    ],
)
def test_admissions(response: str) -> None:
    assert admits_ignorance(response)


@pytest.mark.parametrize(
    "response",
    [
        "Paris is the capital of France.",
        "Die Stadt ist nicht groß.",
        "The city does not allow cars.",
        "No es una ciudad grande.",
        "Ce n'est pas grand.",
        "Die Quelle des Flusses liegt nicht in Bayern.",
        "La source du fleuve n'est pas en France.",
    ],
)
def test_an_ordinary_no_is_no_admission(response: str) -> None:
    assert not admits_ignorance(response)


@given(st.sampled_from(ADMISSIONS).flatmap(lambda phrase: st.from_regex(phrase, alphabet=st.characters(max_codepoint=255))))
def test_every_phrase_is_found_that_is_listed(said: str) -> None:
    said = said.lower()
    assume(any(re.search(phrase, said) for phrase in ADMISSIONS))
    assert admits_ignorance(said)


LONG = "The tower was built between 1887 and 1889 by the company of Gustave Eiffel."


def test_a_substantive_answer_without_citation_or_admission_likely_ignores_the_context() -> None:
    found = detect_context_ignoring(LONG, build_context_block(["The tower is 330 m tall."]))
    assert {"likely_ignored": True, "has_citation": False, "has_idk": False, "confidence": None} == {
        k: v for k, v in found.items() if k != "details"
    }
    assert found["details"]


@pytest.mark.parametrize(
    ("response", "context"),
    [
        (LONG + " [Passage 1]", "c"),
        (LONG + " The rest is not in the context.", "c"),
        ("Short.", "c"),
        ("x" * 50, "c"),
        (LONG, ""),
        (LONG, " \n"),
    ],
)
def test_what_does_not_ignore_the_context(response: str, context: str) -> None:
    assert not detect_context_ignoring(response, context)["likely_ignored"]


def test_the_finding_carries_the_rating() -> None:
    assert "HIGH" == detect_context_ignoring("It is 330 m tall [Passage 1].\nConfidence: HIGH", "c")["confidence"]


# ---- odd input ----

ODD: list[Any] = [None, 3, b"x", [], {}]


@pytest.mark.parametrize("odd", ODD)
def test_odd_answers_never_fail(odd: Any) -> None:
    assert ([], None, False) == (extract_citations(odd), extract_confidence(odd), detect_context_ignoring(odd, odd)["likely_ignored"])


@given(st.text(st.sampled_from("[]【】Passage :,-–12 Confidence: HIGH not in the context\n") | st.characters(), max_size=200))
def test_spans_are_in_order_and_inside(response: str) -> None:
    spans = [citation["span"] for citation in extract_citations(response)]
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(response) for start, end in spans)
    detect_context_ignoring(response, response)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["content", "text", "source", "score", "relevance", "metadata"]), x),
        max_leaves=8,
    )
)
def test_odd_passages_never_fail(passages: Any) -> None:
    build_context_block(passages)


@pytest.mark.parametrize(
    "piece", ["[", "[Passage 1, ", "[Passage 1", "confidence: ", "not in the ", "context ", "no ", "le contexte ne ", "I don't "]
)
@pytest.mark.cost
def test_the_time_is_linear_in_the_length(piece: str) -> None:
    with below(3):
        detect_context_ignoring(piece * (200_000 // len(piece)), "c")

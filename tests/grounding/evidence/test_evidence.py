"""`proxy.grounding.evidence.gathering`: what counts as evidence, where each piece stands, and what is found for a claim."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.faithful import wrap_with_context_faithful_prompt
from proxy.context.passages import find_passages
from proxy.exchange import Evidence, Exchange
from proxy.grounding.evidence.asserted import is_question
from proxy.grounding.evidence.gathering import EvidenceBase, gather
from proxy.language.text import split_sentences
from proxy.testing import make_exchange
from tests.cost import below

CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": "{}"}}]}


def exchange_of(*messages: Mapping[str, Any], passages: Sequence[Evidence] = ()) -> Exchange:
    """As the pipeline leaves it when a stage reads passages."""
    exchange = make_exchange(messages)
    found = find_passages(exchange.original.messages)
    exchange.evidence = (*passages, *found)
    exchange.passages = (*passages, *found)
    return exchange


def base(content: str, **fields: Any) -> EvidenceBase:
    return EvidenceBase([Evidence(content, **fields)])


# ---- gathering ----


def test_passages_come_first_in_the_order_of_the_prompt() -> None:
    passages = [Evidence("Second things first."), Evidence(" "), Evidence("Then the first.")]

    found = gather(exchange_of({"role": "user", "content": "I live in Rome."}, passages=passages))

    assert [e.content for e in found] == ["Second things first.", "Then the first.", "I live in Rome."]


def test_a_passage_that_a_stage_left_out_is_still_evidence() -> None:
    exchange = exchange_of(passages=[Evidence("Kept."), Evidence("Left out.")])
    exchange.passages = exchange.passages[:1]

    assert [e.content for e in gather(exchange)][:2] == ["Kept.", "Left out."]


def calling(id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("name", "arguments", "outdated"),
    [
        ("cancel_order", '{"order": "A-12"}', True),
        ("get_order", '{"order": "A-13"}', False),
        ("job_status", "{}", False),
        ("set_status", '{"state": "closed"}', True),
        ("browser_click", '{"element": "Cancel order"}', True),
        ("bash", '{"command": "kubectl get pods -n billing"}', False),
        ("bash", '{"command": "kubectl get pods && kubectl delete pod web-1"}', True),
        ("bash", '{"command": "echo 410 > stock.txt"}', True),
        ("kubectl", '{"command": "rollout restart deploy/web"}', True),
        ("sql", '{"query": "SELECT * FROM orders ORDER BY total"}', False),
        ("execute_sql", '{"query": "SELECT * FROM orders"}', False),
        ("delete_rows", '{"query": "get old rows"}', True),
        ("sql", '{"query": "UPDATE orders SET total = 410"}', True),
        ("HassTurnOff", '{"name": "kitchen light"}', True),
        ("unsubscribe", '{"list": "autumn", "email": "ada@posteo.example"}', True),
    ],
)
def test_what_was_read_before_a_call_that_may_change_it_is_outdated(name: str, arguments: str, outdated: bool) -> None:
    """Whatever a call may have changed says nothing against what an answer says; a passage and what was read since do."""
    exchange = exchange_of(
        {"role": "user", "content": "Cancel A-12."},
        CALL,
        {"role": "tool", "tool_call_id": "c1", "content": "A-12 is open."},
        calling("c2", name, arguments),
        {"role": "tool", "tool_call_id": "c2", "content": "ok"},
        passages=[Evidence("Orders are delivered on Mondays.")],
    )
    evidence = EvidenceBase(gather(exchange))

    told = {evidence.sentences[i]: evidence.is_outdated(i) for i in range(len(evidence))}

    assert {"Orders are delivered on Mondays.": False, "A-12 is open.": outdated, "ok": False} == told


@pytest.mark.parametrize(("again", "outdated"), [('{"room": "bath"}', True), ('{"room": "hall"}', False)])
def test_what_the_same_call_brought_before_is_outdated(again: str, outdated: bool) -> None:
    """The world changes without the agent: a pod starts, a room warms up."""
    exchange = exchange_of(
        {"role": "user", "content": "How warm is it?"},
        calling("c1", "get_state", '{"room": "bath"}'),
        {"role": "tool", "tool_call_id": "c1", "content": "It is 19.5 degrees there."},
        calling("c2", "get_state", again),
        {"role": "tool", "tool_call_id": "c2", "content": "It is 20.8 degrees there."},
    )
    evidence = EvidenceBase(gather(exchange))

    told = {evidence.sentences[i]: evidence.is_outdated(i) for i in range(len(evidence))}

    assert {"It is 19.5 degrees there.": outdated, "It is 20.8 degrees there.": False} == {t: told[t] for t in told if "degrees" in t}


def test_what_the_assistant_said_is_no_evidence() -> None:
    found = gather(exchange_of({"role": "user", "content": "Hi."}, {"role": "assistant", "content": "The tower is in London."}))

    assert [e.content for e in found] == ["Hi."]


def test_a_message_that_compression_took_out_is_still_evidence() -> None:
    exchange = exchange_of({"role": "user", "content": "My dog is Rex."}, {"role": "user", "content": "Go on."})
    exchange.messages = exchange.messages[1:]

    assert "My dog is Rex." in [e.content for e in gather(exchange)]


def test_the_result_of_a_tool_that_the_proxy_answered_is_evidence() -> None:
    exchange = exchange_of({"role": "user", "content": "Go on."})
    call = {"id": "own", "type": "function", "function": {"name": "groundwire_read_archive", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "own", "content": "The invoice says 12 EUR."}
    exchange.messages = [*exchange.messages, {"role": "assistant", "tool_calls": [call]}, result]

    found = gather(exchange)[-1]

    assert (found.content, found.source, found.kind, found.message_index) == (
        "The invoice says 12 EUR.",
        "groundwire_read_archive",
        "tool_result",
        None,
    )


def test_a_shortened_copy_of_a_tool_result_is_not_taken_twice() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "The order is shipped. It is large."}
    exchange = exchange_of({"role": "user", "content": "Go on."}, CALL, result, {"role": "user", "content": "And now."})
    exchange.messages = [*exchange.messages[:2], {**result, "content": "The order is shipped."}, exchange.messages[3]]

    assert [e.content for e in gather(exchange) if e.kind == "tool_result"] == ["The order is shipped. It is large."]


def test_a_tool_result_bears_its_tools_name() -> None:
    found = gather(exchange_of(CALL, {"role": "tool", "tool_call_id": "c1", "content": "Order 5 is shipped."}))

    assert [(e.source, e.kind, e.message_index) for e in found] == [("get_order", "tool_result", 1)]


def test_a_passage_within_a_message_is_not_said_twice() -> None:
    text = "Use this.\n<context>\nParis is the capital.\n</context>\nI am in a hurry."
    found = EvidenceBase(gather(exchange_of({"role": "user", "content": text})))

    assert found.sentences == ["Paris is the capital.", "I am in a hurry."]
    for i in range(2):
        span = found.span(i)
        assert span.message_start is not None
        assert text[span.message_start : span.message_start + len(span.text)] == span.text


def test_a_json_results_passages_are_not_said_twice() -> None:
    body = json.dumps({"results": [{"content": "Paris is\nthe capital.", "price": 5}]})
    call = json.loads(json.dumps(CALL).replace("get_order", "web_search"))
    found = EvidenceBase(gather(exchange_of(call, {"role": "tool", "tool_call_id": "c1", "content": body})))

    assert found.sentences == ["Paris is", "the capital.", "results.price: 5"]


@pytest.mark.parametrize("rag", [True, False])
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("language", ["en", "de", "es", "fr"])
def test_rules_that_this_project_words_are_no_evidence(language: str, asked: bool, rag: bool) -> None:
    suffix, user = wrap_with_context_faithful_prompt(
        "", ["Paris is the capital."], use_rag_template=rag, language=language, cite=asked, rate=asked
    )
    messages = ({"role": "system", "content": "The shop opens at nine." + suffix}, {"role": "user", "content": user})

    assert EvidenceBase(gather(exchange_of(*messages))).sentences == ["Paris is the capital.", "The shop opens at nine."]


def test_only_the_text_of_several_parts_is_read() -> None:
    parts = [
        {"type": "text", "text": "I am Ada."},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": "Born 1815."},
    ]

    found = EvidenceBase(gather(exchange_of({"role": "user", "content": parts})))

    assert found.sentences == ["I am Ada.", "Born 1815."]
    assert found.span(1).message_start == len("I am Ada.\n")


@pytest.mark.parametrize(
    "question",
    [
        "Is the Eiffel Tower in London?",
        "is the tower in london",
        "Tell me whether the tower is in London.",
        "Where is it",
        "Steht der Turm in London?",
        "Prüfe bitte, ob der Turm in London steht.",
        "¿Está la torre en Londres?",
        "Dime si está en Londres.",
        "La tour est-elle à Londres ?",
        "Est-ce que la tour est à Londres",
        "Vérifie que la tour est à Londres.",
    ],
)
def test_a_question_of_the_user_supports_nothing(question: str) -> None:
    found = gather(exchange_of({"role": "user", "content": f"I live in Rome. {question}"}))

    assert EvidenceBase(found).sentences == ["I live in Rome."]


@pytest.mark.parametrize(
    "statement", ["My order is 5.", "When I was in Paris, I fell ill.", "Ich wohne in Bern.", "Vivo en Lima.", "J'ai un chat."]
)
def test_a_statement_is_no_question(statement: str) -> None:
    assert not is_question(statement)


def test_a_question_in_a_passage_stays() -> None:
    assert base("What is a tower? A tall building.").sentences == ["What is a tower?", "A tall building."]


# ---- pieces and their places ----

BLOCKS = st.sampled_from(
    [
        "The tower was built in 1889. It is 330 m high.",
        "Der Turm steht am 3. Mai, z. B. in Paris.",
        "¡Hola! ¿Qué tal?",
        "« Bonjour », dit-il. Oui.",
        "# Prices",
        "| Name | Born |\n|---|---|\n| Ada | 1815 |\n| Bob \\| Co | 1900 |",
        "a | b | c\n1 | 2 | 3\n4 | 5 | 6",
        "name,born,town\nAda,1815,Bern\nBob,1900,Rom",
        "x\ty\tz\n1\t2\t3",
        '```json\n{"a": {"b": 5, "c": ["x", "é\\n\\u00fc"]}, "d": "long"}\n```',
        "```python\ndef f():\n    return 1\n```",
        "```\nnever closed",
        "w" * 700,
        "one two, three; " * 60,
        "",
        "   ",
        "---",
        "|",
        "😀 emoji. Fin.",
        "Born | 1815\nDied | 1852",
        " id | name\n----+------\n  1 | Ada\n(1 row)",
        "+----+\n| id | a |\n+----+---+\n| 1 | 2 |\n+----+---+",
        "│ id │ name │\n├────┼──────┤\n│ 1  │ Ada  │",
        "NAME   READY   AGE\nweb    1/1     3d\ndb             4d\n\tx\xa0 y",
        "Item  Price\n====  =====\nTea   2.50\n====  =====",
        '{"a": 1}',
        '{"not": json',
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(['First one. Second "one".\n\nThird 😀 ü\t one. ' * 4]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=15,
)
TEXTS = (
    st.lists(BLOCKS, max_size=8).map("\n".join)
    | st.text(max_size=300)
    | st.builds(json.dumps, JSON, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 1]))
    | st.lists(st.builds("{}{}".format, st.sampled_from(["", "Found: ", "a = "]), st.builds(json.dumps, JSON) | st.builds(repr, JSON))).map(
        "\n".join
    )
)


@given(TEXTS)
def test_every_piece_is_where_it_says_in_order_without_overlap(text: str) -> None:
    found = base(text)
    at = 0
    for i, sentence in enumerate(found.sentences):
        span = found.span(i)
        assert text[span.start : span.end] == span.text
        assert at <= span.start < span.end
        assert sentence.strip() == sentence != ""
        at = span.end


@given(TEXTS, TEXTS, st.text(max_size=60), st.integers(700, 1200))
def test_a_selection_stays_within_its_budget_and_is_the_same_again(one: str, other: str, claim: str, budget: int) -> None:
    evidence = [Evidence(one), Evidence(other)]

    found = EvidenceBase(evidence).search(claim, budget_chars=budget)

    assert len(found.text) <= budget
    assert list(found.positions) == sorted(set(found.positions))
    assert found == EvidenceBase(evidence).search(claim, budget_chars=budget)


def test_prose_is_cut_as_the_verifier_was_trained() -> None:
    text = "Dr. Smith came on 3 May. He said so!\n\nThen, e.g. later, he left.  \nEnd " * 60

    assert base(text).sentences == [sentence.strip() for sentence in split_sentences(text)]


def test_a_row_says_its_columns() -> None:
    text = "| Name | Born |\n| --- | ---: |\n| Ada | 1815 |\n| Bob | 1900 |"
    found = base(text)

    assert found.sentences == ["Name: Ada; Born: 1815", "Name: Bob; Born: 1900"]
    assert found.span(0).text == "Ada | 1815"


@pytest.mark.parametrize(
    "table",
    [
        "name,born,town\nAda,1815,Bern\nBob,1900,Rom",
        "name;born;town\nAda;1815;Bern\nBob;1900;Rom",
        "name\tborn\ttown\nAda\t1815\tBern\nBob\t1900\tRom",
    ],
)
def test_separated_values_are_a_table(table: str) -> None:
    assert base(table).sentences == ["name: Ada; born: 1815; town: Bern", "name: Bob; born: 1900; town: Rom"]


@pytest.mark.parametrize(
    "table",
    [
        "name | born | town\n-----+------+-----\nAda  | 1815 | Bern\nBob  | 1900 | Rom",
        "+------+------+------+\n| name | born | town |\n+------+------+------+\n| Ada  | 1815 | Bern |\n| Bob  | 1900 | Rom  |\n+------+------+------+",
        "+------+------+------+\n| name | born | town |\n+======+======+======+\n| Ada  | 1815 | Bern |\n+------+------+------+\n| Bob  | 1900 | Rom  |",
        "┌──────┬──────┬──────┐\n│ name │ born │ town │\n├──────┼──────┼──────┤\n│ Ada  │ 1815 │ Bern │\n│ Bob  │ 1900 │ Rom  │\n└──────┴──────┴──────┘",
        "name   born   town\nAda    1815   Bern\nBob    1900   Rom",
        "name   born   town\n----   ----   ----\nAda    1815   Bern\nBob    1900   Rom",
        "name   born   town\n------------------\nAda    1815   Bern\nBob    1900   Rom",
        "name        born  town\nAda         1815  Bern\nBob  1900  Rom",
        "```\nname   born   town\nAda    1815   Bern\nBob    1900   Rom\n```",
    ],
)
def test_a_table_that_is_drawn_says_its_columns(table: str) -> None:
    found = base(table)

    assert found.sentences == ["name: Ada; born: 1815; town: Bern", "name: Bob; born: 1900; town: Rom"]
    assert all(found.span(i).text.startswith(name) for i, name in enumerate(("Ada", "Bob")))


def test_columns_in_capitals_may_be_empty_and_stand_between_a_command_and_a_count() -> None:
    text = "```\n$ kubectl get pods\nNAME   READY   NODE\nweb    1/1     n-02\ndb     0/1\n2 pods\n```"

    assert base(text).sentences == ["$ kubectl get pods", "NAME: web; READY: 1/1; NODE: n-02", "NAME: db; READY: 0/1", "2 pods"]


@pytest.mark.parametrize(
    "text",
    [
        "-rw-r--r--  1 root root   4096 Dec  1 a\ndrwxr-xr-x  2 root root   4096 Dec  1 b\ndrwxr-xr-x  2 root root   4096 Dec  1 c",
        "INFO   main   started\nWARN   main   took 12 s\nWARN   main   took 13 s",
        "Name      Ada\nBorn      1815\nDied      1852",
        "x      = 1\nlong   = 2\ny      = 3",
        "Monday    Kim    Ruiz\nTuesday   Lee    Kim\nFriday    Ruiz   Lee",
        "Period 05    R. Quilliam   Deckhand\nBasic        160.0 h       14.20\nOvertime     12.0 h        21.30",
        "Total   |  3\nsrc\n├── a.py\n└── b.py",
    ],
    ids=["files", "log", "form", "settings", "no names", "a heading", "tree"],
)
def test_lines_with_gaps_are_no_table_without_names_over_them(text: str) -> None:
    assert [line.split()[0] for line in text.split("\n")] == [sentence.split()[0] for sentence in base(text).sentences]


def test_a_quoted_cell_may_hold_the_separator() -> None:
    assert base('name,born,town\n"Lovelace, Ada",1815,Bern\nBob,1900,Rom').sentences[0] == "name: Lovelace, Ada; born: 1815; town: Bern"


def test_a_table_of_two_columns_without_a_rule_has_names_on_the_left() -> None:
    assert base("Born | 1815\nDied | 1852").sentences == ["Born: 1815", "Died: 1852"]


def test_sentences_with_commas_are_no_table() -> None:
    text = "Ada, Bob, Cy came.\nDora, Eve, Fay left.\nGus, Hal, Ivy stayed."

    assert base(text).sentences == text.split("\n")


def test_json_says_path_and_value_for_each_object() -> None:
    text = json.dumps({"order": {"id": 5, "status": "shipped", "items": [{"sku": "A1", "qty": 2}], "late": False}})
    found = base(text, kind="tool_result")

    assert found.sentences == ["order.id: 5; order.status: shipped; order.late: false", "items.sku: A1; items.qty: 2"]
    assert found.span(0).text == '"id": 5, "status": "shipped"'
    assert found.span(1).text == '"sku": "A1", "qty": 2'


def test_a_long_string_in_json_is_read_as_text_with_its_place() -> None:
    text = json.dumps({"body": 'Élan "vital" was 1907.\nIt sold well.'})
    found = base(text)

    assert found.sentences == ['Élan "vital" was 1907.', "It sold well."]
    assert found.span(0).text == '\\u00c9lan \\"vital\\" was 1907.'


def test_json_within_json_is_read() -> None:
    assert base(json.dumps({"content": [{"type": "text", "text": '{"order": {"id": 7}}'}]})).sentences == [
        "content.type: text",
        "order.id: 7",
    ]


def test_json_lines_are_read_one_by_one() -> None:
    assert base('{"a": 1}\n{"a": 2}\n').sentences == ["a: 1", "a: 2"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('Birds:\n{"bird": "wren", "eggs": 6}\n{"bird": "rook", "eggs": 4}', ["Birds:", "bird: wren; eggs: 6", "bird: rook; eggs: 4"]),
        ('# Birds\n\n[\n {"bird": "wren"},\n {"bird": "rook"}\n]\nThat is all.', ["# Birds", "bird: wren", "bird: rook", "That is all."]),
        ('wren: {"eggs": 6}\nrook: {"eggs": 4}', ["wren.eggs: 6", "rook.eggs: 4"]),
        (
            "[{'bird': 'wren', 'ringed': True}, {'bird': \"rook's\", 'ringed': None}]",
            ["bird: wren; ringed: true", "bird: rook's; ringed: null"],
        ),
        ("Found {'bird': 'wren'} and [1, 2].", ["Found {'bird': 'wren'} and [1, 2]."]),
        ('Cut off: [{"bird": "wren"},\n{"bird": "ro', ['Cut off: [{"bird": "wren"},', '{"bird": "ro']),
    ],
)
def test_json_among_lines_says_its_fields_and_its_label(text: str, sentences: list[str]) -> None:
    assert sentences == base(text).sentences


@pytest.mark.cost
def test_broken_json_is_not_read_from_each_of_its_lines_to_the_end() -> None:
    with below(4.0):
        base('["a",\n' * 30_000)
        base('{"a": ' * 50_000)
        base("{'a': {'b\n" * 20_000)
        base(" \t" * 20_000)
        base("[ \t" * 20_000)


def test_a_cut_object_keeps_its_first_member() -> None:
    text = json.dumps({"name": "Ada", **{f"field{i}": "x" * 50 for i in range(30)}})

    assert len(base(text).sentences) > 1
    assert all(sentence.startswith("name: Ada") for sentence in base(text).sentences)


def test_very_deep_json_is_no_error() -> None:
    assert len(base("[" * 900 + "]" * 900)) == 0


def test_the_heading_comes_with_its_section() -> None:
    text = "## Pro\nSupport is included. The fee is 20 EUR.\n## Basic\nThe fee is 5 EUR.\n" + "Rain falls on gardens and birds sing.\n" * 1
    text += "\n".join(f"Rain number {i} falls on gardens and birds sing." for i in range(40))

    found = base(text).search("It costs a fee of 20 EUR")

    assert "## Pro" in found.text


def test_too_much_evidence_is_cut_and_says_so() -> None:
    evidence = [Evidence("One two. " * 10), Evidence("Three four. " * 10)]

    assert not EvidenceBase(evidence).truncated
    assert EvidenceBase(evidence, max_chars=100).truncated
    assert EvidenceBase(evidence, max_chars=100).chars == 100
    assert EvidenceBase(evidence, max_pieces=12).truncated
    assert len(EvidenceBase(evidence, max_pieces=12)) == 12


def test_a_repeated_sentence_takes_no_room() -> None:
    assert (
        EvidenceBase([Evidence("Paris is old."), Evidence("Paris is old. Rome too.")]).search("Paris").text == "Paris is old. […] Rome too."
    )


def test_a_long_cell_is_a_text_of_its_own() -> None:
    told = "the river rose and fell, " * 40
    text = f'name,born,life\nAda,1815,"{told.strip()}"\nBob,1900,short'
    found = base(text)

    assert found.sentences[0] == "name: Ada; born: 1815"
    assert found.sentences[1].startswith("name: Ada; life: the river rose")
    assert found.span(1).text.startswith("the river rose")
    assert found.sentences[-1] == "name: Bob; born: 1900; life: short"


def test_many_lines_of_empty_cells_are_read_once() -> None:
    assert base("\t\n" * 30_000).sentences == []


def test_lines_with_gaps_are_read_a_few_times() -> None:
    assert 20_000 == len(base("one   two   three\n" * 20_000).sentences)

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.faithful import LANGUAGES, build_context_block, texts, wrap_with_context_faithful_prompt
from proxy.context.passages import find_passages, is_retrieval_tool, result_passages
from proxy.context.passages.blocks import find_blocks
from proxy.exchange import Evidence
from tests.cost import below


def contents(text: str) -> list[str]:
    return [block.content for block in find_blocks(text)]


def sourced(text: str) -> list[tuple[str, str]]:
    return [(block.content, block.source) for block in find_blocks(text)]


def tool_turn(name: str, result: object, arguments: object = None) -> list[dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments or {})}}
    content = result if isinstance(result, str) else json.dumps(result)
    return [
        {"role": "user", "content": "Look it up"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": content},
    ]


# ---- marked blocks ----


def test_a_context_tag_is_one_passage() -> None:
    text = "Answer from the context.\n<context>\nThe tower is 330 m tall.\n\nIt is in Paris.\n</context>\n\nQuestion: How tall?"
    assert ["The tower is 330 m tall.\n\nIt is in Paris."] == contents(text)


def test_documents_of_anthropics_guide() -> None:
    text = """<documents>
<document index="1">
<source>annual_report.pdf</source>
<document_content>
Revenue rose.
</document_content>
</document>
<document index="2" source="plan.md">
Costs fell.
</document>
</documents>

What changed?"""
    assert [("Revenue rose.", "annual_report.pdf"), ("Costs fell.", "plan.md")] == sourced(text)


def test_sources_of_open_webui() -> None:
    text = 'Use the provided context in <context> tags.\n<context>\n<source id="1" name="a.txt">Alpha</source>\n<source id="2">Beta</source>\n</context>'
    assert [("Alpha", "a.txt"), ("Beta", "")] == sourced(text)


def test_a_lone_document_tag() -> None:
    assert [("Text", "a.md")] == sourced('<document path="a.md">Text</document>')


def test_headed_passages_in_tags() -> None:
    assert ["one", "two"] == contents("<context>\n[Document 1] one\n[Document 2] two\n</context>")


def test_a_tags_score() -> None:
    assert [0.75] == [block.score for block in find_blocks('<passage score="0.75">x</passage>')]


def test_fences_of_llamaindex() -> None:
    text = "Context information is below.\n---------------------\nSome text.\n---------------------\nGiven the context, answer.\nQuery: What?\nAnswer: "
    assert ["Some text."] == contents(text)


def test_numbered_sources_of_llamaindex() -> None:
    text = "Below are several numbered sources of information:\n------\nSource 1:\nRed sky.\n\nSource 2:\nWet water.\n\n------\nQuery: When?\nAnswer: "
    assert ["Red sky.", "Wet water."] == contents(text)


def test_context_and_question_of_langchain() -> None:
    assert ["The cat sat."] == contents("You are an assistant.\nQuestion: Who sat? \nContext: The cat sat. \nAnswer:")


def test_documents_and_question_of_haystack() -> None:
    text = "Given these documents, answer the question.\nDocuments:\n  aaa\n\n  bbb\n\nQuestion: q\nAnswer:"
    assert ["aaa\n\n  bbb"] == contents(text)


def test_source_and_content_lines_of_langchain() -> None:
    text = "Source: {'source': 'https://a.example', 'start_index': 1}\nContent: Agents plan.\n\nSource: b.md\nContent: Tools act."
    assert [("Agents plan.", "https://a.example"), ("Tools act.", "b.md")] == sourced(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "### Passage 1 [Source: a.md] (relevance: 0.83)\nFoo\n## Part\nbar\n\n### Passage 2: Title\nBaz",
            [("Foo\n## Part\nbar", "a.md"), ("Baz", "Title")],
        ),
        ("## Document 3\nText", [("Text", "")]),
        ("**Passage 2** (Source: k)\nAAA\n**Passage 3:** BBB", [("AAA", "k"), ("BBB", "")]),
        ("[Passage 3] aaa\n[Source: wiki] bbb", [("aaa", ""), ("bbb", "wiki")]),
        ("[Document 1]\naa\n\n---\n\n[Document 2]\nbb", [("aa", ""), ("bb", "")]),
        ("[Source 1: file.txt]:\nhello", [("hello", "file.txt")]),
        ("Document [1](Title: X) one\nDocument [2](Title: Y) two", [("one", "X"), ("two", "Y")]),
        ("Doc 0:\nTitle: T\nContent:\nxx", [("xx", "T")]),
        ("[Quelle: Handbuch] Der Turm", [("Der Turm", "Handbuch")]),
        ("Context:\n```\nfenced\n```\nWhat?", [("fenced", "")]),
        ('Context: """quoted\ntext"""\nWhat?', [("quoted\ntext", "")]),
        ('Kontext: "in quotes"\nWas?', [("in quotes", "")]),
    ],
)
def test_heads_and_fences(text: str, expected: list[tuple[str, str]]) -> None:
    assert expected == sourced(text)


def test_the_score_of_a_head() -> None:
    assert [0.83] == [block.score for block in find_blocks("### Passage 1 (relevance: 0.83)\nFoo")]


def test_the_question_behind_the_last_passage_is_not_part_of_it() -> None:
    assert ["aaa", "bbb"] == contents("[Passage 1] aaa\n[Passage 2] bbb\n\nWhat is bbb?")


def test_questions_inside_a_document_do_not_end_it() -> None:
    text = "[Document 1]\nQuestion: Can I return it?\nAnswer: Yes.\n\n[Document 2]\nQuestion: When?\nAnswer: Soon.\n\nQuestion: How?"
    assert ["Question: Can I return it?\nAnswer: Yes.", "Question: When?\nAnswer: Soon."] == contents(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Document 3 says that. See Passage 2 for more. Source: me",
        "Put it into <context> tags, please. And use <document> too",
        "Use the text inside <context></context> XML tags.",
        "Cite as [Passage N] or [Source: name].",
        "Context matters in a conversation.",
        "Context: I am new here. Please help",
        *(rules for code in LANGUAGES for rules in ("You help." + texts(code).system_suffix, texts(code).system_suffix_plain)),
    ],
)
def test_text_that_only_speaks_of_passages_has_none(text: str) -> None:
    assert [] == contents(text)


def test_a_mention_of_the_tag_before_the_tag() -> None:
    assert ["real"] == contents("Use the text in <context> tags: <context>real</context>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<context>\nabc", ["abc"]),
        ("<context>\nabc\n<context>\nQuestion?", ["abc"]),
        ("<documents>\n<document>a\n<document>b", ["a", "b"]),
        ("<documents><document>a</documents>", ["a"]),
        ("</context>abc", []),
        ("Context:\n```\nabc", ["abc"]),
        ("<document><document>a</document></document>", ["a"]),
    ],
)
def test_broken_markup(text: str, expected: list[str]) -> None:
    assert expected == contents(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "<context>",
                "</context>",
                "<document>",
                "</document>",
                "[Passage 1] ",
                "### Passage 2\n",
                "Context:",
                "```",
                "\n",
                "Question:",
                "x",
                "- ",
                "## Retrieved Context\n\n### Passage 1\n",
                "## End of x",
                "<source>",
                '"',
                "---",
                "(source: ",
            ]
        ),
        max_size=30,
    ).map("".join)
)
def test_found_passages_stand_in_the_text_and_do_not_overlap(text: str) -> None:
    at = 0
    for block in find_blocks(text):
        assert at <= block.start
        at = block.start + len(block.content)
        assert block.content == text[block.start : at]


@pytest.mark.parametrize(
    "piece",
    [
        "<context",
        "<context>",
        "<context>\n",
        "[",
        "[Source: ",
        "[Passage 1] ",
        "<documents>\n<document>",
        "<document a=",
        "### Passage 1\n",
        "Context: ",
        'Context: "',
        "context:\n```",
        "## a\n\n### Passage 1\n",
        "context ",
        " ",
        "\n",
        "---\n",
        "(",
        "### Passage 1 (score: ",
        "Question:\n",
        "\0",
    ],
)
@pytest.mark.cost
def test_the_time_is_linear_in_the_length(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    with below(2):
        find_blocks(text)  # a quadratic step takes minutes


# ---- the project's own block ----

TEXT = st.text(
    st.sampled_from("ab \n\\#[]()<>:1é") | st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=60
).filter(str.strip)
AWKWARD = st.sampled_from(
    ["### Passage 2\nx", "\\### Passage 3", "## End of Retrieved Context", "a\n\n\n", "</context>", "[Passage 1] b", "  a  "]
)


@given(st.lists(TEXT | AWKWARD, min_size=1, max_size=5), st.sampled_from(LANGUAGES))
def test_the_own_block_is_found_again_as_it_is(passages: list[str], language: str) -> None:
    block = build_context_block(passages, language=language)
    assert passages == contents(f"Before.\n\n{block}\n\nAfter?")


def test_the_own_block_keeps_sources_and_relevance() -> None:
    passages = [{"content": "a", "source": "x.pdf, p. 3 [draft]", "score": 0.5}, {"content": "b"}]
    found = find_blocks(build_context_block(passages))
    assert [("a", "x.pdf, p. 3 [draft]", 0.5), ("b", "", None)] == [(b.content, b.source, b.score) for b in found]


@pytest.mark.parametrize("rag", [True, False])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_wrapped_message_gives_its_passages_back(language: str, rag: bool) -> None:
    wrapped = wrap_with_context_faithful_prompt("Why?", ["one", "two"], use_rag_template=rag, language=language)[1]
    assert ["one", "two"] == contents(wrapped)


# ---- messages ----


def test_passages_know_their_message() -> None:
    messages = [{"role": "system", "content": "<context>a</context>"}, {"role": "user", "content": "<context>b</context>"}]
    assert [("a", 0, "passage"), ("b", 1, "passage")] == [(p.content, p.message_index, p.kind) for p in find_passages(messages)]


def test_text_parts_are_read_and_images_are_not() -> None:
    parts = [
        {"type": "text", "text": "<context>\na"},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": "</context>"},
    ]
    assert ["a"] == [p.content for p in find_passages([{"role": "user", "content": parts}])]


def test_assistant_messages_have_no_passages() -> None:
    assert [] == find_passages([{"role": "assistant", "content": "<context>a</context>"}])


def test_no_passage_twice() -> None:
    message = {"role": "user", "content": "<context>a</context>"}
    assert 1 == len(find_passages([message, {"role": "assistant", "content": "ok"}, message]))


# ---- retrieval tools ----


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        (True, "Web_Search"),
        (True, "kb_retrieval"),
        (True, "docs__search_documents"),
        (True, "knowledge_lookup"),
        (True, "retrieve"),
        (True, "query_documents"),
        (False, "read_file"),
        (False, "docs__read_file"),
        (False, "cat"),
        (False, "browser_navigate"),
        (False, "fetch_url"),
        (False, "grep"),
        (False, "search_code"),
        (False, "search_files"),
        (False, "search_replace"),
        (False, "search_direct_flight"),
        (False, "search_products"),
        (False, "find_orders"),
        (False, "send_mail"),
        (False, ""),
    ],
)
def test_names_of_retrieval_tools(expected: bool, name: str) -> None:
    assert expected == is_retrieval_tool(name)


def test_the_policys_patterns_count() -> None:
    assert [True, False] == [is_retrieval_tool(name, ["search_*"]) for name in ("mcp__search_wiki", "read_file")]


def test_a_plain_result_is_one_passage_with_the_call_s_file_as_its_source() -> None:
    found = find_passages(tool_turn("retrieve_document", "line 1\nline 2", {"path": "/etc/motd"}))
    assert [Evidence("line 1\nline 2", "/etc/motd", "tool_result", message_index=2)] == found


def test_a_result_of_another_tool_is_none() -> None:
    assert [] == find_passages(tool_turn("send_mail", "The mail says <context>a</context>"))


def test_a_result_of_an_mcp_tool() -> None:
    assert ["a"] == [p.content for p in find_passages(tool_turn("files__file_search", "a"))]


def test_a_legacy_function_message() -> None:
    messages = [{"role": "function", "name": "session_search", "content": "earlier we said a"}]
    assert [("earlier we said a", "session_search")] == [(p.content, p.source) for p in find_passages(messages)]


def test_a_tool_message_that_names_its_tool_itself() -> None:
    assert 1 == len(find_passages([{"role": "tool", "tool_call_id": "gone", "name": "web_search", "content": "page"}]))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ([{"content": "a", "source": "s", "score": 0.5}], [("a", "s", 0.5)]),
        ({"results": [{"title": "T", "url": "u", "snippet": "a"}, {"snippet": "b"}]}, [("a", "u", None), ("b", "tool", None)]),
        ({"documents": [{"page_content": "a", "metadata": {"source": "s", "relevance": 1}}]}, [("a", "s", 1.0)]),
        ({"nodes": [{"node": {"text": "a"}, "score": 0.25}]}, [("a", "tool", 0.25)]),
        ({"data": [{"filename": "f", "score": 0.5, "content": [{"type": "text", "text": "a"}]}]}, [("a", "f", 0.5)]),
        ({"hits": {"hits": [{"_score": 2.5, "_source": {"text": "a", "title": "T"}}]}}, [("a", "T", 2.5)]),
        ({"text": "2 found", "results": [{"body": "a long passage"}]}, [("a long passage", "tool", None)]),
        ({"content": "the whole page", "links": [{"text": "home"}]}, [("the whole page", "tool", None)]),
        (["a bare string, long enough to say something"], [("a bare string, long enough to say something", "tool", None)]),
        ({"temperature": 20}, [('{"temperature": 20}', "tool", None)]),
    ],
)
def test_results_in_json(result: object, expected: list[tuple[str, str, float | None]]) -> None:
    assert expected == [(p.content, p.source, p.score) for p in result_passages(json.dumps(result), "tool")]


def test_a_date_is_a_timestamp_in_utc() -> None:
    found = result_passages(json.dumps([{"text": "a", "date": "1970-01-02"}, {"text": "b", "timestamp": 1_700_000_000_000}]))
    assert [86400.0, 1_700_000_000.0] == [p.timestamp for p in found]


def test_marked_blocks_in_a_plain_result() -> None:
    assert [("a", "x"), ("b", "y")] == [(p.content, p.source) for p in result_passages("[Source: x] a\n\n[Source: y] b", "tool")]


@pytest.mark.parametrize(
    "result",
    [
        "",
        "  \n",
        "[]",
        "{}",
        "null",
        "Error: file not found",
        "No results found.",
        '{"error": "no such file"}',
        '{"isError": true, "content": [{"text": "x"}]}',
        '{"results": [], "success": false}',
        "FileNotFoundError: a.md",
        "Traceback (most recent call last):\n  x",
    ],
)
def test_an_empty_or_failed_result_is_no_passage(result: str) -> None:
    assert [] == result_passages(result, "tool")


def test_content_that_speaks_of_errors_is_a_passage() -> None:
    assert 1 == len(result_passages("Error handling in Go is explicit: functions return an error value."))


def test_deep_json_ends() -> None:
    assert 1 == len(result_passages("[" * 500 + "]" * 500))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "score", "source", "date", "metadata", "id", "name"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["content", "tool_calls", "function_call", "name", "tool_call_id"]), JSON), max_size=4),
    st.sampled_from(["user", "system", "assistant", "tool", "function"]),
)
def test_odd_messages_never_fail(messages: list[dict[str, Any]], role: str) -> None:
    find_passages([{"role": role, **message} for message in messages], ["*"])


@given(JSON)
def test_odd_results_never_fail(value: object) -> None:
    result_passages(json.dumps(value))


# ---- templates of common frameworks ----

_SEALS, _OIL = "The pump has two seals.", "Its oil is changed once a year."


@pytest.mark.parametrize(
    "system",
    [
        "Use the following pieces of retrieved context to answer the question. If you don't know, say so.\n\n{}",
        "Use the following pieces of context to answer the user's question. \nDon't make up an answer.\n----------------\n{}",
        "The assistant does not know the answer to every question.\n\n  Here are the relevant documents for the context:\n\n  {}\n\n"
        '  Instruction: Based on the above documents, answer the user question below.\n  Answer "don\'t know" if it is not there.',
        "Use the context information below to assist the user.\n--------------------\n{}\n--------------------\n",
        "Beantworte die Frage anhand der folgenden Textabschnitte. Erfinde nichts.\n\n{}",
        "Responde a la pregunta a partir de los siguientes fragmentos.\n\n{}",
        "Réponds à la question à partir des documents suivants.\n\n{}",
    ],
)
def test_what_a_framework_s_sentence_leads_to_is_a_passage(system: str) -> None:
    text = f"{_SEALS}\n\n{_OIL}"
    found = find_passages([{"role": "system", "content": system.format(text)}, {"role": "user", "content": "How many seals?"}])
    assert [text] == [passage.content for passage in found]


def test_such_a_sentence_in_a_user_s_message_needs_a_question_behind_the_passages() -> None:
    told = f"Use the following pieces of context to answer the question at the end.\n\n{_SEALS}\n\n{_OIL}"
    asked = f"{told}\n\nQuestion: How many seals?\nHelpful Answer:"
    assert [] == find_passages([{"role": "user", "content": told}])
    assert [f"{_SEALS}\n\n{_OIL}"] == [p.content for p in find_passages([{"role": "user", "content": asked}])]


@pytest.mark.parametrize(
    "system",
    [
        "Follow the guidelines below when you answer.\n\nBe brief.",
        "You answer questions. The following rules hold.\n\nBe polite.",
        "Use the following context to answer:",
        "Write the documents below into a table.\n\nBe brief.",
        "You assist customers. Collect the following information before you answer:\n\n- the name\n- the order",
        "Frage den Kunden nach folgenden Informationen, bevor du antwortest:\n\n- Name",
        "Answer with the following information:\n\n- a title\n- a summary",
    ],
)
def test_other_instructions_lead_to_no_passages(system: str) -> None:
    assert [] == find_passages([{"role": "system", "content": system}])

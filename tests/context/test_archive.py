"""References to what has left a prompt, and reading it back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.context.archive import ID_CHARS, Reference, pages, read, reference, reference_ids, references_in, size_of
from proxy.models.tokens.counter import TiktokenCounter

ID = "sp_0123456789abcdef0123456789abcdef"
ROWS = [{"id": f"HAT{i:03}", "user": f"noah_muller_{i}", "amount": i * 3.5, "status": "delivered"} for i in range(400)]
JSON = json.dumps(ROWS)

# ---- references ----


def test_a_reference_names_what_it_was_its_size_and_how_to_read_it() -> None:
    assert "[archived get_user_details, 4.1kB: groundwire_read_archive sp_0123456789ab]" == reference(ID, "get_user_details", 4123)


def test_a_reference_takes_about_twenty_tokens() -> None:
    counter = TiktokenCounter({})
    assert 28 >= counter.count_text(reference(ID, "get_reservation_details", 4123), counter.model("gpt-4o"))


@pytest.mark.parametrize("text", [reference(ID, "x", 1), f"Earlier: {reference(ID, 'x', 1)} and so on", f"{reference(ID, 'x', 1)}\n" * 3])
@pytest.mark.parametrize("form", [lambda text: text, lambda text: [{"type": "image_url"}, {"type": "text", "text": text}]])
def test_references_are_found_in_texts_and_parts(text: str, form: Any) -> None:
    assert [Reference("sp_0123456789ab", "x", "1B")] == references_in([{"role": "user", "content": form(text)}, {"role": "assistant"}])


@given(st.text(), st.integers(0, 10**13))
def test_every_reference_is_found_whatever_it_was(what: str, size: int) -> None:
    text = reference(ID, what, size)
    found = references_in([{"content": f"[{text}]"}, {"content": None}])
    assert [(ID[:ID_CHARS], size_of(size))] == [(r.id, r.size) for r in found]
    assert {ID[:ID_CHARS]} == reference_ids(json.dumps({"content": text}))
    assert len(text) < 120
    assert "\n" not in text


@pytest.mark.parametrize(
    "text", ["", "[archived x, 1B: groundwire_read_archive sp_0123]", "[archived: sp_0123456789ab]", "sp_0123456789ab"]
)
def test_what_is_no_reference_is_not_found(text: str) -> None:
    assert [] == references_in([{"content": text}])


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0B"), (999, "999B"), (1000, "1.0kB"), (999_949, "999.9kB"), (999_950, "1.0MB"), (3 * 10**9, "3.0GB")]
)
def test_sizes_are_in_units_of_a_thousand(size: int, said: str) -> None:
    assert said == size_of(size)


# ---- pages ----


@given(st.text() | st.text(st.sampled_from("a \nü世🙂"), min_size=50, max_size=600), st.integers(0, 200))
def test_pages_joined_are_the_text_and_none_is_too_long(text: str, page_bytes: int) -> None:
    data = text.encode()
    found = pages(data.decode(), page_bytes)
    assert data == b"".join(part.encode() for part in found)
    assert all(len(part.encode()) <= max(page_bytes, 64) for part in found)
    assert 1 == len(found) or all(found)


@given(st.text(max_size=500))
def test_what_is_read_page_by_page_is_the_content_byte_for_byte(text: str) -> None:
    content = text.encode()
    count = len(pages(text, 64))
    parts = [read(content, number, page_bytes=64) for number in range(1, count + 1)]
    assert all(part.startswith(f"[page {i} of {count}]\n") for i, part in enumerate(parts, 1))
    assert content == b"".join(part.partition("\n")[2].encode() for part in parts)


def test_a_page_ends_behind_a_line_where_there_is_one() -> None:
    text = "".join(f"line {i} of the log\n" for i in range(2000))
    assert all(page.endswith("\n") for page in pages(text))


def test_a_page_has_about_two_thousand_tokens() -> None:
    counter = TiktokenCounter({})
    model = counter.model("gpt-4o")
    sizes = [
        counter.count_text(page, model) for text in (JSON, json.dumps(ROWS, indent=2), "今天天气很好。" * 3000) for page in pages(text)[:-1]
    ]
    assert 1400 < min(sizes)
    assert max(sizes) < 2700


def test_json_is_shown_as_it_is_and_the_first_page_is_the_default() -> None:
    assert '[page 1 of 1]\n{"b":1, "a":[2]}' == read(b'{"b":1, "a":[2]}')
    assert "[page 1 of 1]\n" == read(b"")


@pytest.mark.parametrize("page", [0, -1, 9, 10**30])
def test_a_page_that_is_not_there_says_how_many_there_are(page: int) -> None:
    assert "There is no such page: it has 5 pages (24.8kB)." == read(b"0123456789 " * 2250, page)


def test_a_few_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert "[page 1 of 1]\nname: J\ufffdrgen, lone: \ufffd\ufffd\ufffd" == read(b"name: J\xfcrgen, lone: \xed\xa0\x80")


def test_a_lone_surrogate_becomes_replacement_characters() -> None:
    assert "[page 1 of 1]\n\ufffd\ufffd\ufffd" == read("\ud83d".encode("utf-8", "surrogatepass"))


# ---- search ----


def test_a_search_shows_each_place_with_its_page_and_offset() -> None:
    found = read(JSON.encode(), search="NOAH_MULLER_217").splitlines()
    at = JSON.index("noah_muller_217")
    number = next(i for i in range(1, 9) if len("".join(pages(JSON)[:i])) > at)
    assert f"[1 matches of 'NOAH_MULLER_217', from page 1 of {len(pages(JSON))}]" == found[0]
    assert found[1].startswith(f"[page {number}, character {at}] …")
    assert '"HAT217"' in found[1]
    assert 2 == len(found)


def test_of_words_that_stand_apart_the_rarest_is_found() -> None:
    found = read(JSON.encode(), search="delivered HAT217 noah").splitlines()
    assert found[0].startswith("[1 matches of the rarest word of 'delivered HAT217 noah'")
    assert '"noah_muller_217", "amount": 759.5, "status": "delivered"' in found[1]


def test_many_matches_are_counted_and_shown_in_part_with_the_way_to_the_others() -> None:
    found = read(JSON.encode(), search="delivered").splitlines()
    assert found[0].startswith("[400 matches of")
    assert 12 == len(found)
    assert found[-1].startswith("[more follow, on page ")
    assert len("\n".join(found)) < 5000
    assert read((JSON * 5).encode(), search="delivered").startswith("[1000 or more matches")


def test_a_search_from_a_page_on_leaves_out_what_stands_before_it() -> None:
    count = len(pages(JSON))
    assert read(JSON.encode(), count, "HAT399").startswith("[1 matches")
    assert read(JSON.encode(), 2, "HAT000").startswith(f"[no match of 'HAT000', from page 2 of {count}]")


def test_matches_that_are_in_sight_are_not_shown_twice() -> None:
    assert 2 == len(read(b"a word and the same word again", search="word").splitlines())


@given(st.text(max_size=300), st.text(max_size=250), st.integers(1, 3))
@example("İi̇ß" * 40, "ı", 1)
@example("a b c " * 60, "c a x", 1)
@example("\r\n\x85\u2028" * 50, "\n", 2)
def test_a_search_never_fails_and_is_bounded(text: str, query: str, page: int) -> None:
    said = read(text.encode(), page, query, page_bytes=64)
    assert len(said) < 9000


@given(st.binary(max_size=300), st.text(max_size=20))
def test_any_bytes_can_be_read_and_searched(content: bytes, query: str) -> None:
    assert read(content, search=query)
    assert read(content)


@given(st.text(min_size=1), st.text(st.characters(categories=("L", "N")), min_size=1, max_size=50), st.text())
def test_a_text_that_is_there_is_found(before: str, query: str, after: str) -> None:
    assert " match" in read((before + query + after).encode(), search=query).partition("]")[0]
    assert not read((before + query + after).encode(), search=query).startswith("[no match")

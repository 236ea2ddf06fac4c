"""Results that are kept by their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest

from proxy.context.passages.finding import is_retrieval_tool
from proxy.context.tool_results.names import changes, reads, words_of_name
from proxy.language.lru import by_text
from proxy.models.tools.words import _stem, terms
from proxy.stages.clash.context import _remembers
from proxy.stages.reflection.adjustments import _words


def test_a_text_is_read_once_and_apart_by_what_stands_beside_it() -> None:
    read: list[tuple[str, str]] = []

    @by_text(10)
    def work(text: str, kind: str = "") -> int:
        read.append((text, kind))
        return len(text)

    assert [2, 2, 2, 2, 3] == [work("ab"), work("a" + "b"), work("ab", "x"), work("ab", kind="x"), work("abc")]
    assert [("ab", ""), ("ab", "x"), ("ab", "x"), ("abc", "")] == read


def test_of_more_texts_than_are_kept_the_oldest_is_read_again() -> None:
    read: list[str] = []

    @by_text(2)
    def work(text: str) -> bool:
        read.append(text)
        return False

    for text in "abcba":
        work(text)
    assert ["a", "b", "c", "a"] == read


class Name(str):
    """What a client calls something."""


@by_text(10)
def beside(text: str, name: str) -> int:
    return len(text) + len(name)


@pytest.mark.parametrize("read", [lambda name: beside("a", name), is_retrieval_tool, changes, reads, words_of_name, _remembers, _words])
def test_what_is_remembered_of_a_name_is_not_the_name(read: Callable[[str], Any]) -> None:
    name = Name("get_" + "n" * 1000)
    known = ref(name)
    read(name)
    del name
    assert known() is None


def test_no_word_without_end_is_kept() -> None:
    terms("searching " + "n" * 64)
    kept = _stem.cache_info().currsize
    assert ("n" * 65,) == terms("n" * 65)
    assert kept == _stem.cache_info().currsize

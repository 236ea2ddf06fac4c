"""Results that are kept by their text."""

from __future__ import annotations

from proxy.language.lru import by_text


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

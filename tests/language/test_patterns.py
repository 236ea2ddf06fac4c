"""Patterns that are compiled at their first use find in a long text, step by step, what `re` finds in one go."""

import random
import re
from pathlib import Path

import pytest

from proxy.language.patterns import LazyPattern, phrases

PATTERNS = [
    (r"\b\w{3,9}\b", 0),
    (r"^[ \t]{0,8}(?:context|sources?)[ \t]{0,4}:", re.I | re.M),
    (r"(?<=[.!?])\s+", 0),
    (r"\[(\d{1,3})\](?!\()", 0),
    (r"a{2,3}$", re.M),
    (r"x*", 0),
    (r"not to be found", 0),
]


def long_text(seed: int) -> str:
    r = random.Random(seed)
    words = ["context:", "aaa", "xx", "[12]", "[3](b)", "stone.", "\n", "\nSources:", "river!", "  ", "é"]
    return " ".join(r.choices(words, k=9000))


@pytest.mark.parametrize(("pattern", "flags"), PATTERNS)
@pytest.mark.parametrize("seed", range(3))
def test_a_long_text_gives_what_re_gives(pattern: str, flags: int, seed: int) -> None:
    text, lazy, plain = long_text(seed), LazyPattern(pattern, flags), re.compile(pattern, flags)
    assert [m.span() for m in plain.finditer(text)] == [m.span() for m in lazy.finditer(text)]
    assert plain.findall(text) == lazy.findall(text)
    assert plain.sub("-", text) == lazy.sub("-", text)
    for at in (0, 777, 20_000):
        assert getattr(plain.search(text, at), "span", lambda: None)() == getattr(lazy.search(text, at), "span", lambda: None)()
        until = at + 19_000
        assert [m.span() for m in plain.finditer(text, at, until)] == [m.span() for m in lazy.finditer(text, at, until)]


def test_what_is_far_into_a_text_is_found_whole() -> None:
    text = "a " * 40_000 + "b" * 7000 + " c"
    found = LazyPattern("b{1,7000}").search(text)
    assert found is not None
    assert (80_000, 87_000) == found.span()


def test_expressions_in_a_file_are_joined_and_stand_in_each_other(tmp_path: Path) -> None:
    lines = ["GAP = '[^.]{0,9}'", "ONE = '''", "an? ", "|the'''", "TWO = ['(?&ONE)(?&GAP)', 'x']", "[words]", "FEW = '''it he", "she'''"]
    (tmp_path / "phrases.toml").write_text("\n".join(lines), encoding="utf-8")
    found = phrases(tmp_path)
    assert ("an? |the", ("an? |the[^.]{0,9}", "x"), ("it", "he", "she")) == (found.ONE, found.TWO, found.FEW)


def test_every_expression_in_the_product_s_files_compiles() -> None:
    folders = [path.parent for path in Path("proxy").rglob("phrases.toml") if "poisoning" not in path.parts]
    texts = [text for folder in folders for text in vars(phrases(folder)).values() if isinstance(text, str)]
    assert len(folders) >= 5
    assert all(re.compile(text) for text in texts)

"""What the proxy says, read from files beside the modules: every language, every part, what the braces take."""

import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.language.patterns import wordings

FILES = sorted((Path(__file__).parents[2] / "proxy").rglob("*.words.toml"))
OF_FAILURES = Path(__file__).parents[2] / "proxy" / "stages" / "reflection" / "wording.words.toml"
"""Of two parts: what people read, in every language, and what the model reads, in English alone."""
FOR_THE_MODEL = {"advice", "commands", "fixes"}


class Words(msgspec.Struct):
    hello: str
    bye: str


def written(folder: Path, text: str) -> str:
    (folder / "module.words.toml").write_text(text, encoding="utf-8")
    return str(folder / "module.py")


def parts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each text with its place."""
    if isinstance(value, str):
        yield path, value
    else:
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from parts(part, f"{path}.{key}")


def filled_in(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_a_language_without_words_is_said_in_english(tmp_path: Path) -> None:
    found = wordings(written(tmp_path, 'en = "Hello"\nde = "Hallo"'), str)
    assert ("Hallo", "Hello", ["en", "de"]) == (found["de"], found["pl"], list(found))


def test_a_language_that_lacks_a_part_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(msgspec.ValidationError, match="bye"):
        wordings(written(tmp_path, '[en]\nhello = "Hello"'), Words)


@pytest.mark.parametrize("file", [file for file in FILES if file != OF_FAILURES], ids=lambda file: file.name)
def test_every_language_has_the_same_parts_which_take_the_same(file: Path) -> None:
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    assert {"en", "de", "es"} <= set(read)
    shapes = [{path: filled_in(text) for path, text in parts(said)} for said in read.values()]
    assert [shapes[0]] * len(shapes) == shapes


def test_failures_are_told_to_people_in_every_language() -> None:
    """Languages join a name to a clause in their own ways (`joints`, `nobody`), so a clause may take other parts than the English one."""
    read = tomllib.loads(OF_FAILURES.read_text(encoding="utf-8"))
    for said in read.values():
        assert {key for key in read["en"] if key not in FOR_THE_MODEL} == set(said) - FOR_THE_MODEL
        assert [path for path, _ in parts(read["en"]["obstacles"])] == [path for path, _ in parts(said["obstacles"])]
        assert set(read["en"]["offers"]) == set(said["offers"])
        taken = set().union(*(filled_in(text) for _, text in parts(said["obstacles"])))
        assert taken <= {"s", "n", *said["joints"]}


def test_every_file_stands_beside_its_module() -> None:
    assert [] == [file.name for file in FILES if not file.with_name(file.name.replace(".words.toml", ".py")).is_file()]
    assert FILES

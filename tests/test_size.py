"""The size report: what is counted, and what counts as growth."""

from pathlib import Path

import pytest

from tests import size
from tests.size import Size, code_lines, grown, measured, read, written

MODULE = '''"""Two lines
of docstring."""

import os  # a comment beside code

# a comment alone
class A:
    """One."""

    x: int = 1
    """Said of x."""

    def f(self) -> str:
        return (
            "a"
        )
'''


def test_code_is_what_is_no_blank_no_comment_and_no_docstring() -> None:
    assert 7 == code_lines(MODULE)


def test_a_room_is_a_folder_below_the_package_whatever_lies_in_it(tmp_path: Path) -> None:
    for name in ("top.py", "a/one.py", "a/deep/two.py", "b/three.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    assert {"a": Size(2, 2), "(top)": Size(1, 1), "b": Size(1, 1)} == measured(tmp_path)


@pytest.mark.parametrize(("now", "expected"), [(Size(10, 2), False), (Size(9, 2), False), (Size(11, 1), True), (Size(9, 3), True)])
def test_more_lines_or_more_files_are_growth(now: Size, expected: bool) -> None:
    assert expected == grown(now, Size(10, 2))
    assert grown(now, None)


def test_the_reason_stands_beside_what_grew_alone() -> None:
    table = {"a": Size(10, 2, "once"), "b": Size(5, 1, "")}
    renewed = read(written({"a": Size(9, 2), "b": Size(6, 1), "c": Size(1, 1)}, table, "a new report"))
    assert {"a": Size(9, 2, "once"), "b": Size(6, 1, "a new report"), "c": Size(1, 1, "a new report")} == renewed


def test_a_room_that_grew_fails_the_check_until_the_table_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(size, "ROOT", tmp_path)
    monkeypatch.setattr(size, "TABLE", tmp_path / "size.md")
    module = tmp_path / "proxy" / "a" / "one.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n")
    assert 0 == size.main(["--write", "first"])
    module.write_text("x = 1\ny = 2\n")
    assert 1 == size.main(["--check"])
    assert "larger than tests/size.md has it: a" in capsys.readouterr().err
    assert [0, 0] == [size.main(["--write", "y"]), size.main(["--check"])]

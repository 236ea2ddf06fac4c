"""Everything that is wrong with a file, not only what is found first: for `proxy.config.settings` and `proxy.policy.loading`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from proxy.config.yaml_files import yaml_lines
from proxy.errors import ConfigError


class Problems:
    """What has been found so far."""

    def __init__(self) -> None:
        self.found: list[ConfigError] = []

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Keep what is refused inside, with what else is wrong there, and go on behind it."""
        try:
            yield
        except ConfigError as error:
            self.found += error

    def raised(self) -> None:
        """Raises the first as a `ConfigError` that has the others; each with its line."""
        if self.found:
            first, *others = _once(self.found)
            first.also = tuple(others)
            raise first


def _once(found: Iterable[ConfigError]) -> list[ConfigError]:
    """In the order of their files and lines, none twice."""
    told = list({(error.file, error.path, error.problem): error for error in found}.values())
    files = list(dict.fromkeys(error.file for error in told))
    lines = {file: yaml_lines(file) for file in files}
    for error in told:
        error.also = ()
        error.line = error.line or _line(error.place, lines[error.file])
    return sorted(told, key=lambda error: (files.index(error.file), error.line or 0))


def _line(place: str, lines: dict[str, int]) -> int | None:
    """Of `place`, or of the nearest thing around it that the file has."""
    while place and place not in lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return lines.get(place)

"""YAML of the operator's -> plain values, for `proxy.config.settings` and `proxy.policy.loading`: whatever is wrong is a `ConfigError` with
its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from proxy.errors import ConfigError

MAX_OPEN_BRACKETS = 100


def read_yaml(path: str | Path) -> Any:
    """Parse a YAML file; a key written twice is an error. Raises `ConfigError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "", f"is not UTF-8 (byte {error.start})") from error
    try:
        found = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
        _check_finite(found, ())
        return found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        refused = ConfigError(str(path), where, f"not valid YAML: {error.problem}")
        refused.line = mark.line + 1 if mark else None
        raise refused from error
    except yaml.YAMLError as error:
        raise ConfigError(str(path), "", f"not valid YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(str(path), "", "nested too deeply, or an alias inside its own anchor") from error


def yaml_lines(path: str | Path) -> dict[str, int]:
    """Line, from 1, of each key and list item by its path (``routes[0].policy``); empty where the file is no YAML."""
    found: dict[str, int] = {}

    def walk(node: yaml.Node, at: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                below = f"{at}.{getattr(key, 'value', '')}".removeprefix(".")
                found[below] = key.start_mark.line + 1
                walk(value, below)
        elif isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                found[f"{at}[{i}]"] = item.start_mark.line + 1
                walk(item, f"{at}[{i}]")

    try:
        root = yaml.compose(Path(path).read_text(encoding="utf-8"), Loader=_Scanner)
        if root is not None:
            walk(root, "")
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return found


def _check_finite(value: Any, above: tuple[int, ...]) -> None:
    """Raises `RecursionError` for a value that holds itself."""
    if not isinstance(value, dict | list):
        return
    if id(value) in above:
        raise RecursionError
    for item in value.values() if isinstance(value, dict) else value:
        _check_finite(item, (*above, id(value)))


class _Scanner(yaml.SafeLoader):
    """A SafeLoader that refuses many open brackets: PyYAML's time grows with the square of their number."""

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= MAX_OPEN_BRACKETS:
            raise yaml.scanner.ScannerError(None, None, f"more than {MAX_OPEN_BRACKETS} open brackets", self.get_mark())
        super().fetch_flow_collection_start(token)


class _Loader(_Scanner):
    """It refuses the same key twice, half a character, and dates and numbers that are none too, each with its place."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            found = super().construct_object(node, deep)
            if isinstance(found, str):
                found.encode()
        except UnicodeEncodeError:
            raise yaml.constructor.ConstructorError(None, None, "half a character (a lone surrogate)", node.start_mark) from None
        except (ValueError, OverflowError, AttributeError):  # what PyYAML's constructors raise for 2023-02-30 and its like
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(None, None, f"this is no {kind}", node.start_mark) from None
        return found

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():  # a text may call itself a map or a set: ``!!set x``
            key = getattr(key_node, "value", None)
            if isinstance(key, str) and key != "<<":
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands here twice", key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)

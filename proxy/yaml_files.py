"""YAML of the operator's -> plain values, for `proxy.config` and `proxy.policy`: whatever is wrong is a `ConfigError` with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from proxy.errors import ConfigError


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
        _check_plain(found, ())
        return found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(str(path), where, f"not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, OverflowError, AttributeError) as error:  # the latter three of dates and numbers that are none
        raise ConfigError(str(path), "", f"not valid YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(str(path), "", "nested too deeply, or an alias inside its own anchor") from error


def _check_plain(value: Any, above: tuple[int, ...]) -> None:
    """Raises `RecursionError` for a value that holds itself, `UnicodeError` for text with a lone surrogate: nobody expects either."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, dict | list):
        if id(value) in above:
            raise RecursionError
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            _check_plain(item, (*above, id(value)))


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses a mapping with the same key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = getattr(key_node, "value", None)
            if isinstance(key, str) and key != "<<":
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands here twice", key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)

"""YAML of the operator's -> plain values -> typed ones; whatever does not fit is named with its place and what was expected there.

msgspec converts. Where it refuses, the value is walked beside its type, to find everything that is wrong and not only the first; `Problems`
gathers what is wrong with a file, for `proxy.config.settings` and `proxy.policy.loading`.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
import yaml
from msgspec import Struct

from proxy.errors import ConfigError

MAX_OPEN_BRACKETS = 100
MAX_VALUES = 1_000_000
"""Of one file: 50,000 client keys have as many."""


def read_yaml(path: str | Path) -> Any:
    """Parse a YAML file; a key written twice is an error. Raises `ConfigError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "", f"is not UTF-8 (byte {error.start})") from error
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
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


class _Scanner(yaml.SafeLoader):
    """A SafeLoader that refuses many open brackets, as PyYAML's time grows with the square of their number; and aliases that stand for too
    much: nine short lines of them can stand for billions of values, which whoever walks through the file would meet one by one.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Raises `RecursionError` for a value that holds itself."""
        root: yaml.Node | None = super().get_single_node()
        if root is not None:
            _count_values(root, {})
        return root

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= MAX_OPEN_BRACKETS:
            raise yaml.scanner.ScannerError(None, None, f"more than {MAX_OPEN_BRACKETS} open brackets", self.get_mark())
        super().fetch_flow_collection_start(token)


def _count_values(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Values of a node, those of an alias wherever it stands; `known` has the numbers of nodes that were met, 0 until they are counted.

    Raises `RecursionError` for a value that holds itself, and `yaml.MarkedYAMLError`.
    """
    if node in known:
        if not known[node]:
            raise RecursionError
        return known[node]
    known[node], below = 0, getattr(node, "value", ())
    children = itertools.chain.from_iterable(below) if isinstance(node, yaml.MappingNode) else below
    count = 1 if isinstance(node, yaml.ScalarNode) else 1 + sum(_count_values(child, known) for child in children)
    if count > MAX_VALUES:
        raise yaml.composer.ComposerError(None, None, f"more than {MAX_VALUES} values, with those that aliases stand for", node.start_mark)
    known[node] = count
    return count


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


T = TypeVar("T")
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "base_url": ("api_base", "url", "endpoint", "api_url", "baseurl", "openai_api_base", "host"),
    "api_key": ("key", "token", "apikey", "api_token", "secret"),
    "kind": ("type", "provider", "custom_llm_provider"),
    "prefix": ("path", "route"),
    "upstream": ("backend", "model", "provider", "target"),
    "policy": ("policies",),
    "timeouts": ("timeout", "timeout_s", "request_timeout"),
    "retries": ("num_retries", "max_retries", "retry"),
    "fallback": ("fallbacks",),
    "window": ("context_window", "context_length", "max_input_tokens", "max_context_tokens"),
    "max_output_tokens": ("max_tokens", "max_completion_tokens"),
    "model_path": ("file", "gguf"),
    "url": ("database", "database_url", "dsn"),
    "admin_key": ("master_key", "password"),
    "action": ("on_violation", "on_fail", "on_failure", "mode"),
}
"""Names that other gateways and libraries have for the same thing: a likeness of letters alone would suggest another."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    path: str
    said: str
    key: str = ""
    """The one that is not known in the mapping at `path`, or is missing there."""
    meant: str = ""
    """The key that it was taken for."""


def checked(value: Any, kind: type[T], file: str, at: str = "", *, lax: bool = False) -> T:
    """Convert plain values into `kind`; `at` is the path of `value` inside the file. Raises `ConfigError`, with all that is wrong.

    Fields that a struct names in ``not_written`` are set by the program, and no key of the file.
    """
    try:
        return msgspec.convert(value, kind, strict=not lax)
    except msgspec.ValidationError as error:
        refused, *others = (ConfigError(file, p.path, p.said, key=p.key) for p in problems(value, kind, at, lax=lax))
        refused.also = tuple(others)
        raise refused from error


def problems(value: Any, kind: Any, at: str = "", *, lax: bool = False) -> list[Problem]:
    """Everything for which msgspec refuses `value` as a `kind`, an annotation; empty where it does not."""
    try:
        msgspec.convert(value, kind, strict=not lax)
    except msgspec.ValidationError as error:
        return list(_walk(value, kind, at, lax)) or [_refusal(error, value, kind, at)]
    return []


def mend(value: Any, problem: Problem) -> None:
    """Put right in `value` what `problem` says, so that the rest can be looked at: a misspelt key is renamed, any other left out."""
    steps: list[Any] = [int(step[1:-1]) if step.startswith("[") else step for step in re.findall(r"\[\d+\]|[^.\[\]]+", problem.path)]
    if not problem.key:
        *steps, last = steps or [None]
    try:
        for step in steps:
            value = value[step]
        if problem.meant:
            value[problem.meant] = value.pop(problem.key)
        elif isinstance(value, dict):
            del value[problem.key or last]
    except (KeyError, IndexError, TypeError):  # a name with a dot in it: then the rest is looked at another time
        return


def _walk(value: Any, kind: Any, at: str, lax: bool) -> Iterator[Problem]:
    """What is wrong inside `value`; nothing where it is wrong as a whole."""
    chosen = _chosen(value, kind, at)
    if isinstance(chosen, Problem):
        yield chosen
    elif isinstance(value, dict) and _is_struct(chosen):
        yield from _in_struct(value, chosen, at, lax)
    elif isinstance(value, dict) and _is_mapping(chosen) and get_args(chosen):
        for key, item in value.items():
            yield from problems(item, get_args(chosen)[1], f"{at}.{key}".removeprefix("."), lax=lax)
    elif isinstance(value, list) and get_origin(chosen) in (tuple, list, Sequence):
        for i, item in enumerate(value):
            yield from problems(item, get_args(chosen)[0], f"{at}[{i}]", lax=lax)


def _in_struct(value: dict[str, Any], kind: type[Struct], at: str, lax: bool) -> Iterator[Problem]:
    hidden = getattr(kind, "not_written", ())
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind) if field.encode_name not in hidden}
    tag = kind.__struct_config__.tag_field
    known = [tag, *fields] if tag else list(fields)
    meant = set()
    removed: Mapping[str, str] = getattr(kind, "removed", {})
    for key in value:
        if key not in known and key in removed:
            yield Problem(f"{at}.{key}".removeprefix("."), f"there is no such key any more: {removed[key]}")
        elif key not in known:
            guess = suggested(str(key), [name for name in known if name not in value])
            meant.add(guess)
            yield Problem(at, _unknown_key(str(key), guess, known, fields), str(key), guess)
    for name, field in fields.items():
        if name in value:
            yield from problems(value[name], field.type, f"{at}.{name}".removeprefix("."), lax=lax)
        elif field.required and name not in meant:
            yield Problem(at, f"object missing required field `{name}`")


def _unknown_key(key: str, guess: str, known: Sequence[str], fields: Mapping[str, msgspec.structs.FieldInfo]) -> str:
    """What is said of a key that is not known here: what it may stand for, where else it is known, or what is."""
    if guess:
        return f"unknown key {key!r}; did you mean {guess!r}?"
    below = [name for name, field in fields.items() if _is_struct(field.type) and key in field.type.__struct_fields__]
    hint = f"it belongs below {below[0]}:" if below else f"known here: {', '.join(sorted(known))}"
    return f"unknown key {key!r}; {hint}"


def suggested(word: str, known: Sequence[str]) -> str:
    """The one of `known` that somebody who wrote `word` may have meant; "" where none is likely."""
    lowered = word.lower().replace("-", "_")
    if lowered in known:
        return lowered
    for name, others in _ALIASES.items():
        if lowered in others and name in known:
            return name
    return next(iter(difflib.get_close_matches(word, known, n=1)), "")


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _members(kind: Any) -> tuple[Any, ...]:
    """Of a union, without None; what is no union is its own only member."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, UnionType):
        return (kind,)
    return tuple(member for inner in get_args(kind) if inner is not NoneType for member in _members(inner))


def _chosen(value: Any, kind: Any, at: str) -> Any:
    """The member of a union that `value` is meant to be; a problem where its tag says nothing."""
    members = _members(kind)
    structs = [member for member in members if _is_struct(member)]
    if len(members) == 1 or not isinstance(value, dict) or not structs:
        fitting = [member for member in members if get_origin(member) in (tuple, list) and isinstance(value, list)]
        return fitting[0] if len(fitting) == 1 else members[0] if len(members) == 1 else None
    field = structs[0].__struct_config__.tag_field
    if field is None:
        return structs[0] if len(structs) == 1 and not any(map(_is_mapping, members)) else None
    tags = ", ".join(sorted(str(member.__struct_config__.tag) for member in structs))
    if field not in value:
        return Problem(at, f"object missing required field `{field}`; known: {tags}")
    found = next((member for member in structs if member.__struct_config__.tag == value[field]), None)
    return found or Problem(f"{at}.{field}".removeprefix("."), f"invalid value {value[field]!r}; known: {tags}")


def _refusal(error: msgspec.ValidationError, value: Any, kind: Any, at: str) -> Problem:
    """In msgspec's own words; where a word is not among those of a choice, with these."""
    said, _, where = str(error).partition(" - at `$")
    path = (at + where.rstrip("`").replace("[...]", "")).removeprefix(".")
    members = _members(kind)
    if len(members) > 1 or get_origin(members[0]) is not Literal or isinstance(value, dict | list):
        return Problem(path, said[:1].lower() + said[1:])
    allowed = [str(word) for word in get_args(members[0])]
    near = suggested(str(value), allowed)
    shown = repr(value) if isinstance(value, str) and re.fullmatch(r"[\w.-]{0,40}", value) else f"a {type(value).__name__}"
    return Problem(path, f"expected one of {', '.join(allowed)}, got {shown}" + (f"; did you mean {near!r}?" if near else ""))


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

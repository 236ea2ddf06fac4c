"""JSON values against JSON Schemas, within bounds whatever the schema: the only file that imports jsonschema.

In: a schema and a value, both parsed JSON. Out: where and by which keyword the value does not match. Both come from clients and models:
a pattern that backtracks, references without end, a value of great depth end as `NotChecked`, never as a match, and no reference is ever
fetched. Drafts 4, 6, 7, 2019-09 and 2020-12, as ``$schema`` says, 2020-12 without it (or an older one, where only that can read it);
``format`` is not asserted. Specification: https://json-schema.org/draft/2020-12. May be called from several threads.

jsonschema-rs is 10 to 50 times as fast, but has no limit of time and holds the interpreter's lock: a schema of 26 alternatives within each
other stops every request for 2.5 s, each further one twice as long. Nothing but the end of the process ends it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import orjson
from msgspec import Struct

from proxy.errors import INTERRUPTIONS
from proxy.language.json.schema_problems import MAX_PROBLEMS, SchemaError, compiled, error_of, readable, unreadable_patterns
from proxy.language.lru import LRU
from proxy.offloop import leave_loop

MAX_NODES = 20_000
"""Objects, lists and values of a schema that is read."""
MAX_DEPTH = 64
"""Levels of a schema that is read: from some 90 on, behind recursive references, a library below jsonschema panics."""
CHECK_S = 0.25
"""Processor time for one value."""
READ_S = 2.0
"""For reading one schema, which is done once."""
_STEPS = 16
"""Between two looks at the clock."""
_CACHE_SIZE = 256
_DEFAULT = "https://json-schema.org/draft/2020-12/schema"
_OLDER = ("http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-04/schema")
_DRAFTS = {
    _DEFAULT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    _OLDER[0]: "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    _OLDER[1]: "Draft4Validator",
}


class SchemaInvalid(ValueError):
    """The schema is not one, or refers to what it does not hold."""


class NotChecked(RuntimeError):
    """The value could not be judged; says why in one word: ``time``, ``depth``, ``size``, ``unsupported``, ``failed``."""


class _CompiledSchema(Struct, frozen=True):
    """A schema, ready to be used."""

    validator: Any
    names: frozenset[str]
    """Of its properties."""
    left_out: tuple[str, ...] = ()
    """Keywords that cannot be read, and are not enforced."""


class _Clock:
    """Ends a check whose time is over. Validators hand it on in their field for a format checker, which is not used otherwise.

    It counts the thread's own processor time: what else the machine does changes no verdict.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.thread_time() + seconds
        self._steps = 0
        self.parts: dict[tuple[int, int], Any] = {}
        """Validators of parts of the schema, which each item of a list meets again."""

    @property
    def left_s(self) -> float:
        """Raises `NotChecked` when nothing is left."""
        left = self._until - time.thread_time()
        if left <= 0:
            raise NotChecked("time")
        return left

    def tick(self) -> None:
        """One step. Raises `NotChecked` when time is over."""
        self._steps += 1
        if not self._steps % _STEPS:
            self.left_s  # noqa: B018 - raises


T = TypeVar("T")
_cache: LRU[_CompiledSchema | SchemaInvalid | NotChecked] = LRU(_CACHE_SIZE)
"""By the hash of the schema: ready, or why it is not."""


def problems_of(schema: object, value: object, *, seconds: float = CHECK_S) -> tuple[SchemaError, ...]:
    """Where `value` does not match `schema`, `MAX_PROBLEMS` at most. Raises `SchemaInvalid`, `NotChecked`."""
    compiled = _compile(schema)

    def run() -> tuple[SchemaError, ...]:
        validator = type(compiled.validator)(
            compiled.validator.schema, format_checker=_Clock(seconds), _resolver=compiled.validator._resolver
        )
        return tuple(error_of(error, compiled.names) for error in islice(validator.descend(value, validator.schema), MAX_PROBLEMS))

    return _guard(run)


def left_out_of(schema: object) -> tuple[str, ...]:
    """Keywords of `schema` that cannot be read and are not enforced. Raises `SchemaInvalid`, `NotChecked`."""
    return _compile(schema).left_out


def _compile(schema: object) -> _CompiledSchema:
    try:
        key = hashlib.blake2b(orjson.dumps(schema), digest_size=16).digest()
    except (TypeError, ValueError, RecursionError):  # too deep, or no JSON
        raise NotChecked("depth") from None
    found = _cache.get(key)
    if found is None:
        try:
            found = _read(schema)
        except (SchemaInvalid, NotChecked) as error:
            found = type(error)(str(error))
        _cache.put(key, found)
    if isinstance(found, Exception):
        raise type(found)(str(found))
    return found


def _read(schema: object) -> _CompiledSchema:
    """Raises `SchemaInvalid`, `NotChecked`."""
    if not isinstance(schema, dict):
        raise SchemaInvalid("not an object")
    names, keys = _walk(schema)
    if "patternProperties" in keys and not keys.isdisjoint(("unevaluatedProperties", "unevaluatedItems")):
        raise NotChecked("unsupported")  # the library would match those patterns itself, without a limit
    said = schema.get("$schema")
    said = said.rstrip("#") if isinstance(said, str) else None
    drafts = (said,) if said in _DRAFTS else (_DEFAULT, *_OLDER)
    draft = next((draft for draft in drafts if not _wrong_with(schema, draft)), None)
    left_out: tuple[str, ...] = ()
    if draft is None:
        draft = drafts[0]
        found = readable(schema, lambda part: _wrong_with(part, drafts[0]))
        if found is None:
            raise SchemaInvalid(str(_wrong_with(schema, draft)[0].validator))
        schema, left_out = found
    left_out += tuple(unreadable_patterns(schema))
    made = _bounded_class(_DRAFTS[draft])
    return _CompiledSchema(made(schema, format_checker=_Clock(READ_S), registry=_no_registry()), names, tuple(dict.fromkeys(left_out)))


def _wrong_with(schema: object, draft: str) -> list[Any]:
    """The errors of a draft's meta-schema, `MAX_PROBLEMS` at most."""

    def run() -> list[Any]:
        made = _bounded_class(_DRAFTS[draft])
        meta = made(made.META_SCHEMA, format_checker=_Clock(READ_S), registry=_no_registry())
        return [inner for error in islice(meta.iter_errors(schema), MAX_PROBLEMS) for inner in _innermost(error)]

    return _guard(run)


def _innermost(error: Any) -> Iterator[Any]:
    """An error, or those of the alternatives in which it consists."""
    if not error.context:
        yield error
    for inner in error.context:
        yield from _innermost(inner)


def _walk(schema: object) -> tuple[frozenset[str], frozenset[str]]:
    """The names of a schema's properties, and every key of it. Raises `NotChecked` where it is too large or too deep."""
    names: set[str] = set()
    keys: set[str] = set()
    level: list[object] = [schema]
    nodes = depth = 0
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if nodes > MAX_NODES:
            raise NotChecked("size")
        if depth > MAX_DEPTH:
            raise NotChecked("depth")
        below: list[object] = []
        for node in level:
            if isinstance(node, dict):
                keys.update(node)
                properties = node.get("properties")
                names.update(properties if isinstance(properties, dict) else ())
                below += node.values()
            elif isinstance(node, list):
                below += node
        level = below
    return frozenset(names), frozenset(keys)


def _guard(work: Callable[[], T]) -> T:
    """`work`, whose failures are `NotChecked` or `SchemaInvalid`."""
    from referencing.exceptions import Unresolvable

    try:
        return work()
    except (NotChecked, SchemaInvalid):
        raise
    except Unresolvable:
        raise SchemaInvalid("$ref") from None
    except TimeoutError:
        raise NotChecked("time") from None
    except RecursionError:
        raise NotChecked("depth") from None
    except INTERRUPTIONS:
        raise
    except BaseException as error:  # a schema that its meta-schema passes can still upset the library (in Rust: panics); that is no match
        if isinstance(error.__cause__, Unresolvable):
            raise SchemaInvalid("$ref") from None
        if "RecursionError" in str(error):  # where the stack ends inside of Rust, its panic says so in words
            raise NotChecked("depth") from None
        raise NotChecked("failed") from error


# ---- the library, bounded ----


@cache
def _no_registry() -> Any:
    """Where references outside a schema are looked up: nowhere."""
    from referencing import Registry

    return Registry()


@cache
def _bounded_class(name: str) -> Any:
    """A draft's validator class whose every step looks at the clock."""
    import jsonschema
    from jsonschema.validators import extend

    stock = getattr(jsonschema, name)
    replaced = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "required": _required,
        "dependentRequired": _dependent_required,
        "format": _nothing,
    }
    keywords = {**stock.VALIDATORS, **{word: check for word, check in replaced.items() if word in stock.VALIDATORS}}
    made = extend(stock, {word: _with_clock(check) for word, check in keywords.items()})
    made.evolve, made.descend = _evolve, _descending(made.descend)
    return made


def _evolve(self: Any, **changes: Any) -> Any:
    """The validator of a part of its schema: of the same class, also where that part names another draft, whose class has no clock."""
    schema, resolver = changes.get("schema", self.schema), changes.get("_resolver", self._resolver)
    parts = self.format_checker.parts
    found = parts.get((id(schema), id(resolver)))
    if found is None:
        found = parts[id(schema), id(resolver)] = type(self)(schema, format_checker=self.format_checker, _resolver=resolver)
    return found


def _descending(stock: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """The library's step into a part of a schema, without its search for an ``$id`` where there is none."""

    def descend(self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None) -> Iterator[Any]:
        if instance is None and isinstance(schema, dict) and schema.get("nullable") is True:  # OpenAPI 3.0
            return
        if isinstance(schema, dict) and ("$id" in schema or "id" in schema):
            yield from stock(self, instance, schema, path=path, schema_path=schema_path, resolver=resolver)
            return
        for error in self.evolve(schema=schema, _resolver=resolver or self._resolver).iter_errors(instance):
            if path is not None:
                error.path.appendleft(path)
            if schema_path is not None:
                error.schema_path.appendleft(schema_path)
            yield error

    return descend


def _with_clock(keyword: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterator[Any]]:
    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        clock = validator.format_checker
        clock.tick()
        for error in keyword(validator, value, instance, schema) or ():
            clock.tick()
            yield error

    return run


def _error(name: object) -> Any:
    """An error about the property `name`; the library's own messages repeat the whole value."""
    from jsonschema import ValidationError

    return ValidationError("", validator_value=name)


def _nothing(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    return None


def _matches(validator: Any, pattern: str, text: str) -> bool:
    leave_loop()  # a pattern of the client's own may take all its time
    found = compiled(pattern)  # one that cannot be read here is in `_Compiled.left_out`, and allows everything
    return found is None or found.search(text, timeout=validator.format_checker.left_s) is not None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _matches(validator, pattern, instance):
        yield _error(None)


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for pattern, part in patterns.items():
            if compiled(pattern) is None:
                continue
            for name, value in instance.items():
                if _matches(validator, pattern, name):
                    yield from validator.descend(value, part, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    if not isinstance(instance, dict) or allowed is True:
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in known or any(_matches(validator, pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield _error(name)
        else:
            yield from validator.descend(value, allowed, path=name)


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        yield from (_error(name) for name in names if name not in instance)


def _dependent_required(validator: Any, dependencies: Mapping[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for name, needed in dependencies.items():
            if name in instance:
                yield from (_error(other) for other in needed if other not in instance)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """In linear time; the library compares objects in pairs."""
    if not wanted or not isinstance(instance, list):
        return
    seen: set[Any] = set()
    for item in instance:
        validator.format_checker.tick()
        key = _key(item)
        if key in seen:
            yield _error(None)
            return
        seen.add(key)


def _key(value: Any) -> Any:
    """Equal for equal JSON values: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return ("object", frozenset((name, _key(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_key(item) for item in value))
    return (isinstance(value, bool), value)

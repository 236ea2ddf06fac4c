"""What the proxy says of failures: to the model in a block at the prompt's end, to the user in a question, to the client in an error.

In: failure records. Out: text made of their structured fields only, always the same for the same fields; no text of the conversation. The
block is English, a question and an error are in the user's language (English, German, Spanish, French; any other becomes English).

Names come from clients, models and results: one is shown only where it is an identifier that gives no orders, and else is replaced by a
neutral word. Numbers are shown where they are short. Every parameter may be missing, and a stored one may be anything.

The block goes into the last message and is no message of its own: chat templates refuse a system message that is not the first, and some
providers move it to the front, which would change the whole prefix; others refuse a user message behind a tool's result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct

from proxy.context.conversation import with_text_after
from proxy.exchange import Message
from proxy.language.patterns import wordings
from proxy.ports.failures import FailureRecord

MAX_TOKENS = 200
MAX_CHARS = 500
"""Of a question."""
MAX_NAMES = 3
MAX_NAME_CHARS = 64
"""As OpenAI's API allows for a function's name."""
MAX_ID_CHARS = 40
MAX_NUMBER = 10**9
OPENING = "[Proxy's notes on what failed in this run so far: observed facts, not instructions of the user]"
CLOSING = "[End of the proxy's notes]"
_ROLES = frozenset(("user", "tool", "function"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.\-][A-Za-z0-9_]+){0,8}")
_EXCEPTION = re.compile(r"[A-Z][A-Za-z0-9]{1,34}(?:Error|Exception|Timeout|Failure|Fault|Warning|Exit|Interrupt)|E[A-Z]{3,14}")
_ORDERS = re.compile(
    r"ignore|disregard|override|overrule|forget|bypass|obey|jailbreak|reveal|pretend|previous|prior|above|instruct|prompt|system|assistant"
    r"|secret|password|must|always|never",
    re.I,
)
"""Two of these in one name are an order rather than a name."""
_PARAMETER = re.compile(r"\{(\w+)\}")


class Wording(Struct, frozen=True):
    """One language."""

    once: str
    twice: str
    times: str
    """From three on, with ``{}``."""
    nobody: Mapping[str, str]
    """By signal: what stands for a name that there is none of."""
    joints: Mapping[str, str]
    """How a clause takes up a name, where there is one."""
    obstacles: Mapping[str, Mapping[str, str]]
    """By signal and code: what happened."""
    details: Mapping[str, str]
    """What the outcome tells beside its code."""
    tried: str
    """With ``{names}``: arguments of the last call."""
    offers: Mapping[str, tuple[str, ...]]
    """To the user, by adjustment: the first whose parameters are all there is taken, the last one has none."""
    rules: Mapping[str, str]
    """A correction's parameters, as what was understood."""
    refusal: str
    """With ``{obstacle}``."""
    remedy: str
    """With ``{id}``: what an operator can do."""
    advice: Mapping[str, tuple[str, ...]] = {}
    """To the model, by adjustment, as `offers`. English."""
    commands: Mapping[str, str] = {}
    """A correction's parameters, to the model."""
    fixes: Mapping[str, str] = {}
    """What a keyword of JSON Schema that was not met asks for."""


TONGUES = wordings(__file__, Wording)


# ---- to the model ----


def render(records: Sequence[FailureRecord], count: Callable[[str], int], max_tokens: int = MAX_TOKENS) -> tuple[str, list[FailureRecord]]:
    """The block, and the records that it tells of: the first ones, as many as fit into `max_tokens` by `count`; "" where none fits.

    A record whose line stands there already is passed over.
    """
    lines: list[str] = []
    shown: list[FailureRecord] = []
    text = ""
    for record in records:
        line = line_of(record)
        if line in lines:
            continue
        longer = "\n".join((OPENING, *lines, line, CLOSING))
        if count(longer) > max_tokens:
            break
        text = longer
        lines.append(line)
        shown.append(record)
    return text, shown


def with_block(messages: Sequence[Message], block: str) -> list[Message] | None:
    """`messages` with `block` at the end of the last one; None where that is neither a user's words nor a tool's result."""
    last = messages[-1] if messages else {}
    changed = with_text_after(last, block) if last.get("role") in _ROLES else None
    return None if changed is None else [*messages[:-1], changed]


def line_of(record: FailureRecord) -> str:
    """``- search_docs timed out twice with limit=50: ask for at most 10 and page.``"""
    count = record.occurrence_count
    clause = obstacle(record, count=count if count > 1 else 0)
    name, arguments = record.recommended_adjustment.get("argument"), record.attempted_action.get("arguments")
    value = number(arguments.get(name)) if isinstance(name, str) and named(name) and isinstance(arguments, Mapping) else ""
    size = f" with {name}={value}" if value else ""
    return f"- {clause}{size}: {advised(record.recommended_adjustment, shown=str(name) if size else '')}."


def advised(adjustment: Mapping[str, Any], *, shown: str = "") -> str:
    """A clause such as ``ask for at most 10 and page``. `shown` is the argument that the line names already."""
    words = TONGUES["en"]
    return _fill(words.advice.get(str(adjustment.get("type")), ("try another way",)), _parameters(adjustment, words, shown))


# ---- to people ----


def question(record: FailureRecord, tongue: str = "en") -> str:
    """The question to the user: the obstacle, with which arguments it was met, and what would help."""
    words = TONGUES[tongue]
    clause = obstacle(record, tongue)
    name = named(record.subject)
    first = clause if name and clause.startswith(name) else clause[:1].upper() + clause[1:]
    arguments = record.attempted_action.get("arguments")
    names = _list_names(_arguments(arguments)) if isinstance(arguments, Mapping) else ""
    tried = words.tried.format(names=names) if names else ""
    adjustment = record.recommended_adjustment
    offer = _fill(words.offers.get(str(adjustment.get("type")), words.offers["ask_human"]), _parameters(adjustment, words))
    text = " ".join(part for part in (f"{first}.", tried, offer) if part)
    return text if len(text) <= MAX_CHARS else f"{first}. {offer}"


def refusal(record: FailureRecord, tongue: str = "en") -> str:
    """The message of the error that ends a request: what is broken, and what an operator can do about it."""
    words = TONGUES[tongue]
    return f"{words.refusal.format(obstacle=obstacle(record, tongue))} {words.remedy.format(id=record.id)}"


def obstacle(record: FailureRecord, tongue: str = "en", count: int | None = None) -> str:
    """What happened, in one clause: "search_docs timed out 3 times"; with a `count` of 0 it is not said how often."""
    words = TONGUES[tongue]
    name = named(record.subject)
    times = (record.stuck_count or record.occurrence_count) if count is None else count
    given = {key: joint.format(name) if name else "" for key, joint in words.joints.items()}
    given |= {"s": name or words.nobody.get(record.signal_type, ""), "n": _times(words, times)}
    unknown = words.obstacles["tool_error"]["error"]  # of another release
    clause = words.obstacles.get(record.signal_type, {}).get(record.code, unknown).format(**given)
    status, exception = number(record.observed_outcome.get("status")), exception_name(record.observed_outcome.get("exception"))
    details = ", ".join(part for part in (words.details["status"].format(status) if status else "", exception) if part)
    return " ".join(clause.split()) + (f" ({details})" if details else "")


# ---- parts ----


def named(name: object, otherwise: str = "") -> str:
    """`name` where it is an identifier, else the neutral word."""
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name) or len(_ORDERS.findall(name)) > 1:
        return otherwise
    return name


def exception_name(name: object) -> str:
    """The last part of an exception's name (``requests.exceptions.ConnectTimeout``), or an error number's (``ECONNREFUSED``)."""
    last = named(name).rpartition(".")[2]
    return last if _EXCEPTION.fullmatch(last) else ""


def number(value: object) -> str:
    """A short number as text, "" for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or abs(value) >= MAX_NUMBER:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _times(words: Wording, count: int) -> str:
    return "" if count < 1 else words.once if count == 1 else words.twice if count == 2 else words.times.format(min(count, MAX_NUMBER))


def _fill(templates: Sequence[str], given: Mapping[str, str]) -> str:
    return next(one.format(**given) for one in templates if all(given[name] for name in _PARAMETER.findall(one)))


def _parameters(adjustment: Mapping[str, Any], words: Wording, shown: str = "") -> dict[str, str]:
    """What of an adjustment can be shown, by the name that it has in `Wording`; "" for what is not there."""
    get = adjustment.get
    errors = [error for error in _list(get("errors")) if isinstance(error, Mapping)][:MAX_NAMES]
    fields = [(field, words.fixes.get(str(error.get("keyword")), "correct {}")) for error in errors if (field := _field(error))]
    tools = [tool for one in _list(get("tools")) if (tool := named(one))][:MAX_NAMES]
    arguments = [name for one in _list(get("arguments")) if (name := named(one))][:MAX_NAMES]
    argument, call = named(get("argument")), get("tool_call_id")
    rules = [(key, number(get(key)) or named(get(key))) for key in words.rules]
    return {
        "max": number(get("max")),
        "after": number(get("after_s")),
        "argument": "" if argument == shown else argument,
        "blamed": argument,
        "page": named(get("page_argument")),
        "names": _list_names([argument, *arguments, *(field for field, _ in fields)]),
        "either": " or ".join(arguments),
        "tool": named(get("tool")) or next(iter(tools), ""),
        "tools": ", ".join(tools),
        "either_tool": " or ".join(tools),
        "rule": ", ".join(words.rules[key].format(value) for key, value in rules if value),
        "commands": ", ".join(command.format(value) for key, value in rules if value and (command := words.commands.get(key))),
        "fixes": "; ".join(dict.fromkeys(fix.format(field) for field, fix in fields)),
        "call": named(call) if isinstance(call, str) and len(call) <= MAX_ID_CHARS else "",
        "message": number(get("message")),
        "used": number(get("used_tokens")),
        "window": number(get("window_tokens") or None),
    }


def _field(error: Mapping[str, Any]) -> str:
    """The field that an error is about: its name, or the last part of its pointer that is one (``/filters/0`` is about ``filters``)."""
    pointer = error.get("pointer")
    parts = pointer[-200:].split("/") if isinstance(pointer, str) else []
    return named(error.get("name")) or next((name for part in reversed(parts) if (name := named(part))), "")


def _arguments(arguments: Mapping[str, Any]) -> list[str]:
    """Of a call's arguments the names, with their values where these are numbers."""
    return [f"{name} = {value}" if (value := number(given)) else name for key, given in arguments.items() if (name := named(key))]


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(list(dict.fromkeys(filter(None, names)))[:MAX_NAMES])


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()

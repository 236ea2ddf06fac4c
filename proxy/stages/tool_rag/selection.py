"""What a conversation asks for, as text to rank tools by, and which of a request's tools go to the model. Pure functions over names and
numbers.

The query is the last user message; the context is what surrounds it: the turns before, and in an agent's loop the calls and results since.
Pasted content is cut to its head and tail, where the request mostly stands.

A tool is known by its key: a function's name, and for everything else (built-in tools, custom ones, broken ones) its type and name. Two
tools of one key stay or go together. What cannot be ranked is always kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate, islice
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from proxy.exchange import Message, Tool
from proxy.language.text import text_of
from proxy.ports.stage import Positive, Share, StageOptions


class ToolRagOptions(StageOptions, frozen=True, kw_only=True):
    """``tool_rag:``"""

    removed = {
        "above_share": "leave it out: above says from how many tools on they are selected from",
        "max_find_results": "one search of the model's adds five tools",
    }
    above: Annotated[int, Meta(ge=0, description="number of tools up to which all of them pass untouched")] = 30
    top_k: Annotated[
        Positive,
        Meta(description="most tools that one request adds by their relevance; up to twice as many where none is likely to be the one"),
    ] = 5
    min_relevance: Annotated[
        Share, Meta(description="probability of being needed from which a tool is kept; a tool too many costs less than one that is missed")
    ] = 0.02
    kin: Annotated[
        int, Meta(ge=0, description="tools of the best ones' objects that come with them, beyond top_k: of search_flights, book_flight")
    ] = 3
    when_none: Annotated[
        Literal["all", "keep", "none"],
        Meta(
            description="when no tool is sure to be needed: all stay where their names do not tell those of servers from the client's own "
            "(a server's: server__tool); the top_k stay; or none but those that reach min_relevance and those that always stay"
        ),
    ] = "all"
    always: Annotated[tuple[str, ...], Meta(description="names of tools that always stay; * and ? stand for any characters")] = ()
    find_tools: Annotated[bool, Meta(description="offer groundwire_find_tools, by which the model can get at the tools left out")] = True
    max_tools: Annotated[Positive, Meta(description="tools to which a run's set grows before it is chosen afresh")] = 20
    learn: Annotated[bool, Meta(description="learn from the tools that the model calls, for this client alone")] = True

    def __post_init__(self) -> None:
        if self.max_tools < self.top_k:
            raise ValueError("expected max_tools >= top_k")


HIGH_RISK_TOOLS = 30
"""Tools above which the risk of confusion is high."""
HIGH_RISK_SHARE = 0.25
"""Of the window from which on descriptions of tools make it high, too: a rule of thumb."""
OWN_PREFIX = "groundwire_"
"""Names of tools that the proxy offers."""
MAX_REMEMBERED = 512
"""Names of a run, those of tools that are not offered now included."""
SURE = 0.5
"""Probability of being needed from which a tool is taken for the one that the request is about. Where nothing else tells a client's own
tools, some are left out from here on only: on 24 catalogues of 45 (`benchmarks.tool_families.development`) 250 of 360 requests are cut,
354 keep what they need and 62% of the tokens are saved; a cut of all keeps 346 and saves 85%. Of "continue" and its like 2 in 100 are cut.
At 0.3 it is 302, 354, 73% and 7, and an agent that is not known loses tools of its own a third more often."""
_MASS = 0.95
"""Of all that is likely to be needed: so much is kept where no tool is sure. Both were chosen on 24 catalogues of 45 tools
(`benchmarks.tool_families.development`): 346 of 360 requests keep what they need, where the best five keep 335."""
_OPENING_CHARS = 100
_WORDS = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:/-]*[A-Za-z0-9_])?", re.ASCII)
_NOT_A_WORD = re.compile(r"[0-9]|[a-z][A-Z]|[A-Za-z][_.:][A-Za-z]")
"""What an ordinary word of a sentence does not have: a digit, an inner capital, an underscore or a dot between letters."""


class ToolCatalogue(Struct, frozen=True):
    """A request's tools by key."""

    tools: tuple[Tool, ...]
    keys: tuple[str, ...]
    """For each tool."""
    positions: Mapping[str, tuple[int, ...]]
    """Of a key's tools; keys stand in the order of their first tool."""
    rankable: tuple[int, ...]
    """Positions of the function tools with a name."""

    @property
    def ranked_tools(self) -> tuple[Tool, ...]:
        """The tools that a ranker is asked about."""
        return tuple(self.tools[i] for i in self.rankable)


def catalogue_of(tools: Sequence[Tool]) -> ToolCatalogue:
    """Never raises, whatever the client sent as tools."""
    names = [name_of(tool) for tool in tools]
    keys = tuple(name or _other_key(tool) for name, tool in zip(names, tools, strict=True))
    positions: dict[str, tuple[int, ...]] = {}
    for i, key in enumerate(keys):
        positions[key] = (*positions.get(key, ()), i)
    return ToolCatalogue(tuple(tools), keys, positions, tuple(i for i, name in enumerate(names) if name))


def name_of(tool: Tool) -> str:
    """A function tool's name; "" for any other tool, and for one without a name."""
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) and tool.get("type") in ("function", None) else None
    return name if isinstance(name, str) else ""


def _other_key(tool: Tool) -> str:
    kind = tool.get("type")
    inner = tool.get(kind) if isinstance(kind, str) else None
    name = inner.get("name") if isinstance(inner, Mapping) else tool.get("name")
    return f"{kind}:{name or ''}"  # no function's name has a colon


def must_keep(catalogue: ToolCatalogue, messages: Sequence[Message], chosen: Collection[str], always: Sequence[str]) -> set[str]:
    """Keys of tools that stay whatever is asked: called before, `chosen` by the client, matching `always`, or not to be ranked."""
    ranked = {catalogue.keys[i] for i in catalogue.rankable}
    named = {*called_names(messages), *chosen}
    return {
        key
        for key in catalogue.positions
        if key not in ranked or key in named or key.startswith(OWN_PREFIX) or any(fnmatchcase(key, pattern) for pattern in always)
    }


def words_like_names(text: str) -> list[str]:
    """The words of a text that a tool's name can be."""
    return _WORDS.findall(text)


def is_no_ordinary_word(word: str) -> bool:
    """Whether an ordinary sentence would not hold `word` by chance."""
    return _NOT_A_WORD.search(word) is not None


def without(catalogue: ToolCatalogue, relevance: Sequence[float], keys: Collection[str]) -> tuple[ToolCatalogue, list[float]]:
    """The catalogue and the relevance of its tools, with none of `keys` to be ranked."""
    left = [(i, score) for i, score in zip(catalogue.rankable, relevance, strict=True) if catalogue.keys[i] not in keys]
    return replace(catalogue, rankable=tuple(i for i, _ in left)), [score for _, score in left]


def best(catalogue: ToolCatalogue, relevance: Sequence[float], most: int, least: float = -1.0) -> dict[str, float]:
    """At most `most` keys with a relevance of at least `least`, the most relevant first. `relevance` is of the rankable tools."""
    found: dict[str, float] = {}
    for score, i in sorted(zip(relevance, catalogue.rankable, strict=True), key=lambda pair: (-pair[0], pair[1])):
        if len(found) == most or score < least:
            break
        found.setdefault(catalogue.keys[i], round(float(score), 4))
    return found


def least_relevance_of_late(rewrite_ratio: float, behind_tokens: int, withheld_tokens: float) -> float:
    """From which relevance a tool is worth adding to a run's: a provider writes the `behind_tokens` that stand behind the tools anew.

    0 as long as that costs no more than it saved to write the prompt without the tools withheld. Else a tool that is left out and needed
    after all costs the same, and a turn to search it, which reads the prompt once more. What a request is about joins whatever it costs.
    """
    worth = rewrite_ratio / (1 + rewrite_ratio) if rewrite_ratio * behind_tokens > (1 + rewrite_ratio) * withheld_tokens else 0.0
    return min(worth, SURE)


def likely_enough(relevance: Sequence[float], top_k: int) -> int:
    """How many of the most relevant tools to keep: `top_k` where one is sure, else as many as hold `_MASS`, at most twice `top_k`."""
    ordered = sorted(relevance, reverse=True)
    if not ordered or ordered[0] >= SURE:
        return top_k
    enough = _MASS * sum(ordered)
    count = next((n for n, mass in enumerate(accumulate(ordered), 1) if mass >= enough), len(ordered))
    return min(max(count, top_k), 2 * top_k)


def enough_of_servers(relevance: Sequence[float], top_k: int, max_tools: int) -> int:
    """How many of servers' tools to keep at least where none is sure: half of them, at least twice `top_k`, at most `max_tools`.

    The client's own tools stay anyway, so that few are left to cut. On requests to 30 servers (`benchmarks.tool_data.mcp_servers`,
    development) two to four at a time, 83 of 92 keep what they need, and 74 without this; tokens saved fall from 86% to 79%.
    """
    return 0 if max(relevance, default=1.0) >= SURE else min(max_tools, max(2 * top_k, len(relevance) // 2))


def kin(catalogue: ToolCatalogue, relevance: Sequence[float], keys: Sequence[str], most: int) -> dict[str, float]:
    """Tools that do something else with the objects of `keys`: ``book_flight`` and ``cancel_flight`` of ``search_flights``.

    What was found is booked, changed or cancelled next, and asked for in words that its tool does not have. At most `most` that are none
    of `keys`, the most relevant first, ties in the request's order. `relevance` is of the rankable tools.
    """
    objects = {_object_of(catalogue.tools[catalogue.positions[key][0]]) for key in keys} - {()}
    if not objects or not most:
        return {}
    last_words = {words[-1] for words in objects}
    alike = [  # the first test is cheap, for thousands of tools
        (score, i)
        for score, i in zip(relevance, catalogue.rankable, strict=True)
        if any(word in catalogue.keys[i].lower() for word in last_words)
        and catalogue.keys[i] not in keys
        and _object_of(catalogue.tools[i]) in objects
    ]
    found: dict[str, float] = {}
    for score, i in sorted(alike, key=lambda pair: (-pair[0], pair[1])):
        found.setdefault(catalogue.keys[i], round(float(score), 4))
    return dict(islice(found.items(), most))


def _object_of(tool: Tool) -> tuple[str, ...]:
    """The words of a tool's name but its verb; empty for a name of one word. The verb is the word that the description begins with
    ("Searches for flights"), or else the first one."""
    words = [_singular(word) for word in words_of(name_of(tool)).split()]
    if len(words) < 2:
        return ()
    said = [_singular(word) for word in words_of(str(tool["function"].get("description") or "")[:_OPENING_CHARS]).split()[:1]]
    verb = words.index(said[0]) if said and said[0] in words else 0
    return (*words[:verb], *words[verb + 1 :])


def _singular(word: str) -> str:
    """``flights`` and ``searches`` as ``flight`` and ``search``; only to compare."""
    return re.sub(r"(?<=[a-z]{3})(?:(?<=ch|sh|ss)es|s)$", "", word) if not word.endswith("ss") else word


def grown(
    catalogue: ToolCatalogue, remembered: Sequence[str], wanted: Collection[str], max_tools: float, stay: Collection[str] = ()
) -> tuple[str, ...]:
    """A run's keys with those of `wanted` that are new at the end, in the request's order.

    Where new ones bring the run above `max_tools` of the tools that are offered, those of `stay` not counted, they are chosen afresh:
    `wanted` alone. Not, though, when that would drop less than a quarter, so that a run which needs many tools does not choose afresh on
    every turn.
    """
    fresh = tuple(key for key in catalogue.positions if key in wanted)
    known = set(remembered)
    all_keys = (*remembered, *(key for key in fresh if key not in known))
    offered = tuple(key for key in all_keys if key in catalogue.positions)
    counted, anew = (sum(key not in stay for key in keys) for keys in (offered, fresh))
    if len(all_keys) > len(remembered) and counted > max_tools and anew <= 0.75 * counted:
        return fresh
    return all_keys if len(all_keys) <= MAX_REMEMBERED else offered


def tools_of(catalogue: ToolCatalogue, keys: Iterable[str]) -> tuple[Tool, ...]:
    """The very tools of `keys`, in their order; keys that are not offered now are passed over."""
    return tuple(catalogue.tools[i] for key in keys for i in catalogue.positions.get(key, ()))


def confusion_risk(tools: int, share: float) -> Literal["low", "medium", "high"]:
    """How likely a model is to pick a wrong tool, or a wrong argument, when it is shown all of them.

    In RAG-MCP's stress test (arXiv 2505.03275, figure 3) selection mostly succeeds among up to 30 tools, now and then among 31 to 70
    and rarely above 100: above 30 the risk is high (RF-006, scenario 11). A tenth, or a quarter, of the window taken by descriptions
    raises it too: a rule of thumb.
    """
    if tools > HIGH_RISK_TOOLS or share >= HIGH_RISK_SHARE:
        return "high"
    return "medium" if share >= 0.10 else "low"


QUERY_CHARS = 2000
CONTEXT_CHARS = 1500
_TURN_CHARS = 300
_RESULT_CHARS = 200
_TURNS_BEFORE = 4
_STEPS_AFTER = 8
_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+")


def task_of(messages: Sequence[Message]) -> tuple[str, str]:
    """``(query, context)``. Without a user's text the system's is the query; both are empty where there is neither."""
    at = next((i for i in reversed(range(len(messages))) if messages[i].get("role") == "user" and _text(messages[i])), None)
    if at is None:
        system = "\n".join(_text(m) for m in messages if m.get("role") in ("system", "developer"))
        return clipped(system.strip(), QUERY_CHARS), _join_messages(messages[-_STEPS_AFTER:])
    before, after = messages[max(0, at - _TURNS_BEFORE) : at], messages[at + 1 :][-_STEPS_AFTER:]
    return clipped(_text(messages[at]), QUERY_CHARS), _join_messages([*before, *after])


def called_names(messages: Sequence[Message]) -> list[str]:
    """Names of the tools that the conversation has calls or results of, in order, each once."""
    return list(dict.fromkeys(name for message in messages for name in _names(message)))


def clipped(text: str, most_chars: int) -> str:
    """`text`, or its head and tail where it is longer."""
    if len(text) <= most_chars:
        return text
    half = (most_chars - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def words_of(name: str) -> str:
    """``travel__searchFlights`` as ``travel search flights``."""
    return " ".join(_WORD_BORDER.sub(" ", name).lower().split())


def _join_messages(messages: Sequence[Message]) -> str:
    """One line a message, the last ones within `CONTEXT_CHARS`."""
    lines = [line for message in messages for line in _lines(message)]
    kept, room = [], CONTEXT_CHARS
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def _lines(message: Message) -> Iterator[str]:
    role = message.get("role")
    if role in ("user", "assistant") and (text := _text(message)):
        yield clipped(text, _TURN_CHARS)
    if role == "assistant" and (names := list(_names(message))):
        yield ", ".join(map(words_of, names))
    if role in ("tool", "function") and (text := _text(message)):
        yield clipped(text, _RESULT_CHARS)


def _names(message: Message) -> Iterator[str]:
    """Of an assistant's calls (both forms), or of the tool whose result this is."""
    calls = message.get("tool_calls")
    candidates = [message.get("function_call"), *(calls if isinstance(calls, list) else ())]
    for call in candidates:
        if not isinstance(call, Mapping):
            continue
        for part in (call.get("function"), call.get("custom"), call):
            name = part.get("name") if isinstance(part, Mapping) else None
            if isinstance(name, str):
                yield name
                break
    if message.get("role") in ("tool", "function") and isinstance(message.get("name"), str):
        yield message["name"]


def _text(message: Message) -> str:
    return text_of(message.get("content")).strip()

"""A conversation in the order that a model's chat template takes: one system message, in front, then sides that take turns. Pure functions.

OpenAI's and Anthropic's own servers take any order; the templates of Mistral, Gemma, Qwen and others, as vLLM, llama.cpp and Ollama apply
them, refuse a second system message, one in mid-conversation, and two turns of one side in a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.wire.translation.neutral import Part, Result, Text, Turn

_LATER = "<system>\n{}\n</system>"
"""A system message behind the first turn, in the user's: its place tells from when on it holds."""
BLANK = "(blank message)"
"""For a user's turn without a word where an API takes none: left out, the model's own turn would be the last."""
BEGUN = "(The assistant begins.)"
"""For APIs in which the user has the first word."""


def templated(turns: Sequence[Turn]) -> list[Turn]:
    """`turns` with one system turn at most, the first, and no two of one side in a row."""
    begin = next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))
    found = [_joined(turns[:begin])] if begin else []
    for turn in turns[begin:]:
        said = _as_user(turn) if turn.role == "system" else turn
        if found and found[-1].role == said.role and not _answers_calls(said):
            found[-1] = _joined([found[-1], said])
        else:
            found.append(said)
    return found


def _as_user(turn: Turn) -> Turn:
    text = "\n\n".join(part.text for part in turn.parts if isinstance(part, Text))
    return Turn("user", [Text(_LATER.format(text), turn.at)], turn.at)


def _answers_calls(turn: Turn) -> bool:
    """Whether it begins with results, which stand directly behind their calls."""
    return any(isinstance(part, Result) for part in turn.parts)


def _joined(turns: Sequence[Turn]) -> Turn:
    """One turn that says all of it: texts that meet are one text, which every template takes."""
    parts: list[Part] = []
    for turn in turns:
        for i, part in enumerate(turn.parts):
            last = parts[-1] if parts else None
            if not i and isinstance(part, Text) and isinstance(last, Text) and last.text.strip():
                parts[-1] = Text(f"{last.text}\n\n{part.text}", last.at)
            else:
                parts.append(part)
    return Turn(turns[0].role, parts, turns[0].at)


def opened_by_user(turns: Sequence[Turn]) -> list[Turn]:
    """`turns` with a user's first, and none of a user's without a word."""
    blank = [turn.role == "user" and not any(_says(part) for part in turn.parts) for turn in turns]
    filled = [Turn("user", [Text(BLANK, turn.at)], turn.at) if empty else turn for turn, empty in zip(turns, blank, strict=True)]
    return [Turn("user", [Text(BEGUN, "")], ""), *filled] if filled and filled[0].role == "assistant" else filled


def _says(part: Part) -> bool:
    return not isinstance(part, Text) or bool(part.text.strip())

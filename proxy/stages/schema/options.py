"""What the stage `schema` can be told."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from proxy.ports.stage import StageOptions

Checked = Literal["arguments", "response"]


class SchemaOptions(StageOptions, frozen=True, kw_only=True):
    """``schema:``"""

    check: Annotated[
        tuple[Checked, ...],
        Meta(
            min_length=1,
            description="what is checked: arguments (of tool calls, by the tool's schema), response (the text, by the JSON asked for)",
        ),
    ] = ("arguments", "response")
    unknown_tools: Annotated[bool, Meta(description="whether a call of a tool that was not offered is a violation too")] = True
    repair: Annotated[
        bool,
        Meta(
            description="mend what can be without loss (trailing commas, wrong quotation marks, a value inside a string, …), where "
            "the answer is held; tool calls leave the gate at once"
        ),
    ] = True
    retries: Annotated[
        Annotated[int, Meta(ge=0, le=3)] | None,
        Meta(
            description="how often the model is asked again where the answer still does not conform; null: once, where the answer is held. "
            "One that a token limit has cut is asked for again once at most"
        ),
    ] = None
    on_violation: Annotated[
        Literal["warn", "block"],
        Meta(
            description="an answer that does not conform in the end: passes with a warning, or block (400 policy_blocked; delivery: hold)"
        ),
    ] = "warn"

    @property
    def most_retries(self) -> int:
        """How often the model may be asked again."""
        return 1 if self.retries is None else self.retries

"""What the stage `poisoning` can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from proxy.context.pieces import PieceKind
from proxy.ports.stage import Positive, Share, StageOptions

Role = Literal["assistant", "tool", "user", "passages"]
FILE_TOOLS = (
    *("read", "read_file*", "*_read_file", "read_text*", "read_lines*", "read_multiple_files", "read_many_files", "read_notebook*"),
    *("view", "view_file*", "view_range", "open_file*", "cat", "head", "tail"),
    *("*grep*", "*ripgrep*", "glob*", "ls", "list_dir*", "list_files*", "find_file*", "search_files*", "search_code*", "code_search*"),
    *("codebase_search*", "bash*", "shell*", "*terminal*", "exec_*", "execute_*", "run_*", "*python*"),
    *("git_*", "str_replace*", "edit*", "write_*", "apply_*", "*skill*", "get_prompt*", "*_instructions"),
)
KIND_OF: Mapping[Role, PieceKind] = {"assistant": "assistant", "tool": "tool_result", "user": "user", "passages": "passage"}
_OF_KNOWLEDGE = "write it in the stage knowledge, which stands before this one: knowledge: {folder: …, min_contradiction: …}"


class PoisoningOptions(StageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``poisoning:``"""

    removed: ClassVar[Mapping[str, str]] = {
        "knowledge": _OF_KNOWLEDGE,
        "min_contradiction": _OF_KNOWLEDGE,
        "against": "statements are checked against the stage knowledge; answers: contradicted keeps out what claims found to be false",
        "min_injection_score": "act_on: suspicious acts on every text that counts as an instruction",
        "note": "the note is always the same, so that a model knows it again",
        "marker": "a statement that is taken out leaves nothing",
        "cache_size": "a worker remembers the last 8,192 pieces",
    }
    roles: Annotated[
        tuple[Role, ...], Meta(min_length=1, description="whose content is checked when it is new: assistant, tool, user, passages")
    ] = ("assistant", "tool", "passages")
    on_invalid: Annotated[
        Literal["block", "quarantine", "reject", "annotate"],
        Meta(
            description="false statements: block (they leave the context, and stay out unless a person approves them), quarantine (until a "
            "person decides), reject (400 policy_blocked), annotate (a warning); for those that a number, a date, a name or a not decides"
        ),
    ] = "annotate"
    on_inexact: Annotated[
        Literal["note", "annotate", "quarantine", "block", "reject"],
        Meta(description="statements that are false only by the verifier's reading of other words; note is for the record alone"),
    ] = "note"
    on_suspicious: Annotated[
        Literal["note", "annotate", "quarantine", "reject"],
        Meta(description="doubtful statements, and at least false ones: note (for the record alone), annotate, quarantine or reject"),
    ] = "note"
    on_low_confidence: Annotated[
        Literal["forward", "annotate", "quarantine", "block", "reject"],
        Meta(description="statements that are not known to be true with min_confidence; forward demands nothing"),
    ] = "forward"
    min_confidence: Annotated[Share, Meta(description="on_low_confidence: the confidence that the policy demands")] = 0.8
    injections: Annotated[
        Literal["quarantine", "block", "annotate", "ignore"],
        Meta(description="tool results and passages with instructions to the model in them; ignore does not look for any"),
    ] = "quarantine"
    act_on: Annotated[
        Literal["certain", "suspicious"],
        Meta(
            description="which of them: certain ones, or all that count as instructions (prompt templates, rules for agents and articles "
            "about attacks, too); of the others the likely ones are a warning, and the rest is noted in the record"
        ),
    ] = "certain"
    file_tools: Annotated[
        tuple[str, ...],
        Meta(
            description="tools that read the user's files, skills and prompts, or run commands, by name pattern: what they return is noted"
        ),
    ] = FILE_TOOLS
    answers: Annotated[
        Literal["contradicted", "unsupported", "none"],
        Meta(
            description="answers that the stage claims has found contradicted (or unsupported, too) enter quarantine, so that the client "
            "cannot feed them back as history; it is a warning, and contradicted means by a number, a date or a name"
        ),
    ] = "none"
    alert_above: Annotated[
        Share, Meta(description="share of poisoned pieces among the last 200 from which on log, metric and dashboard warn the operator")
    ] = 0.05
    max_claims: Annotated[
        Positive, Meta(description="statements judged of one piece; the rest of a longer one is an error, not a pass")
    ] = 200

    def __post_init__(self) -> None:
        if len(set(self.roles)) != len(self.roles):
            raise ValueError("roles: one stands here twice")

    @property
    def kinds(self) -> tuple[PieceKind, ...]:
        """The kinds of pieces that are checked."""
        return tuple(KIND_OF[role] for role in self.roles)

"""What the stage `poisoning` can be told, and by that: what is wrong with a piece of new content -> what becomes of it.

In: a `PoisoningFinding` for each statement, what the injection detector says, and the policy's options. Out: a `PieceDecision`: the hardest
action that any finding asks for, and which statements it is about. The table:

| found | action |
|---|---|
| a fact has another number, date or name, or a "not" | the harder of `on_invalid` and `on_suspicious` |
| false by the verifier's reading of other words | the harder of `on_inexact` and `on_suspicious` |
| doubtful | `on_suspicious` |
| not known to be true with `min_confidence` | `on_low_confidence` |
| certain instructions from outside (all with `act_on: suspicious`) | `injections` |
| likely ones, and others | annotate, and note |

A finding that could not be made decides nothing: its piece is an error of the check (`proxy.stages.poisoning.stage`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Meta, Struct

from proxy.context.pieces import PieceKind
from proxy.exchange.judgements import Status
from proxy.ports.stage import Share, StageOptions
from proxy.stages.poisoning.injection import InjectionFinding

Kind = Literal[
    "wrong_location",
    "wrong_date",
    "invented_date",
    "wrong_number",
    "wrong_unit",
    "wrong_name",
    "false_capability",
    "contradiction",
    "unsupported_claim",
    "outdated",
    "hidden_instruction",
]
"""``invented_date`` is a date of which the evidence knows nothing, ``wrong_date`` one that it knows otherwise; ``false_capability`` says
that something can or cannot be done; ``contradiction`` is any other statement that the evidence contradicts."""
KINDS: tuple[Kind, ...] = get_args(Kind)
EXACT: tuple[Kind, ...] = ("wrong_location", "wrong_date", "wrong_number", "wrong_unit", "wrong_name")
"""Kinds that a number, a date or a name decides: the evidence has another in its place. Others are a model's reading of two sentences, but
for a "not" that one of two sentences in the same words has."""
Action = Literal["pass", "note", "annotate", "quarantine", "block", "reject"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""From the mildest to the hardest. ``note`` is for the record alone; ``annotate`` warns; ``quarantine`` and ``block`` keep the content
from the model, the one until a person decides, the other unless a person decides otherwise; ``reject`` refuses the request."""
EXCLUDING: tuple[Action, ...] = ("quarantine", "block", "reject")
MOST = 0.5
"""Where more than this share of a piece's checkable statements fails, all of it goes: what is left would say little, and is doubtful."""


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
        "max_claims": "200 statements of a piece are judged; the rest of a longer one is an error, not a pass",
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

    def __post_init__(self) -> None:
        if len(set(self.roles)) != len(self.roles):
            raise ValueError("roles: one stands here twice")

    @property
    def kinds(self) -> tuple[PieceKind, ...]:
        """The kinds of pieces that are checked."""
        return tuple(KIND_OF[role] for role in self.roles)


class PoisoningFinding(Struct, frozen=True):
    """What was found of one statement."""

    text: str
    """As it stands in the piece."""
    start: int
    """Characters of the piece's text before it."""
    end: int
    status: Status
    confidence: float = 0.0
    kind: Kind = "unsupported_claim"
    """What is wrong with it, if anything is."""
    reason: str = ""
    correct_fact: str = ""
    source: str = ""
    """Of what it was judged by."""
    negation: bool = False
    """Whether a fact says the same words, one of the two with a "not"."""

    @property
    def exact(self) -> bool:
        """Whether a number, a date, a name or a "not" decides, and no model alone."""
        return self.kind in EXACT or self.negation


class Failing(Struct, frozen=True):
    """A statement that fails, and what the rules say of it."""

    finding: PoisoningFinding
    action: Action
    reason: str
    """In words, for the person who reviews it."""


class PieceDecision(Struct, frozen=True):
    """What becomes of a piece."""

    action: Action = "pass"
    kind: Kind | None = None
    """Of what weighs most."""
    reason: str = ""
    score: float | None = None
    """How sure the check is of it."""
    failing: tuple[Failing, ...] = ()
    """The statements that the action is about; those that are only annotated stay in the text."""
    whole: bool = False
    """Whether all of the piece goes: most of it is false, or it holds an instruction."""
    instruction: bool = False
    """Whether it holds an instruction that is kept from the model, whatever else is wrong with it."""
    low_confidence: bool = False
    """Whether what weighs most is not false, but not known to be true."""


def decide(
    findings: Sequence[PoisoningFinding], injection: InjectionFinding | None, options: PoisoningOptions, *, outside: bool = True
) -> PieceDecision:
    """The decision for one piece; what does not come from `outside` is full of prompts, and none of them is acted on."""
    failing = [found for finding in findings if (found := _failing(finding, options)) is not None]
    worst = max(failing, key=lambda one: (ACTIONS.index(one.action), one.finding.confidence), default=None)
    action, says = _of_instruction(injection, options, outside=outside)
    taken_out = action in EXCLUDING
    whole = taken_out or _is_most(failing, findings)
    if injection is not None and says and (worst is None or _harder(action, worst.action) == action):
        return PieceDecision(action, "hidden_instruction", says, injection.score, tuple(failing), whole, taken_out)
    if worst is None:
        return PieceDecision()
    finding, low_confidence = worst.finding, worst.finding.status in ("VALID", "UNKNOWN")
    reason = f"{says}; {worst.reason}" if says else worst.reason
    return PieceDecision(worst.action, finding.kind, reason, finding.confidence, tuple(failing), whole, taken_out, low_confidence)


def _of_instruction(injection: InjectionFinding | None, options: PoisoningOptions, *, outside: bool) -> tuple[Action, str]:
    """By how sure it is that an instruction is one, and what it says; a pass and "" where there is none."""
    if injection is None or not injection.suspicious or options.injections == "ignore":
        return "pass", ""
    says = f"looks like instructions to the model: {'; '.join(injection.reasons)}"
    if outside and (injection.certain or options.act_on == "suspicious"):
        return options.injections, says
    return ("annotate" if outside and injection.likely else "note"), says


def _failing(finding: PoisoningFinding, options: PoisoningOptions) -> Failing | None:
    """What the rules say of one statement; None where they let it pass."""
    if finding.status == "INVALID":
        return Failing(
            finding, _harder(options.on_invalid if finding.exact else options.on_inexact, options.on_suspicious), _reason(finding)
        )
    if finding.status == "SUSPICIOUS":
        return Failing(finding, options.on_suspicious, _reason(finding))
    confidence = finding.confidence if finding.status == "VALID" else 0.0  # what nothing is known of is not confirmed at all
    low = finding.status in ("VALID", "UNKNOWN") and confidence < options.min_confidence
    if not low or options.on_low_confidence == "forward":
        return None
    return Failing(finding, options.on_low_confidence, f"low confidence: {confidence:.2f}, below {options.min_confidence:.2f}")


def _reason(finding: PoisoningFinding) -> str:
    words = "contradicted by" if finding.status == "INVALID" else "not borne out by"
    reason = f"{finding.kind}: {words} {finding.source or 'the knowledge base'}"
    reason += f" ({finding.reason})" if finding.reason else ""
    return reason + (f": {finding.correct_fact}" if finding.correct_fact else "")


def _is_most(failing: Sequence[Failing], findings: Sequence[PoisoningFinding]) -> bool:
    taken_out = sum(one.action in EXCLUDING for one in failing)
    return taken_out > MOST * sum(finding.status != "ERROR" for finding in findings)


def _harder(one: Action, other: Action) -> Action:
    return max(one, other, key=ACTIONS.index)


# ---- what is wrong with a statement ----

_ABLE = re.compile(
    r"\b(?:can(?:not|['’]t)?|could(?:n['’]t)?|able|unable|capable|supports?|allows?|enables?|includes?|offers?|"
    r"provides?|compatible|works? with|"
    r"available|possible|kann|können|unterstützt|ermöglicht|erlaubt|bietet|fähig|möglich|puede|pueden|permite|soporta|admite|ofrece|capaz|"
    r"peut|peuvent|permet|prend en charge|supporte|offre)\b",
    re.I,
)
_PLACE_PREPOSITION = re.compile(
    r"\b(?:in|into|at|near|from|to|toward|towards|outside|inside|around|aus|nach|bei|im|en|à|au|aux|dans|vers|près de|"
    r"cerca de|desde|hacia)\s(?:the |der |dem |die |den |das |la |le |los |las |el |l['’])?$",
    re.I,
)
_OF = re.compile(r"\b(?:of|von|de|del|du|des|d['’])\s?(?:the |der |la |le |los |las |el |l['’])?$", re.I)
_PLACE = re.compile(
    r"\b(?:capital|city|town|village|country|state|province|region|district|continent|island|located|location|lies|"
    r"situated|headquarter\w*|based|flows?|mündet|fließt|desemboca|se jette|"
    r"born|died|lives?|lived|buried|built|hauptstadt|stadt|land|insel|liegt|gelegen|geboren|wohnt|capital|ciudad|país|"
    r"isla|ubicad[oa]|situad[oa]|"
    r"nació|capitale|ville|pays|île|situé\w*|né\w*|siège|sitz)\b",
    re.I,
)
_BEFORE_CHARS = 24


def kind_of(statement: str, evidence: str, *, contradicted: bool, language: str = "en", conflict: tuple[str, str] | None = None) -> Kind:
    """The type of a statement that `evidence` (``""`` where there is none) contradicts or, if not `contradicted`, does not bear out.

    `conflict` is what a fact has otherwise (its kind, and the statement's words for it) where that is known, two times ``""`` where nothing
    is: what the evidence merely lacks makes nothing wrong then.
    """
    if conflict is not None and conflict[0] not in ("", "negation"):
        return _of_value(statement, *conflict)
    if conflict is not None and not conflict[0]:
        return "unsupported_claim" if not contradicted else "false_capability" if _ABLE.search(statement) else "contradiction"
    if not evidence.strip():
        return "contradiction" if contradicted else "unsupported_claim"
    from proxy.grounding.values.consistency import differences  # some 20 ms to import: only where something is wrong

    found = {difference.kind: difference for difference in reversed(differences(statement, evidence, language))}
    for kind in ("date", "unit", "number", "name"):
        if kind in found:
            invented = kind == "date" and not found[kind].evidence
            return "invented_date" if invented else _of_value(statement, kind, found[kind].claim)
    if not (contradicted or "negation" in found):
        return "unsupported_claim"
    return "false_capability" if _ABLE.search(statement) else _replacement_kind(statement, evidence, language)


def _of_value(statement: str, kind: str, words: str) -> Kind:
    """Of a value that is another one; `words` are the statement's for it."""
    if kind == "name":
        return "wrong_location" if _is_place(statement, words) else "wrong_name"
    return {"number": "wrong_number", "unit": "wrong_unit"}.get(kind, "wrong_date")  # type: ignore[return-value]


def _replacement_kind(statement: str, evidence: str, language: str) -> Kind:
    """What stands in another's place where no value is missing: a name that the evidence has elsewhere, or other words."""
    from proxy.grounding.values.slots import instead

    other = instead(statement, evidence, language)
    name = other[:1].isupper() and (language != "de" or _PLACE.search(statement) is not None)  # German has capitals everywhere
    placed = name and _PLACE_PREPOSITION.search(evidence[: max(0, evidence.find(other))][-_BEFORE_CHARS:]) is not None
    return "wrong_location" if placed else "contradiction"


def _is_place(statement: str, name: str) -> bool:
    """Whether `name` is said to be where something is: by the word before it, or because the sentence speaks of places."""
    at = statement.find(name)
    before = statement[max(0, at - _BEFORE_CHARS) : max(0, at)]
    if _PLACE_PREPOSITION.search(before):
        return True
    return _PLACE.search(statement) is not None and (
        _OF.search(before) is not None or at <= 4 or bool(re.search(r"\b(?:is|ist|es|est)\s$", before))
    )

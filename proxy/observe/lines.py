"""What a list shows of an exchange on its line: why it ended so, what shadow mode held back, its first words. For `recording` alone."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.exchange import QUIET, Exchange, Verdict, unchecked_reason
from proxy.language.text import text_of
from proxy.observe.finished import Finished
from proxy.store.masking import mask_text
from proxy.store.records import NOTHING

_GRAVEST = ("block", "retry", "answer", "ask", "edit")
_READ_CHARS, _KEPT_CHARS = 2000, 160
"""Read and masked, and kept of it: more than is kept, so that a secret is not cut in two before it is seen."""
_QUIET = (*QUIET, "skipped", "pending")


def reason_of(finished: Finished) -> str:
    """The code of what decided the outcome: of the error that ended it, of the gravest verdict, or why nothing was checked; else ""."""
    error, exchange = finished.error, finished.exchange
    if error is not None:
        return error.param or error.code if error.code == "policy_blocked" else error.code
    verdicts: Sequence[Verdict] = exchange.verdicts if exchange is not None else ()
    if finished.verdict in _QUIET:
        unchecked = unchecked_reason(verdicts) if finished.verdict == "unchecked" else ""
        return f"status_{finished.status}" if finished.status >= 400 else unchecked
    return next((one.code for one in reversed(verdicts) if one.outcome == finished.verdict and one.code), "")


def would_of(exchange: Exchange | None) -> str:
    """In shadow mode the gravest thing that a stage would have done."""
    if exchange is None or exchange.enforced:
        return ""
    would = {verdict.would for verdict in exchange.verdicts}
    return next((name for name in _GRAVEST if name in would), NOTHING)


def asked_of(exchange: Exchange) -> str:
    """The last user message's text."""
    return next((text_of(m.get("content")) for m in reversed(exchange.original.messages) if m.get("role") == "user"), "")


def said_in(exchange: Exchange) -> str:
    """The answer's first text, or the names of the tools that it calls."""
    choices = exchange.answer.choices if exchange.answer is not None else ()
    said = next((text for choice in choices for text in (choice.text, choice.refusal) if text), "")
    names = [call.name for choice in choices for call in choice.tool_calls]
    return said or (f"calls {', '.join(names)}" if names else "")


def first_words(text: str) -> str:
    """On one line, secrets masked."""
    words = " ".join(mask_text(text[:_READ_CHARS]).split())
    return words if len(words) <= _KEPT_CHARS else words[:_KEPT_CHARS].rstrip() + " …"

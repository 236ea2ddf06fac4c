"""What does a judge cost? Tokens of the questions about an answer, and dollars per thousand answers by the prices that providers state.

    python -m benchmarks.judge_costs

Every right answer of `benchmarks.promise_data` is cut into statements as the stage `claims` cuts it, and all of an answer's go into one
call, as `proxy.grounding.judging` makes it for a decision model and for a chat model. Tokens are those of o200k_base over all texts of the
call; a provider's own tokenizer counts some per cent more or less. The chat model's answer is the least that it can be: choice and
confidence of each statement, without reasons. Nothing is asked, and no judge's word is measured here.

Prices: the bundled list's where it has the model, else `STATED`, read in November 2026. Intervals are 95%, by bootstrap over answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.load.report import print_table
from benchmarks.load.statistics import estimate
from benchmarks.promise_data import Pair, pairs
from proxy.exchange import Evidence, Usage
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.readouts import prompt, state_of
from proxy.grounding.judging.reconsidering import question_of
from proxy.models.tokens.counter import TiktokenCounter

MODELS: Sequence[tuple[str, str]] = (
    ("gpt-6-luna", "gpt-6-luna"),
    ("gemini-decision-1", "gemini-decision-1"),
    ("TypeSafe jev-latest", "typesafe/jev-latest"),
    ("Cloudflare clef", "cloudflare/clef"),
    ("Cloudflare clef-flash", "cloudflare/clef-flash"),
    ("Fireworks rune", "fireworks_ai/accounts/fireworks/models/rune"),
    ("Perplexity pplx-decider-v1.2", "perplexity/pplx-decider-v1.2"),
)
"""Decision models, and their names in the list of prices."""
CHATS = ("gpt-4o-mini", "gpt-6-luna")
STATED: Mapping[str, float] = {
    "gemini-decision-1": 0.10,  # ai.google.dev/gemini-api/docs/pricing
    "fireworks_ai/accounts/fireworks/models/rune": 0.042,  # litellm 1.110's list
    "perplexity/pplx-decider-v1.2": 0.02,  # litellm 1.110's list
}
"""Dollars per million tokens of input; output is free."""


@dataclass(slots=True, frozen=True)
class Cost:
    """Of one answer."""

    statements: int
    tokens: int
    chat_tokens: int
    """Of the same questions to a chat model."""
    said_tokens: int
    """Of its answer."""


def cost(pair: Pair, counter: TiktokenCounter) -> Cost:
    """Of asking about its right answer."""
    base = EvidenceBase([Evidence(passage["content"], passage.get("source", "")) for passage in pair.passages])
    claims = [claim for claim in claims_of(pair.right, pair.question) if claim.checkable]
    asked = [question for claim in claims if (question := question_of(claim, base)) is not None]
    if not asked:
        return Cost(0, 0, 0, 0)
    state, questions = state_of(asked)
    model = counter.model("gpt-4o")
    texts = [state, *(text for question in questions for text in (question.name, question.instructions, *question.choices))]
    messages = "\n".join(str(message["content"]) for message in prompt(asked))
    said = json.dumps({"answers": [{"number": i, "answer": "supported", "confidence": 0.95} for i in range(len(questions))]})
    counted = (counter.count_text(text, model) for text in ("\n".join(texts), messages, said))
    return Cost(len(asked), *counted)


def usd_per_token(counter: TiktokenCounter, name: str) -> float | None:
    """The stated price of input."""
    known = counter.model(name).input_usd_per_token
    return known if known is not None else STATED[name] / 1e6 if name in STATED else None


def main() -> None:
    """Count, print."""
    counter = TiktokenCounter({})
    counter.load()
    rows = pairs()
    found = [one for one in (cost(pair, counter) for pair in rows) if one.statements]
    tokens = [float(one.tokens) for one in found]
    print(f"{len(found)} answers of {len(rows)} have statements to judge; one call an answer, `ask: all`")
    print_table(
        "An answer's questions",
        ["", "mean [95%]", "most"],
        [
            ["statements", estimate([float(one.statements) for one in found]).text(1), str(max(one.statements for one in found))],
            ["tokens in, decision model", estimate(tokens).text(0), f"{max(tokens):.0f}"],
            ["tokens in, chat model", estimate([float(one.chat_tokens) for one in found]).text(0), str(max(o.chat_tokens for o in found))],
            ["tokens out, chat model", estimate([float(one.said_tokens) for one in found]).text(0), str(max(o.said_tokens for o in found))],
        ],
    )
    table = []
    for title, name in MODELS:
        price = usd_per_token(counter, name)
        mean = estimate([1000 * price * count for count in tokens]).text(4) if price is not None else "no price known"
        table.append([title, "-" if price is None else f"{price * 1e6:.3g}", mean])
    for name in CHATS:
        info = counter.model(name)
        costs = [info.cost_usd(Usage(one.chat_tokens, one.said_tokens)) for one in found]
        table.append(
            [f"{name}, as a chat model", f"{(info.input_usd_per_token or 0) * 1e6:.3g}", estimate([1000 * (c or 0) for c in costs]).text(4)]
        )
    print_table("Dollars", ["judge", "per million tokens in", "per thousand answers [95%]"], table)


if __name__ == "__main__":
    main()

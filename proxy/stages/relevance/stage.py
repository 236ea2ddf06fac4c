"""The stage `relevance`: are the retrieved passages any good for this question?

It judges `exchange.passages`, wherever they stand, against the last user message before the model is called. Below `min` it warns
(``low_relevance``). With `action: answer`, below `answer_below` or where nothing was found, it says in the model's stead that the
information is not there, if the question says by itself what it is about and the rest of the conversation has no answer either. Both
probabilities were chosen on the training half of `benchmarks.relevance_data`, and are measured on the other.

It does nothing, and says why, where there is nothing to judge: no passages, a message that asks nothing of their subject (thanks,
"translate that to German"), a language that was not measured. Where the request offers tools the model may still search or act, and an
answer in its stead would end its loop: then a low score is a warning. After a tool call the question is the
user's, not the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from proxy.context.conversation import unread_size
from proxy.context.faithful_texts import no_answer
from proxy.context.question import Question, find_question
from proxy.exchange import Answer, Choice, Evidence, Exchange, Outcome, Verdict
from proxy.grounding import relevance_scoring as scoring
from proxy.grounding.judging.questions import relevance_question
from proxy.language.detection import language
from proxy.language.patterns import LazyPattern
from proxy.offloop import run_in_thread_if_large
from proxy.ports.judge import Builtin, JudgeAnswer, JudgeSession
from proxy.ports.stage import Action, ActionKind, Share, Stage, StageHeader, StageOptions, score_text
from proxy.stages.relevance import retrieval

MEASURED_LANGUAGES = frozenset(("en", "de", "es", "fr"))
"""Of questions and passages in ``benchmarks.relevance_data``; of its few Italian and Portuguese ones over records, a sixth of the right
contexts would be warned of."""
_WARNS = 2.5
"""Times `answer_below`: 0.15. On the training half (``python -m training.relevance``) 3.3% of the right contexts of one passage are below
it, 2.2% without the group of indirect questions, and 18.5% of other topics' above it. At 0.4 these would be 11.6% and 5.2%."""
_NAMES_ITS_TERM = 4
"""A question for a definition leaves nothing unsaid, unlike others of so few words: no right passage of the training half is below 0.6."""
_MIN_SHARED = 0.2
"""Share of the question's words that a passage has which is not plainly off: of other topics' contexts hardly one below 0.06 has more."""
_ABBREVIATION = LazyPattern(r"[A-ZÄÖÜ]{2,6}s?")
MAX_PASSAGES = 20
"""Passages looked at: those given with this request, then the newest."""
MAX_WINDOWS = 48
"""Windows embedded for one request, about 10 ms each when full and cold; of longer contexts those that share most words."""


class RelevanceOptions(StageOptions, frozen=True, kw_only=True):
    """``relevance:``"""

    removed: ClassVar[Mapping[str, str]] = {
        "with_tools": "where the request offers tools, with which the model may still search, action: answer warns",
        "max_passages": "20 passages are looked at: those given with this request, then the newest",
        "drop_below": "the stage validation leaves passages out: validation: {action: {relevance: drop}, thresholds: {relevance: …}}",
    }
    mode: Annotated[
        Literal["auto", "embedding", "llm", "hybrid"],
        Meta(
            description="embedding: calibrated similarity; llm: the policy's judge; hybrid: the judge where the first is not certain; "
            "auto: hybrid in a policy that names a judge, else embedding"
        ),
    ] = "auto"
    min: Annotated[Share, Meta(description="probability below which the passages count as no help, in the record and its figures")] = 0.4
    action: Annotated[
        Literal["answer", "warn", "note"],
        Meta(
            description="what becomes of a search that found nothing, or nothing of use (see answer_below): answer with no_answer, without "
            "calling the model, or warn where the answer may stand elsewhere; warn: go on, with a warning; note: for the record alone"
        ),
    ] = "answer"
    answer_below: Annotated[
        Share,
        Meta(description="action: answer: probability below which the passages are about something else; below 2.5 times that it warns"),
    ] = 0.06
    no_answer: Annotated[
        str | Mapping[str, str], Meta(description="the text, or texts by language; without one of the question's language, English")
    ] = {}
    uncertain: Annotated[
        tuple[Share, Share],
        Meta(
            description="hybrid: probabilities between which the judge is asked; below them, too, where the stage cannot answer for itself"
        ),
    ] = (0.05, 0.8)

    def __post_init__(self) -> None:
        if self.uncertain[0] > self.uncertain[1]:
            raise ValueError("uncertain: expected [low, high]")


class RelevanceFinding(Struct, frozen=True):
    """What is known of a context."""

    score: float
    """Probability that the passages help."""
    ranked: tuple[scoring.PassageScore, ...] = ()
    judgement: JudgeAnswer | None = None
    """Of the policy's judge, where it was asked and has answered."""
    nothing: str = ""
    """How it is known that the search found nothing, where it did."""


_HEADER = "calibrated relevance of the context to the question, 0.00 to 1.00"
COUNTERS = {
    "context.relevance_checked_count": "requests whose context was compared with the question",
    "context.relevance_llm_count": "times the policy's judge was asked about it",
    "context.irrelevant_context_count": "requests whose context has little to do with the question",
    "context.relevance_answered_count": "requests answered by the stage for it",
}


class Relevance(Stage[RelevanceOptions]):
    """Tells whether the passages can answer the question; where the search found nothing of use, answers in the model's place."""

    name = "relevance"
    Options = RelevanceOptions
    assigns = ("relevance",)
    changes = ("answer",)
    counters = COUNTERS
    headers = (StageHeader("relevance", _HEADER, lambda facts, _: score_text(facts.relevance)),)
    reports = ("low_relevance",)
    reads_passages = True
    embeds = True

    @classmethod
    def actions(cls, options: RelevanceOptions) -> tuple[Action, ...]:
        """An answer in the model's stead is a refusal."""
        kinds: Mapping[str, ActionKind] = {"answer": "block", "warn": "warn"}
        kind = kinds.get(options.action, "annotate")
        return (Action(kind, "low_relevance"),)

    @classmethod
    def judges(cls, options: RelevanceOptions) -> bool:
        """In every mode but one."""
        return options.mode != "embedding"

    @classmethod
    def needs_judge(cls, options: RelevanceOptions) -> str:
        """The modes that are made of it."""
        return f"mode: {options.mode}" if options.mode in ("llm", "hybrid") else ""

    @property
    def _mode(self) -> str:
        """How it judges."""
        if self.options.mode != "auto":
            return self.options.mode
        return "embedding" if isinstance(self.ports.judge, Builtin) else "hybrid"

    @property
    def read_only(self) -> bool:
        """Where it does not answer itself."""
        return self.options.action != "answer"

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Judge the passages; answer or warn."""
        size = unread_size(exchange)
        usable = await run_in_thread_if_large(size, retrieval.usable, exchange)
        nothing = "" if usable else await run_in_thread_if_large(size, retrieval.nothing_found, exchange)
        if not usable and not nothing:
            return self._nothing("no passages")
        question = await run_in_thread_if_large(size, find_question, exchange.conversation)
        if not question.readings:
            return self._nothing(question.reason)
        judge = self.ports.judge.session(exchange, self.name) if self.judges(self.options) else None
        if (
            not nothing
            and (judge is None or self.options.mode != "llm")
            and not is_measured(question, [exchange.passages[i] for i in usable])
        ):
            return self._nothing("a language that was not measured")
        chosen = [usable[i] for i in newest([exchange.passages[i] for i in usable], MAX_PASSAGES)]
        texts = [exchange.passages[i].content for i in chosen]
        finding = RelevanceFinding(0.0, nothing=nothing) if nothing else await self._find(exchange, question, texts, judge)
        exchange.facts.relevance = finding.score
        detail = self._detail(finding, chosen, question)
        self.ports.counters.count("context.relevance_checked_count")
        if finding.score < self.options.min:
            return await self._refuse(exchange, question, finding, detail)
        return Verdict(self.name, "pass", score=finding.score, detail=detail)

    def _nothing(self, reason: str) -> Verdict:
        return Verdict(self.name, "unchecked", detail={"mode": self._mode, "reason": reason})

    async def _find(self, exchange: Exchange, question: Question, passages: Sequence[str], judge: JudgeSession | None) -> RelevanceFinding:
        """What is known of the passages; a judge that has no answer leaves it at their similarity."""
        if judge is not None and self.options.mode == "llm":
            judged = await self._judge(question, passages, judge, RelevanceFinding(0.0))
            if judged.judgement is not None:
                return judged
        context = await self._embed(question, passages)
        finding = RelevanceFinding(context.probability, context.ranked)
        if judge is None:
            return finding
        low, high = (0.0, 1.0) if self.options.mode == "llm" or judge.ask == "all" else self.options.uncertain
        if context.probability > high or (context.probability < low and not await self._unsure(exchange, question, finding)):
            return finding
        return await self._judge(question, passages, judge, finding)

    async def _embed(self, question: Question, passages: Sequence[str]) -> scoring.ContextScore:
        """The best of the question's readings."""
        size = sum(map(len, passages))
        found = []
        for reading in question.readings:
            windows = await run_in_thread_if_large(size, scoring.cut, reading, passages, MAX_WINDOWS)
            asked, vectors = await asyncio.gather(
                self.ports.embedder.embed([reading]), self.ports.embedder.embed([window.text for window in windows])
            )
            found.append(scoring.score(asked[0], windows, vectors))
        return max(found, key=lambda context: context.probability)

    async def _judge(self, question: Question, passages: Sequence[str], judge: JudgeSession, before: RelevanceFinding) -> RelevanceFinding:
        (answer,) = await judge.answers([relevance_question(question.full, passages)])
        if not answer.probabilities:
            return before
        if not answer.cached:
            self.ports.counters.count("context.relevance_llm_count")
        return RelevanceFinding(answer.probabilities["yes"], before.ranked, answer)

    def _detail(self, finding: RelevanceFinding, chosen: Sequence[int], question: Question) -> dict[str, Any]:
        scores = {chosen[p.passage]: round(p.probability, 4) for p in finding.ranked}
        judgement = finding.judgement
        detail: dict[str, Any] = {
            "mode": self._mode,
            "score": round(finding.score, 4),
            "min": self.options.min,
            "reason": reason(finding, chosen),
            "passages": [{"index": index, "score": scores.get(index)} for index in chosen],
        }
        if len(question.readings) > 1:
            detail["readings"] = len(question.readings)
        if judgement is not None:
            detail["judge"] = {"by": judgement.by, "yes": round(judgement.probabilities["yes"], 4)}
        return detail

    async def _refuse(self, exchange: Exchange, question: Question, finding: RelevanceFinding, detail: dict[str, Any]) -> Verdict:
        """Too little relevance: answer in the model's stead, warn, or say so in the record."""
        self.ports.counters.count("context.irrelevant_context_count")
        may_search = bool(exchange.tools) and exchange.wants.calls != "none"
        action = "warn" if self.options.action == "answer" and may_search else self.options.action
        off = bool(finding.nothing) or finding.judgement is not None or self._is_off(finding.score, self._warn_below(question))
        unsure = await self._unsure(exchange, question, finding) if action == "answer" else ""
        if unsure:
            detail = {**detail, "unsure": unsure}
        if action == "answer" and not unsure:
            self.ports.counters.count("context.relevance_answered_count")
            first = " ".join(passage.content for passage in exchange.passages[:1])  # says the language of a question too short to tell
            text = no_answer(self.options.no_answer, question.text, first)
            exchange.answer = Answer((Choice(0, text=text, finish_reason="stop"),), model=exchange.original.model)
        else:
            warns = action != "note" and question.seeks and off and not _is_of_another_language(question, finding)
            warns = warns and (bool(finding.nothing) or not await self._is_for_another(exchange))
            action = "warn" if warns else "note"
        outcome: Outcome = "unchecked" if action == "note" else "warn"
        return Verdict(self.name, outcome, code="low_relevance", score=finding.score, detail={**detail, "action": action})

    async def _unsure(self, exchange: Exchange, question: Question, finding: RelevanceFinding) -> str:
        """Why an answer in the model's stead might be wrong; "" where it cannot be."""
        if not question.plain and not (finding.nothing and question.asks and question.brief):
            return question.unresolved if question.asks else "it asks for no fact"
        if await self._is_for_another(exchange):
            return "nothing was retrieved for this question"
        if finding.judgement is None and not finding.nothing:
            if _ABBREVIATION.fullmatch(question.readings[-1]):
                return "an abbreviation, which a passage may spell out"
            if not self._is_off(finding.score, self.options.answer_below * (_NAMES_ITS_TERM if question.defines else 1)):
                return "not plainly off"
            if not question.defines and any(passage.coverage > _MIN_SHARED for passage in finding.ranked):
                return "a passage shares words with the question"
        rest = await run_in_thread_if_large(unread_size(exchange), retrieval.rest_of_talk, exchange)
        limit = self.options.min if question.defines else self._warn_below(question)
        if rest and not self._is_off((await self._embed(question, rest)).probability, limit):
            return "the answer may stand elsewhere in the conversation"
        return ""

    async def _is_for_another(self, exchange: Exchange) -> bool:
        return await run_in_thread_if_large(unread_size(exchange), retrieval.is_for_another_question, exchange)

    def _warn_below(self, question: Question) -> float:
        return self.options.answer_below * (_NAMES_ITS_TERM if question.defines else _WARNS)

    def _is_off(self, score: float, limit: float) -> bool:
        return score < min(self.options.min, limit)


def is_measured(question: Question, passages: Sequence[Evidence]) -> bool:
    """Whether the probability means something for the question's language and for one of the passages', as far as they can be told."""
    known = [language(text, default="en") in MEASURED_LANGUAGES for text in (question.text, *(passage.content for passage in passages))]
    return known[0] and any(known[1:])


def _is_of_another_language(question: Question, finding: RelevanceFinding) -> bool:
    """Whether a question that says too little of its subject meets passages in another language: "¿Qué dice el correo?" of an English one.
    They can share no words, and few are too few for what they mean.
    """
    return finding.judgement is None and bool(question.unresolved and finding.ranked) and not finding.ranked[0].same_language


def newest(passages: Sequence[Evidence], most: int) -> list[int]:
    """Indices of at most `most` passages, in order: those that came with the request itself first, then the newest messages'."""
    by_age = sorted(range(len(passages)), key=lambda i: (_age(passages[i]), i))
    return sorted(by_age[:most])


def _age(passage: Evidence) -> float:
    return float("-inf") if passage.message_index is None else -passage.message_index


def reason(finding: RelevanceFinding, chosen: Sequence[int]) -> str:
    """For the record: the judge's reason, or the best passage's figures."""
    if finding.judgement is not None and finding.judgement.reason:
        return finding.judgement.reason
    if not finding.ranked:
        return finding.nothing
    best = finding.ranked[0]
    tongue = "" if best.same_language else ", in another language"
    return f"best passage {chosen[best.passage]}: cosine {best.cosine:.2f}, has {best.coverage:.0%} of the question's words{tongue}"

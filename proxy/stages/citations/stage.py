"""The stage `citations`: does what the answer cites exist, and does it say what the sentence says that cites it?

After `claims`, whatever the policy's order, and on what that leaves of an answer. Numbers count as in the prompt that the model saw,
sources are those of all evidence (`proxy.grounding.citations.citable`); what supports a sentence is judged as claims are, but by the cited
passages alone. Where it may redact or block under gate delivery, each sentence is judged before it leaves: a citation behind a full stop
is seen with the next sentence, and can still be taken out then. JSON answers are judged by their strings and left as they are.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from proxy.context.conversation import unread_size
from proxy.context.faithful import detect_context_ignoring
from proxy.exchange import Choice, Exchange, Outcome, Sentence, Verdict
from proxy.exchange.judgements import faithfulness
from proxy.grounding.citations import checking as scores
from proxy.grounding.citations.checking import CitationFinding, CitationJudge, JudgedStatement
from proxy.grounding.citations.citable import Citable
from proxy.grounding.citations.citing import CitedStatement, without_marks
from proxy.grounding.claims.checkable import is_story
from proxy.grounding.evidence.gathering import gather, may_have_context, question_of
from proxy.grounding.judging.grounder import Grounder
from proxy.grounding.quality import refresh
from proxy.language.detection import language
from proxy.offloop import SENTENCES, Breather, run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.stage import Action, ActionKind, SentenceStage, Share, StageHeader, StageOptions
from proxy.stages.citations.reading import (
    JSON,
    QUOTATION,
    Case,
    codes_of,
    is_unchecked,
    json_strings,
    quotations,
    read_statements,
    reader_of,
    takes_numbers,
)


class CitationsOptions(StageOptions, frozen=True, kw_only=True):
    """``citations:``"""

    removed = {
        "min_precision": "action: block with fail_on: unsupported refuses an answer with any citation that does not support its sentence",
        "min_recall": "leave it out: the record's citation_recall says how many sentences cite what they need",
        "require": "leave it out: the record's citation_recall says how many sentences cite what they need",
        "ignored_below": "an answer ignores its passages where less than half of it is supported",
        "max_citations": "of an answer 60 citations are judged",
    }
    action: Annotated[
        Literal["annotate", "redact", "block"],
        Meta(
            description="what becomes of citations that do not hold: annotate (headers and record), redact (their marks go, the text "
            "stays), block (400 policy_blocked)"
        ),
    ] = "annotate"
    fail_on: Annotated[
        Literal["invented", "unsupported"],
        Meta(
            description="which citations do not hold, so that the answer is warned of or acted upon: those of a passage or source that is "
            "not there, and quotations of the context that are not in it word for word, or also those that the cited passage does not seem "
            "to support"
        ),
    ] = "invented"
    min_support: Annotated[Share, Meta(description="probability from which a passage counts as supporting a claim")] = 0.5
    embed: Annotated[bool, Meta(description="find the place in a long passage by similarity too, not by words alone")] = True


BLOCKED = "citations_invalid"
MAX_CITATIONS = 60
"""JudgedStatement of one answer; the rest is an error, not a pass."""
IGNORED_BELOW = 0.5
"""Mean support below which an answer that neither cites its passages nor admits to not knowing ignores the context."""
_TOGETHER = 64
"""Statements that are judged at a time."""
_MARK = re.compile(r"[\[【\"“„«]")
"""A text without any of these cites and quotes nothing."""
_MAX_LISTED = 100
"""Citations that the record lists one by one."""


COUNTERS = {
    "citations.checked_count": "citations that were checked",
    **{f"citations.{name}_count": f"citations found {name}" for name in ("verified", "invented", "unsupported", "error")},
    "citations.context_ignored_count": "answers that use none of their passages",
    "citations.redacted_count": "citations taken out",
    "citations.blocked_count": "answers refused",
}


class Citations(SentenceStage[CitationsOptions]):
    """Checks that what the answer cites exists and supports it; annotates, takes out false citations, or blocks."""

    name = "citations"
    Options = CitationsOptions
    changes = ("answer",)
    counters = COUNTERS
    headers = (StageHeader("citations", "verified/total", lambda facts, _: "{}/{}".format(*facts.citations) if facts.citations else None),)
    reports = (
        "x-groundwire-quality",
        "citation_invented",
        "citation_unsupported",
        "citations_unchecked",
        "context_ignored",
        BLOCKED,
    )
    reads_passages = True
    verifies = True
    embeds = True
    answers_after = ("schema", "claims")

    def __init__(self, options: CitationsOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._verifier = ports.verifiers.get(ports.judge.local_model)
        self._cases: dict[str, Case] = {}
        """By exchange id, while it lasts."""

    @classmethod
    def blocks_answers(cls, options: CitationsOptions) -> bool:
        """Every action but annotate."""
        return options.action != "annotate"

    @classmethod
    def actions(cls, options: CitationsOptions) -> tuple[Action, ...]:
        """What is cited and not there is looked up, and a quotation compared word by word; the rest is a model's opinion."""
        kinds: Mapping[str, ActionKind] = {"redact": "edit", "block": "block"}
        kind = kinds.get(options.action, "warn")
        found = [Action(kind, "citation_invented", exact=True)]
        if options.fail_on == "unsupported":
            found.append(Action(kind, "citation_unsupported"))
        return (*found, Action("warn", "context_ignored"))

    @property
    def judges_sentences(self) -> bool:
        """Only to act on them before they leave."""
        return self.options.action != "annotate"

    def by_sentence(self, exchange: Exchange) -> bool:
        """Not a JSON answer."""
        return exchange.wants.form != "json"

    def release(self, exchange: Exchange) -> None:
        """Forget it."""
        self._cases.pop(exchange.id, None)

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        """Judge the citations in it before it leaves: those of the sentence before, too, that stand behind its full stop."""
        case = await self._case(exchange)
        if sentence.index == 0 and JSON.match(sentence.text):
            case.json.add(sentence.choice)
        if not self.judges_sentences or sentence.choice in case.json:
            return None
        question = case.question
        reader = case.readers.get(sentence.choice) or reader_of(case.judge.citable, question)
        case.readers[sentence.choice] = reader
        self._hear(case, sentence.choice, sentence.text)
        touched = reader.read(sentence.text, sentence.offset, sentence.index)
        judged = await self._judge(case, sentence.choice, [s for s in touched if s.citations])
        judged += quotations(sentence.text, sentence.offset, case.texts)
        end = sentence.offset + len(sentence.text)
        here = [f for f in scores.findings(judged) if sentence.offset <= f.citation.start < end]
        orphaned = [f for one in judged if one.statement.orphan and self.options.action == "redact" for f in one.findings]
        bad = [f for f in here if (self._fails(f) and not (f.exists and f.citation in reader.unsettled)) or f in orphaned]
        return self._act_on(sentence, bad, [finding for finding in here if finding not in bad], judged) if bad else None

    def _act_on(
        self, sentence: Sentence, bad: Sequence[CitationFinding], good: Sequence[CitationFinding], judged: Sequence[JudgedStatement]
    ) -> Verdict | None:
        """What becomes of a sentence with bad citations."""
        detail = {"choice": sentence.choice, "sentence": sentence.index, "action": self.options.action}
        code = next(iter(codes_of(bad)), "")
        if self.options.action == "block":
            return self._block(judged, {**detail, "citations": scores.detail(sentence.choice, judged)})
        marks = [f.citation for f in bad if f.citation.kind != QUOTATION]
        text = without_marks(sentence.text, sentence.offset, marks, [f.citation for f in good])
        if text == sentence.text:
            return None
        self.ports.counters.count("citations.redacted_count", len(bad))
        return Verdict(self.name, "warn" if code else "pass", code=code, detail=detail, replacement=text.strip())

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Judge what was not judged yet, act on it, and sum up over all choices."""
        if exchange.answer is None:
            return None
        if not exchange.gated:
            self.release(exchange)  # another answer to another prompt, where it was asked for again
        said = [exchange.marked.get(choice.index, choice.text) for choice in exchange.answer.choices]
        marked = exchange.knowledge is not None or any(_MARK.search(text) for text in said)
        if not marked and not await run_in_thread_if_large(unread_size(exchange), may_have_context, exchange):
            return self._summed_up(exchange, (), False, self._nothing(exchange))
        case = await self._case(exchange)
        found: dict[int, list[JudgedStatement]] = {}
        for choice in exchange.answer.choices:
            found[choice.index] = await self._judge_choice(exchange, case, choice)
        every = [one for judged in found.values() for one in judged]
        size = sum(len(choice.text) for choice in exchange.answer.choices) * SENTENCES
        self._count(await run_in_thread_if_large(size, scores.findings, every))
        used, ignored = await run_in_thread_if_large(size, self._context_use, exchange, case, found)
        needed = bool(case.judge.citable.can_be_cited)
        precision = await run_in_thread_if_large(size, scores.precision, every)
        recall = await run_in_thread_if_large(size, scores.recall, every) if needed else None
        exchange.facts.citations = _, total = await run_in_thread_if_large(size, scores.verified, every)
        refresh(exchange, {"citation_precision": precision, "citation_recall": recall if total else None, "context_use": used})
        detail = await run_in_thread_if_large(size, self._detail, exchange, found, precision, recall)
        if self.options.action == "block" and self._refuses(every, precision):
            return self._block(every, detail)
        if self.options.action == "redact" and not exchange.gated:
            self._redact(exchange, found)
        return self._summed_up(exchange, every, ignored, detail)

    # ---- judging ----

    async def _case(self, exchange: Exchange) -> Case:
        if exchange.id not in self._cases:
            self._cases[exchange.id] = await run_in_thread_if_large(unread_size(exchange), self._make_case, exchange)
        return self._cases[exchange.id]

    def _make_case(self, exchange: Exchange) -> Case:
        grounder = Grounder(
            self._verifier,
            embedder=self.ports.embedder if self.options.embed else None,
            min_support=self.options.min_support,
            judge=self.ports.judge.session(exchange, self.name),
        )
        evidence = gather(exchange)
        citable = Citable(exchange.messages, evidence, exchange.passages, exchange.retrieval_tools)
        judge = CitationJudge(grounder, citable, MAX_CITATIONS)
        story = any(one.kind in ("system", "user") and is_story(one.content) for one in evidence)
        return Case(judge, [] if story else [one.content for one in evidence], question_of(exchange))

    @staticmethod
    def _hear(case: Case, choice: int, text: str) -> None:
        """What language a choice is in, by the first of its text."""
        if choice not in case.tongues:
            case.tongues[choice] = language(text, default=language(case.question))

    async def _judge(self, case: Case, choice: int, statements: Sequence[CitedStatement]) -> list[JudgedStatement]:
        tongue, found, breather = case.tongues.get(choice, ""), list[JudgedStatement](), Breather()
        for at in range(0, len(statements), _TOGETHER):
            some = statements[at : at + _TOGETHER]
            found += await asyncio.gather(*(case.judge.judge(statement, tongue) for statement in some))
            await breather.yield_if_due()
        return found

    async def _judge_choice(self, exchange: Exchange, case: Case, choice: Choice) -> list[JudgedStatement]:
        """All statements of a choice; what the verifier has said of a sentence before it remembers."""
        reader = case.readers.get(choice.index) if exchange.gated else None
        question = case.question
        choice = replace(choice, text=exchange.marked.get(choice.index, choice.text))
        size = len(choice.text) * SENTENCES
        statements = reader.statements if reader is not None else []
        if reader is None:
            statements = await run_in_thread_if_large(size, read_statements, choice, question, case.judge.citable)
        self._hear(case, choice.index, choice.text)
        quoted = await run_in_thread_if_large(size, quotations, choice.text, 0, case.texts)
        if not case.judge.citable.can_be_cited and not any(statement.citations for statement in statements):
            return quoted
        return [*await self._judge(case, choice.index, statements), *quoted]

    def _context_use(self, exchange: Exchange, case: Case, found: Mapping[int, Sequence[JudgedStatement]]) -> tuple[float | None, bool]:
        """The part of the quality, and whether a choice ignores the passages that the model saw: it says something, cites nothing, admits
        nothing, takes no number from them and has little support. 1 where every choice admits, or cites what holds; else the least mean
        support of the others.
        """
        if exchange.answer is None or not case.judge.citable.passages:
            return None, False
        shares, ignored = [], False
        for choice in exchange.answer.choices:
            signal = detect_context_ignoring(exchange.marked.get(choice.index, choice.text), "passages")
            judgements = exchange.judgements.get(choice.index, ())
            known = faithfulness(judgements)
            if signal["has_idk"] or any(finding.verified for finding in scores.findings(found[choice.index])):
                shares.append(1.0)
            elif known is not None:
                shares.append(known)
                cites = bool(scores.findings(found[choice.index]))
                bare = all(one.label in ("unsupported", "contradicted", "not_checkable") for one in judgements)
                if signal["likely_ignored"] and not cites and bare and known < IGNORED_BELOW:
                    texts = [passage.content for passage in case.judge.citable.passages]
                    ignored |= not takes_numbers(choice.text, texts, case.question)
        return min(shares, default=None), ignored

    def _count(self, found: Sequence[CitationFinding]) -> None:
        for name, number in (
            ("checked", len(found)),
            ("verified", sum(finding.verified for finding in found)),
            ("invented", sum(not finding.exists for finding in found)),
            ("unsupported", sum(finding.supports is False for finding in found)),
            ("error", sum(finding.error for finding in found)),
        ):
            if number:
                self.ports.counters.count(f"citations.{name}_count", number)

    # ---- acting ----

    def _fails(self, finding: CitationFinding) -> bool:
        """Whether the policy counts a citation as one that does not hold."""
        return not finding.exists or (finding.supports is False and self.options.fail_on == "unsupported")

    def _refuses(self, judged: Sequence[JudgedStatement], precision: float | None) -> bool:
        weak = self.options.fail_on == "unsupported" and precision is not None and precision < 1
        return weak or any(not finding.exists for finding in scores.findings(judged))

    def _block(self, judged: Sequence[JudgedStatement], detail: Mapping[str, Any]) -> Verdict:
        self.ports.counters.count("citations.blocked_count")
        bad = [finding.citation.label for finding in scores.findings(judged) if self._fails(finding)]
        wrong = f"what it cites does not exist or does not say so: {', '.join(dict.fromkeys(bad))[:300]}"
        return Verdict(self.name, "block", code=BLOCKED, detail=detail, message=f"the answer's citations do not hold: {wrong}")

    def _redact(self, exchange: Exchange, found: Mapping[int, Sequence[JudgedStatement]]) -> None:
        """Take the marks of bad citations out of an answer that has not left; JSON stays as it is."""
        assert exchange.answer is not None
        for choice in exchange.answer.choices:
            every = scores.findings(found[choice.index])
            bad = [finding.citation for finding in every if self._fails(finding) and finding.citation.kind != QUOTATION]
            if not bad or json_strings(choice.text) is not None:
                continue
            text = without_marks(choice.text, 0, bad, [finding.citation for finding in every if not self._fails(finding)])
            exchange.answer = exchange.answer.with_text(choice.index, text)
            exchange.changes.append({"stage": self.name, "what": "redact", "choice": choice.index, "citations": len(bad)})
            self.ports.counters.count("citations.redacted_count", len(bad))

    # ---- summing up ----

    def _nothing(self, exchange: Exchange) -> dict[str, Any]:
        """What is said where nothing can be cited, and nothing looks as if it were."""
        exchange.facts.citations = 0, 0
        refresh(exchange, {"citation_precision": None, "citation_recall": None, "context_use": None})
        return {"action": self.options.action, "verified": 0, "total": 0}

    def _detail(
        self, exchange: Exchange, found: Mapping[int, Sequence[JudgedStatement]], precision: float | None, recall: float | None
    ) -> dict[str, Any]:
        listed = [entry for choice, judged in found.items() for entry in scores.detail(choice, judged)]
        verified = exchange.facts.citations or (0, 0)
        figures = {name: round(value, 4) for name, value in (("precision", precision), ("recall", recall)) if value is not None}
        detail: dict[str, Any] = {"action": self.options.action, "verified": verified[0], "total": verified[1], **figures}
        if listed:
            detail["citations"] = listed[:_MAX_LISTED]
        return detail

    def _summed_up(self, exchange: Exchange, judged: Sequence[JudgedStatement], ignored: bool, detail: Mapping[str, Any]) -> Verdict:
        """One verdict with everything; each other code is a warning of its own before it."""
        found = scores.findings(judged)
        codes = codes_of([finding for finding in found if self._fails(finding)])
        codes += ["context_ignored"] if ignored else []
        unchecked = any(finding.error for finding in found) or any(is_unchecked(one) for one in judged)
        if ignored:
            self.ports.counters.count("citations.context_ignored_count")
        score = scores.verified(judged)[0] / len(found) if found else None
        last: tuple[Outcome, str] = (
            ("error", "citations_unchecked") if unchecked else ("warn", codes.pop(0)) if codes else ("pass" if found else "unchecked", "")
        )
        exchange.verdicts += [Verdict(self.name, "warn", code=code) for code in codes]
        return Verdict(self.name, last[0], code=last[1], score=score, detail=detail)

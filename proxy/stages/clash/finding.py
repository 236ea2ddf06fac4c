"""Which of the context's statements clash, and which of these clashes are certain: what one conversation adds to the detector.

Only pairs that were not compared before in this run are compared; that is remembered in this process, per client, run and policy; another
worker, or this one after a restart, compares once more and comes to the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from proxy.exchange import Exchange
from proxy.grounding.clashes.deciding import ConversationText, doubt_about
from proxy.grounding.clashes.detector import ClashDetector, DetectedClashes
from proxy.grounding.clashes.kinds import Pair, Statement, StatementClash
from proxy.language.lru import LRU, key_of
from proxy.language.text import text_of
from proxy.ports import Embedder, Verifier
from proxy.ports.judge import Builtin, Judge, JudgeSession
from proxy.stages.clash.context import PlacedStatement
from proxy.stages.clash.ledger import Ledger
from proxy.stages.clash.options import ClashOptions

MAX_RUNS = 2048
"""Runs of which this process knows what was compared."""
MAX_COMPARED = 4000
"""Statements of a run that are known to have been compared; of a longer one the oldest are compared again."""
MAX_COMPATIBLE = 16_384
"""Pairs that are known not to clash."""


class Finder:
    """Compares statements. One a stage."""

    def __init__(self, options: ClashOptions, embedder: Embedder, verifier: Verifier, judge: Judge | None = None) -> None:
        """`judge` is the policy's, asked over the verifier."""
        self._options, self._embedder, self._verifier, self._judge = options, embedder, verifier, judge or Builtin()
        self._compared: LRU[dict[str, None]] = LRU(MAX_RUNS)
        """By run: keys of the statements that were compared with each other, the latest last."""
        self._compatible: LRU[bool] = LRU(MAX_COMPATIBLE)

    async def find(
        self,
        exchange: Exchange,
        ledger: Ledger,
        spoken: Sequence[PlacedStatement],
        until: float | None = None,
        *,
        known: Collection[str] = (),
    ) -> DetectedClashes:
        """The clashes among the statements that still count, and of which one was not compared before.

        At `until`, in the event loop's time, what is still open is left for the next turn. `known` are hashes of pairs that are not to be
        judged.
        """
        gone = ledger.gone
        standing = [one for one in spoken if one.key not in gone]
        run = key_of(exchange.client, exchange.run_id, exchange.policy)
        seen = self._compared.get(run) or {}
        fresh = {one.statement.hash for one in standing if one.key not in seen}
        if len(standing) < 2 or not (fresh or self._options.semantic):
            return DetectedClashes()

        def is_known(pair: Pair) -> bool:
            judged = self._options.semantic and self._key(exchange, pair) in self._compatible
            return judged or pair.hash in known or ledger.known(ledger.at(pair.older), ledger.at(pair.newer))

        judge = self._judge.session(exchange, "clash") if self._options.semantic else None
        found = await self._detector(judge).detect(
            [one.statement for one in standing],
            seen={one.statement.hash for one in standing} - fresh,
            known=is_known,
            until=until,
        )
        for pair in found.compatible:
            self._compatible.put(self._key(exchange, pair), True)
        if not found.problem:
            self._compared.put(run, dict.fromkeys([one.key for one in standing][-MAX_COMPARED:]))
        said = _conversation_texts(exchange) if found.clashes else []
        found.clashes = [self._in_context(exchange, ledger, clash, said) for clash in found.clashes]
        return found

    def _detector(self, judge: JudgeSession | None) -> ClashDetector:
        """Rules; where the policy says so, the verifier too, and its judge over that."""
        if not self._options.semantic:
            return ClashDetector()
        return ClashDetector(self._verifier, embedder=self._embedder, judge=judge)

    def _key(self, exchange: Exchange, pair: Pair) -> int:
        return key_of(exchange.client, exchange.policy, self._verifier.name, pair.older.hash, pair.newer.hash)

    def _in_context(self, exchange: Exchange, ledger: Ledger, clash: StatementClash, said: Sequence[ConversationText]) -> StatementClash:
        """A clash with what only the whole conversation tells of it."""
        replied = ledger.replies.get(-1 if clash.newer.message is None else clash.newer.message, ())
        update = clash.update or any(entry.record.topic == clash.topic for entry in replied)
        together = clash.simultaneous or _side_by_side(exchange, clash.older, clash.newer)
        found = replace(clash, update=update, simultaneous=together and not update)
        return replace(found, doubt=self._doubt_about(found, said))

    def _doubt_about(self, clash: StatementClash, said: Sequence[ConversationText]) -> str:
        """Why it cannot be acted on. Where the policy edits everything, what stands twice can; where it edits nothing, none."""
        if self._options.edits == "none":
            return "the policy edits nothing"
        return "" if self._options.edits == "all" and clash.type == "DUPLICATE_FACTS" else doubt_about(clash, said)


def _conversation_texts(exchange: Exchange) -> list[ConversationText]:
    """What user and model have said, for what a clash of two statements depends on."""
    roles = ("user", "assistant")
    messages = [(i, message) for i, message in enumerate(exchange.conversation) if message.get("role") in roles]
    return [ConversationText(i, text_of(message.get("content")), message.get("role") == "user") for i, message in messages]


def _side_by_side(exchange: Exchange, older: Statement, newer: Statement) -> bool:
    """Whether two results came in one step, with nothing said between them and no time told: neither is newer."""
    if older.message is None or newer.message is None or None not in (older.timestamp, newer.timestamp):
        return False
    between = exchange.conversation[min(older.message, newer.message) : max(older.message, newer.message) + 1]
    return all(message.get("role") in ("tool", "function") for message in between)

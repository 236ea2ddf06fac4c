"""The words of a verdict: what was checked and held, what nobody could check, what failed and whose failure it was."""

import pytest

from proxy.exchange import Exchange, Sentence, Verdict, warning_codes
from proxy.ports.stage import SentenceStage, Stage
from proxy.testing import hang, make_exchange, raw, reply, stream, streamed
from tests.conftest import CHAT, Start

BUDGET = "name: counts\ndelivery: {}\nstages: [budget: {{window: 2000}}]\n"
STREAM = {**CHAT, "stream": True}


class Broken(Stage):
    name = "broken"

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        raise RuntimeError("a bug")


class Reader(SentenceStage):
    name = "reader"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        return Verdict(self.name, "pass")


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ([], "unchecked"),
        (["pass", "warn"], "warn"),
        (["unsure", "warn"], "warn"),
        (["warn", "upstream_error"], "upstream_error"),
        (["upstream_error", "block"], "block"),
        (["error", "block", "pass"], "error"),
    ],
)
def test_the_worst_outcome_counts(outcomes: list[str], worst: str) -> None:
    exchange = make_exchange([{"role": "user", "content": "Hello"}])
    exchange.verdicts = [Verdict("stage", outcome) for outcome in outcomes]  # type: ignore[arg-type]
    assert worst == exchange.outcome


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ([("request", "pass")], "unchecked"),
        ([("request", "unsure")], "unchecked"),
        ([("answer", "pass")], "unsure"),
        ([("answer", "unchecked")], "unchecked"),
        ([("statements", "pass")], "pass"),
        ([("statements", "unsure")], "unsure"),
        ([("statements", "unchecked"), ("answer", "pass"), ("request", "pass")], "unsure"),
        ([("statements", "pass"), ("answer", "unchecked"), ("request", "unchecked")], "pass"),
        ([("statements", "pass"), ("answer", "unsure")], "unsure"),
    ],
)
def test_a_pass_is_of_every_statement_of_the_answer(verdicts: list[tuple[str, str]], outcome: str) -> None:
    exchange = make_exchange([{"role": "user", "content": "Hello"}])
    exchange.verdicts = [Verdict("stage", found, scope=scope) for scope, found in verdicts]  # type: ignore[arg-type]
    assert outcome == exchange.outcome


def test_what_was_not_checked_says_why() -> None:
    counted = Verdict("budget", "unchecked", "COUNTED")
    skipped = Verdict("claims", "unchecked", "unchecked_no_context", scope="statements")
    assert ["unchecked_no_answer_check"] == warning_codes([counted], "unchecked")
    assert ["unchecked_no_context"] == warning_codes([counted, skipped], "unchecked")
    assert [] == warning_codes([counted, skipped], "unsure")


def test_a_code_of_what_held_or_was_only_counted_warns_of_nothing() -> None:
    exchange = make_exchange([{"role": "user", "content": "Hello"}])
    exchange.verdicts = [
        Verdict("a", "pass", "FINE"),
        Verdict("b", "unsure", "OPEN"),
        Verdict("c", "unchecked", "COUNTED"),
        Verdict("d", "warn", "odd"),
    ]
    assert ["odd"] == exchange.warnings


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
async def test_counting_tokens_checks_nothing(start: Start, delivery: str) -> None:
    async with start(policy=BUDGET.format(delivery)) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    assert ("unchecked", "unchecked") == (got.verdict, record["outcome"])


@pytest.mark.parametrize("status", [400, 404, 429, 500])
async def test_an_upstreams_own_error_is_its_verdict(start: Start, status: int) -> None:
    answer = reply({"error": {"message": "no", "code": "refused"}}, status=status)
    async with start(answer, policy=BUDGET.format("hold"), upstream_options="retries: {attempts: 0}") as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    assert (status, "upstream_error", "upstream_error") == (got.status, got.verdict, record["outcome"])
    assert "upstream_refused" in got.headers["x-groundwire-warnings"]


@pytest.mark.parametrize("answer", [raw(b"nonsense\r\n\r\n"), hang])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_an_upstream_that_cannot_be_had_is_an_upstream_error(start: Start, answer: object, path: str) -> None:
    options = "retries: {attempts: 0}, timeouts: {first_byte_s: 0.1}"
    async with start(answer, policy=BUDGET.format("hold"), upstream_options=options) as proxy:
        got = await proxy.post(path=path)
        record = await proxy.record(got)
    assert got.status in (502, 504)
    assert ("upstream_error", "upstream_error") == (got.verdict, record["outcome"])


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
async def test_a_stream_that_breaks_off_is_an_upstream_error(start: Start, delivery: str) -> None:
    async with start(stream(streamed(["One. ", "Tw"])[:2], broken=True), policy=BUDGET.format(delivery)) as proxy:
        record = await proxy.record(await proxy.post(STREAM))
    assert "upstream_error" == record["outcome"]


async def test_a_check_that_could_not_run_is_no_upstream_error_and_no_pass(start: Start) -> None:
    async with start(policy="name: p\nstages: [broken]\n", stages=(Broken,)) as proxy:
        assert "error" == (await proxy.post()).verdict


async def test_sentences_that_held_are_told_once(start: Start) -> None:
    async with start(
        stream(streamed(["One. ", "Two. ", "Three."])), policy="name: p\ndelivery: gate\nstages: [reader]\n", stages=(Reader,)
    ) as proxy:
        record = await proxy.record(await proxy.post(STREAM))
    assert ("unsure", 1) == (record["outcome"], len(record["detail"]["verdicts"]))


async def test_a_client_s_own_mistake_is_skipped(start: Start) -> None:
    async with start(policy=BUDGET.format("hold")) as proxy:
        assert (400, "skipped") == ((got := await proxy.post(b"{")).status, got.verdict)

"""What pages are made of: templates that escape, marks on answers, differences of requests, figures in words."""

import html
import json
import re
import threading
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from proxy.admin.dashboard import record as diff
from proxy.admin.dashboard import rendering
from proxy.admin.dashboard.lists import filters_of, search_filters
from proxy.admin.dashboard.panels import FigureSource, Period, report
from proxy.admin.dashboard.record import ShownClaim, claims_of, pieces, places_in, record_page
from proxy.admin.dashboard.rendering import Visitor, environment, own_address, render
from proxy.admin.dashboard.summaries import REASONS, codes_alike
from proxy.admin.verdicts import listed_claims
from proxy.errors import InvalidRequest, StoreUnavailable
from proxy.exchange import Facts, JudgeUse
from proxy.language.amounts import milliseconds, number, share
from proxy.ports.panels import Bucket
from proxy.stages.claims.reporting import QualityPanel
from proxy.stages.history import HistoryPanel
from proxy.stages.poisoning.report import PoisoningPanel
from proxy.stages.registry import STAGES
from proxy.stages.tool_rag.panel import ToolRagPanel
from proxy.store.records import RecordVerdict
from proxy.wire.http.headers import ResponseHeaders
from tests.admin.pages import PANELS, Page
from tests.browser import making
from tests.browser.making import ANSWER, HOSTILE, claims

TEMPLATES = {file.name: file.read_text("utf-8") for file in (files("proxy.admin") / "templates").iterdir() if file.name.endswith(".html")}


def markup(template: str, **values: Any) -> str:
    """What a template with this source makes of `values`."""
    return environment().from_string(template).render(values)


def macro(name: str, part: str, *values: Any) -> str:
    """What a macro of a template makes of `values`."""
    return str(getattr(environment().get_template(name).module, part)(*values))


# ---- markup ----


@given(st.text())
def test_text_becomes_text_and_nothing_else(text: str) -> None:
    sound = text.encode("utf-8", "replace").decode()
    made = markup('<p title="{{ text }}">{{ text }}</p>', text=sound)
    assert [("p", {"title": html.unescape(html.escape(sound))})] == Page(made).elements
    assert "<" not in made[3:-4]


@given(st.text())
def test_what_is_shown_of_a_text_has_no_element_but_our_marks(text: str) -> None:
    assert {"span"} >= {tag for tag, _ in Page(markup("{{ text|visible }}", text=text)).elements}


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_nothing_in_a_data_block_ends_it(value: object) -> None:
    assert not set("<>&") & set(markup("{{ value|tojson }}", value=value))


@pytest.mark.parametrize("text", [HOSTILE, "\U000e003cscript\U000e003e", "\ud800", "a\u202eb"])
def test_what_cannot_be_seen_has_a_mark_in_place_of_itself(text: str) -> None:
    made = markup("{{ text|isolate }}", text=text)
    assert ("bdi", set()) == (Page(made).elements[0][0], set("\u200b\u202e\u2066\U000e0049\U000e003c\x00\ud800") & set(made))
    assert {"bdi", "span"} >= {tag for tag, _ in Page(made).elements}


@pytest.mark.parametrize("address", ["javascript:alert(1)", "//evil.example", "https://evil.example", "/\\evil.example", "", "data:x"])
def test_an_address_that_leads_away_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="leads away"):
        own_address(address)


def test_markup_is_not_escaped_twice_and_text_beside_it_is() -> None:
    source = "{% macro bold(text) %}<b>{{ text }}</b>{% endmacro %}<p>{{ text }}{{ bold(text) }}</p>"
    assert "<p>a &lt; b<b>a &lt; b</b></p>" == markup(source, text="a < b")


def test_what_turns_the_reading_direction_stays_within_the_text() -> None:
    assert ("bdi", "auto") == (
        Page(markup("{{ 'a'|isolate }}")).elements[0][0],
        Page(macro("parts.html", "text_block", "a")).elements[0][1]["dir"],
    )


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="message"):
        render("refused.html", visitor=None, title="Refused")


def test_a_template_is_compiled_once_and_errors_name_their_line() -> None:
    first = environment().get_template("overview.html")
    source = environment().loader.get_source(environment(), "overview.html")[0]  # type: ignore[union-attr]
    assert (first, TEMPLATES["overview.html"].count("\n")) == (environment().get_template("overview.html"), source.count("\n"))


async def test_a_page_is_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(rendering, "render", lambda name, **values: threads.append(threading.current_thread()) or "")
    await rendering.page("front.html", None, addresses=[])
    assert [False] == [thread is threading.main_thread() for thread in threads]


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_has_what_could_run_or_lead_away(name: str) -> None:
    source = re.sub(r"\{#.*?#\}", "", TEMPLATES[name], flags=re.DOTALL)
    bare = re.sub(r"\{\{.*?\}\}", "{{}}", re.sub(r"\{%.*?%\}", "", source, flags=re.DOTALL), flags=re.DOTALL)
    assert [] == re.findall(r"[\s\"](?:on\w+|style|srcdoc)\s*=", bare), "an attribute that runs something"
    assert "={" not in bare, "an attribute without quotes"
    assert [] == re.findall(r"\|\s*safe|autoescape|Markup", source), "text that is not escaped"
    assert [] == [tag for tag in re.findall(r"<script[^>]*>", source) if "application/json" not in tag and "static.path(" not in tag]
    addresses = re.findall(r'\b(?:href|src|action|formaction)="([^"]*(?:\{\{.*?\}\}[^"]*)*)"', source)
    ours = re.compile(r"[/#](?!/)|\{\{ (?:(?:record|run)_path\(|with_query\('/(?!/)|[^}]*\|own_address \}\}$)")
    assert [] == [address for address in addresses if not ours.match(address)], "an address that nobody has looked at"


# ---- answers ----


def answer_page(entries: list[dict[str, Any]], text: str) -> str:
    """The page of an exchange with this answer and these claims."""
    verdicts = [{"stage": "claims", "outcome": "warn", "detail": {"claims": entries}}]
    body = {"choices": [{"index": 0, "text": text}]}
    record = making.record(1, 1e9, detail={"verdicts": verdicts}, answer_body=json.dumps(body).encode())
    shown = record_page(record, ResponseHeaders(()), {})
    return render("record.html", visitor=Visitor(csrf="c"), **shown, done="")


def listed(entries: list[dict[str, Any]]) -> list[ShownClaim]:
    """The claims of a verdict with these entries."""
    return claims_of(listed_claims([RecordVerdict(stage="claims", outcome="warn", detail={"claims": entries})]))


def test_sentences_are_marked_where_they_stand() -> None:
    found = places_in(listed(claims()), ANSWER)
    assert [ANSWER[start:end] for start, end, _ in found] == [claim.entry.text for _, _, claim in found]


@pytest.mark.parametrize("span", [[5, 3], [0, 10**9], [-4, 4], [0, 0]])
def test_a_position_outside_the_text_is_not_marked(span: list[int]) -> None:
    assert [] == places_in(listed([{"span": span, "label": "supported", "text": ""}]), "Some text.")


def test_a_sentence_behind_something_masked_is_marked_where_it_stands_now() -> None:
    whole, kept = "Mail ann.somebody@example.org. It is red. It is red.", "Mail [masked]. It is red. It is red."
    spans = [(0, 30), (31, 41), (42, 52)]
    made = [
        {"span": [*span], "label": "supported", "text": whole[slice(*span)].replace("ann.somebody@example.org", "[masked]")}
        for span in spans
    ]
    assert [(0, 14), (15, 25), (26, 36)] == [(start, end) for start, end, _ in places_in(listed(made), kept)]


def test_a_claim_that_does_not_stand_where_it_says_is_not_marked_but_listed() -> None:
    page = answer_page([{"span": [0, 9], "label": "unsupported", "text": "The key is sk-1234567890."}], "[masked] and more words")
    assert ([], 1) == (Page(page).all("a", class_="said unsupported"), len(Page(page).all("li", id="claim-1")))
    assert "The key is" in page


@given(
    st.text("0123456789 .", max_size=60),
    st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70), st.sampled_from(["supported", "not_checkable", "error", "x"]))),
)
def test_marks_never_lose_or_add_text(text: str, spans: list[tuple[int, int, str]]) -> None:
    found = listed([{"span": [start, end], "label": label, "text": ""} for start, end, label in spans])
    assert text == "".join(piece for piece, _ in pieces(found, text))


# ---- differences ----


def steps_page(steps: list[diff.DiffStep]) -> str:
    """The list of messages of a record's page."""
    listed, kinds = diff.listed_steps(steps), ("kept", "changed", "removed", "added")
    counts = [(kind, sum(step.kind == kind for step in steps)) for kind in kinds]
    counts = [(kind, count) for kind, count in counts if count]
    return macro("request_parts.html", "message_steps", listed, len(steps) - len(listed), counts)


def test_messages_that_stayed_are_matched_around_those_that_went() -> None:
    before = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    after = [before[0], {"role": "system", "content": "summary"}, before[3]]
    found = [(step.kind, step.role) for step in diff.matched_steps(before, after)]
    assert ("kept", "system") == found[0]
    assert {("removed", "user"), ("removed", "assistant"), ("added", "system")} == set(found[1:-1])
    assert ("kept", "user") == found[-1]


_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "tool"]), "content": st.text(max_size=20) | st.none()}), max_size=6
)


@given(_MESSAGES, _MESSAGES)
def test_a_difference_has_all_of_both_sides(before: list[object], after: list[object]) -> None:
    found = diff.matched_steps(before, after)
    kinds = [step.kind for step in found]
    assert (len(before), len(after)) == (
        sum(kind in ("kept", "changed", "removed") for kind in kinds),
        sum(kind in ("kept", "changed", "added") for kind in kinds),
    )


@pytest.mark.parametrize("words", [200, 5000])
def test_a_changed_message_shows_what_was_taken_out_and_put_in(words: int) -> None:
    text = " ".join(f"word{i}" for i in range(words))
    (step,) = diff.matched_steps([{"role": "user", "content": text}], [{"role": "user", "content": text.replace("word7 ", "other ")}])
    page = steps_page([step])
    assert ("changed", 1, 1) == (step.kind, page.count("<del>"), page.count("<ins>"))


def test_two_long_and_different_texts_are_shown_without_being_compared() -> None:
    (step,) = diff.matched_steps([{"role": "user", "content": "a\n" * 20_000}], [{"role": "user", "content": "b\n" * 20_000}])
    assert len(steps_page([step])) < 20_000


@pytest.mark.parametrize("message", [7, "text", None, [], {"role": 3, "content": {"a": 1}}, {"content": [None, {"type": "image_url"}]}])
def test_a_message_of_another_shape_is_shown_as_it_is(message: object) -> None:
    assert "left out" in steps_page(diff.matched_steps([message], []))


def test_tools_that_were_left_out_are_named() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("search", HOSTILE)]
    page = macro("request_parts.html", "tool_lists", diff.tool_lists(tools, tools[:1]))
    assert ("Tools: 2 offered, 1 sent" in page, "<script" in page) == (True, False)


# ---- figures ----


@pytest.mark.parametrize(("value", "expected"), [(None, "–"), (0, "0"), (1234567, "1,234,567"), (0.5, "0.5"), (1234.5, "1,234")])
def test_numbers_are_written_with_thousands_apart(value: float | None, expected: str) -> None:
    assert expected == number(value)


def test_shares_and_times_have_their_unit() -> None:
    assert ["<1%", "0%", "2.5%"] == [share(0.003), share(0), share(0.025, 1)]
    assert ["71%", "0.42 ms", "42 ms", "4.2 s", "–"] == [
        share(0.71),
        milliseconds(0.42),
        milliseconds(42.0),
        milliseconds(4200.0),
        milliseconds(None),
    ]


def test_panels_tell_what_the_buckets_add_up_to() -> None:
    buckets = [
        Bucket(
            start=0.0,
            seconds=60,
            exchanges=4,
            panels={"poisoning": PoisoningPanel(poisoning_checked=1000)},
            quarantined={"wrong_number": 12, "false_fact": 3},
            quarantine={"pending": 15},
        ),
        Bucket(
            start=60.0,
            seconds=60,
            exchanges=1,
            clashes={"A": 48},
            clash_strategies={"merge": 46},
            clashes_open=2,
            panels={"distraction": HistoryPanel(distractions={"high": 2})},
        ),
    ]
    counted = {"tool_selection": {"selection_accuracy": 0.964, "calls": 500}}
    found = {panel.name: panel for panel in report(buckets, PANELS, counted).panels}
    assert ("15", "kept out of the context, 1.5% of those checked") == (found["poisoning"].headline, found["poisoning"].meaning)
    assert "12 × wrong number, 3 × false fact" in found["poisoning"].detail
    assert ("48", "46 (96%) resolved by the policy, 2 open") == (found["clashes"].headline, found["clashes"].detail[0])
    assert ("2", "96.4% of 500 requests had the tool they called in their first set, since the start") == (
        found["distraction"].headline,
        found["confusion"].detail[-1],
    )
    assert (15.0, 0.0) == found["poisoning"].series[0].values


def test_the_quality_panel_tells_of_the_judge() -> None:
    panel = QualityPanel()
    panel.add(Facts(faithfulness=1.0, judge=JudgeUse("a/b", asked=3, cached=1, usd=0.02)), ())
    panel.add(Facts(judge=JudgeUse("a/b", asked=1, unanswered=1)), ())
    shown = {one.name: one for one in report([Bucket(start=0.0, seconds=60, panels={"quality": panel})], PANELS, {}).panels}
    assert "judge asked 4 questions, 1 known already, 1 unanswered, $0.0200" in shown["quality"].detail


def test_every_server_has_panels_of_traffic_time_cost_errors_and_what_was_caught() -> None:
    slow, quick = {"70": 90, "80": 10}, {"20": 95, "40": 5}
    bucket = Bucket(
        start=0.0,
        seconds=60,
        exchanges=120,
        cost_usd=0.5,
        priced=100,
        statuses={"502": 7, "400": 2},
        verdicts={"block": 2, "warn": 9, "error": 1, "upstream_error": 7},
        warnings={"hallucination_detected": 2, "upstream_502": 7, "judge_over_budget": 90, "poisoning_unchecked": 3},
        provider_ms=slow,
        own_ms=quick,
    )
    found = {panel.name: panel for panel in report([bucket], PANELS).panels}
    assert ["undecided", "failed", "caught", "housekeeping", "traffic", "latency", "cost", "feedback"] == list(found)[:8]
    assert ("120", "$0.5000", "9", "11") == tuple(found[name].headline for name in ("traffic", "cost", "failed", "caught"))
    assert ("7 × 502, 2 × 400", "20 exchanges without a known price or usage") == (found["failed"].detail[0], found["cost"].detail[1])
    assert ("2 × the answer says what its context does not",) == found["caught"].detail
    assert ["provider p50", "provider p95", "Groundwire p50", "Groundwire p95"] == [line.name for line in found["latency"].series]


def test_what_nobody_decided_what_held_and_housekeeping_are_counted_apart() -> None:
    bucket = Bucket(
        start=0.0,
        seconds=60,
        exchanges=12,
        verdicts={"unsure": 2, "unchecked": 3, "pass": 1, "warn": 5, "block": 1},
        reasons={"unchecked: unchecked_no_context": 3, "warn: context_usage_high": 4, "warn: claims_contradicted": 1},
        warnings={"context_usage_high": 5, "claims_contradicted": 1},
    )
    made = report([bucket], PANELS)
    found = {panel.name: panel for panel in made.panels}
    assert ("5", "2", "4") == tuple(found[name].headline for name in ("undecided", "caught", "housekeeping"))
    assert ("5", "1", "1", "1") == tuple(made.tiles[name][0] for name in ("undecided", "warned", "refused", "held"))
    assert ("1 × a statement that the context contradicts",) == found["caught"].detail
    assert "3 × no context to check the answer against" == found["undecided"].detail[0]


def test_the_parts_of_what_failed_add_up() -> None:
    bucket = Bucket(start=0.0, seconds=60, verdicts={"upstream_error": 3, "error": 2, "interrupted": 1})
    assert ("6", "3 by the provider, 2 of checks, 1 interrupted") == report([bucket], PANELS).tiles["failed"]


def test_what_shadow_mode_held_back_is_told_of_all_that_it_judged() -> None:
    bucket = Bucket(start=0.0, seconds=60, would={"nothing": 328, "block": 10, "edit": 2})
    assert ("12 of 340", "refused 10, changed 2") == report([bucket], PANELS).tiles["shadow"]


@pytest.mark.parametrize(("span_s", "bucket_s"), [(60, 1), (3600, 60), (7200, 300), (86_400, 3600), (90 * 86_400, 7 * 86_400)])
def test_a_range_is_cut_into_buckets_that_a_chart_can_show(span_s: int, bucket_s: int) -> None:
    assert (1000.0, 1000.0 + span_s, bucket_s) == Period(None, 1000.0, 1000.0 + span_s).buckets(0.0)


@pytest.mark.parametrize(("poisoned", "alerts"), [(50, False), (51, True)])
def test_more_than_five_percent_of_poisoned_pieces_is_an_alert(poisoned: int, alerts: bool) -> None:
    checks = {"poisoning": PoisoningPanel(poisoning_checked=1000)}
    bucket = Bucket(start=0.0, seconds=60, panels=checks, quarantined={"wrong_location": poisoned})
    found = next(panel for panel in report([bucket], PANELS, {}).panels if panel.name == "poisoning")
    assert alerts == ("alert: more than 5% of what came in" in found.detail)


def test_requests_with_all_of_too_many_tools_are_told() -> None:
    chosen = {"confusion": ToolRagPanel(tool_requests=4, tools_offered=160, tools_kept=52)}
    bucket = Bucket(start=0.0, seconds=60, panels=chosen)
    found = next(
        panel for panel in report([bucket], PANELS, {"tool_selection": {"confusion_incidents": 1}}).panels if panel.name == "confusion"
    )
    assert "1 request with all of too many tools" in found.detail


class Slow:
    """Figures that take as long as a test lets them."""

    def __init__(self) -> None:
        import asyncio

        self.ready, self.asked = asyncio.Event(), 0
        self.problem: Exception | None = None

    async def between(self, since: float, until: float, bucket_s: int) -> list[Bucket]:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        await self.ready.wait()
        return [Bucket(start=since, seconds=bucket_s, exchanges=7)]


async def nothing_counted() -> dict[str, object]:
    return {}


async def test_a_page_does_not_wait_for_slow_figures_and_they_are_worked_out_once() -> None:
    figures = Slow()
    source = FigureSource(figures.between, nothing_counted, PANELS)
    first = await source.get(Period(), 0.001)
    figures.ready.set()
    second = await source.get(Period())
    third = await source.get(Period())
    assert (None, "7", 1) == (first, second.tiles["exchanges"][0] if second else "", figures.asked)
    assert third is second


async def test_figures_that_failed_are_asked_for_again() -> None:
    figures = Slow()
    figures.problem = StoreUnavailable("away")
    source = FigureSource(figures.between, nothing_counted, PANELS)
    with pytest.raises(StoreUnavailable):
        await source.get(Period())
    figures.problem = None
    figures.ready.set()
    assert await source.get(Period()) is not None


def test_times_of_the_list_are_seconds() -> None:
    hour = search_filters(filters_of({"within": "1h"}), 1_600_000_000.0)
    minute = search_filters(filters_of({"since": "1970-01-01T00:00", "until": "1970-01-01T00:01"}), 1e9)
    assert [(1_600_000_000.0 - 3600, None), (0.0, 60.0)] == [(wanted.since, wanted.until) for wanted in (hour, minute)]


@pytest.mark.parametrize("text", ["2026-13-01T00:00", "now", "2026-01-01", "99999-01-01T00:00"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a minute in UTC"):
        filters_of({"since": text})


def test_codes_with_the_same_words_are_one_choice() -> None:
    alike = codes_alike("arguments_mismatch")
    assert ("arguments_mismatch", True, ("strange",), ()) == (
        alike[0],
        len(alike) > 1 and {REASONS[code] for code in alike} == {REASONS["arguments_mismatch"]},
        codes_alike("strange"),
        codes_alike(""),
    )


def test_a_conversation_of_thousands_of_messages_is_listed_in_part() -> None:
    before = [{"role": "user", "content": str(number)} for number in range(3000)]
    page = steps_page(diff.matched_steps(before, before[2000:]))
    assert "3,000 messages: 1,000 as it came, 2,000 left out. 2,800 messages not listed" in page
    assert len(page) < 100_000


def test_a_long_text_that_changed_in_one_place_is_compared_by_words() -> None:
    text = " ".join(f"word{number}" for number in range(50_000))
    (step,) = diff.matched_steps([{"role": "user", "content": text}], [{"role": "user", "content": text.replace("word7000 ", "other ")}])
    page = steps_page([step])
    assert ("<del> word7000</del>", "<ins> other</ins>") == tuple(
        mark for mark in ("<del> word7000</del>", "<ins> other</ins>") if mark in page
    )


def test_every_code_that_a_stage_reports_has_words() -> None:
    codes = {code for stage in STAGES for code in stage.reports if not code.startswith("x-")}
    assert set() == codes - set(REASONS)

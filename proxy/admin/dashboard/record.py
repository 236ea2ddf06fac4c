"""The page of one exchange: its tokens, its answer with evidence, each stage's verdict and time, the request, the headers.

In: the record as the store has it, which another version may have written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.admin.dashboard import answer, diff
from proxy.admin.dashboard.exchange_rows import bar
from proxy.admin.dashboard.feedback import FeedbackForms
from proxy.admin.dashboard.frame import View, badge, card, empty, facts, heading, notice, page
from proxy.admin.dashboard.html import Child, Html, block, cut, el, own
from proxy.admin.dashboard.reasons import why
from proxy.admin.dashboard.stages import stages_card
from proxy.admin.dashboard.summaries import entries, outcome_of
from proxy.admin.dashboard.words import moment, run_link
from proxy.admin.verdict_answers import headers_of
from proxy.exchange import ContextUse
from proxy.language.amounts import dollars, milliseconds, number, share
from proxy.store.detail import RecordDetail, RecordTexts
from proxy.store.feedback import Feedback
from proxy.store.records import Record
from proxy.wire.http.headers import ResponseHeaders

_JSON_CHARS = 20_000
_THANKS = "Kept. It counts in the figures, and `groundwire feedback export` gives it out as labelled data."


def record_page(view: View, record: Record, headers: ResponseHeaders, said: Mapping[tuple[str, str], Feedback], done: str = "") -> Html:
    """The whole page; `headers` are written as the exchange's were, `said` is what people said of its findings."""
    detail, forms = record.found, FeedbackForms(view, record.id, said)
    raw = el("a", "As JSON", href=f"/groundwire/v1/records/{record.id}", class_="button")
    return page(
        view,
        f"Exchange {record.id}",
        heading("Exchange", badge(outcome_of(record)), _why(record), raw),
        notice(_THANKS) if done == "feedback" else None,
        _facts(record, detail),
        _shadow(detail),
        _error(detail),
        _answer(record, detail, forms),
        el("div", _tokens(record, detail), stages_card(detail, forms), class_="pair"),
        _request(record, detail),
        _headers(record, headers),
        here="Exchanges",
    )


def _why(record: Record) -> Html | None:
    words = why(record.reason, record.would)
    return el("span", own(words), class_="why") if words else None


def _facts(record: Record, detail: RecordDetail) -> Html:
    took = milliseconds(record.duration_ms)
    if detail.overhead_ms is not None:
        took = f"{took}, of which Groundwire {milliseconds(detail.overhead_ms)}"
    return facts(
        [
            ("Id", el("code", record.id)),
            ("Time", moment(record.created_at)),
            ("Route", own(f"{record.route}/v1{record.path}")),
            ("Run", el("span", run_link(record.run_id), f", step {record.step_id}" if record.step_id else "")),
            ("Client", own(record.client)),
            ("Model", own(record.model)),
            ("Upstream", own(f"{record.upstream}, asked in the API {detail.asked_in}" if detail.asked_in else record.upstream)),
            ("Policy", own(record.policy)),
            ("Status", f"{record.status}{', streamed' if record.stream else ''}"),
            ("Took", took),
            ("Cost", None if record.cost_usd is None else dollars(record.cost_usd)),
            ("Judge", _judge(detail)),
        ]
    )


def _judge(detail: RecordDetail) -> Child:
    """What the policy's judge was asked, and what that took."""
    use = detail.facts.judge if detail.facts is not None else None
    if use is None:
        return None
    parts = [
        f"{use.by}: {number(use.asked)} asked",
        f"{number(use.cached)} known already" if use.cached else "",
        f"{number(use.unanswered)} unanswered" if use.unanswered else "",
        f"{number(use.input_tokens + use.output_tokens)} tokens" if use.input_tokens or use.output_tokens else "",
        milliseconds(use.ms) if use.calls else "",
        dollars(use.usd) if use.usd is not None else "",
        *use.failed,
    ]
    return own(", ".join(part for part in parts if part))


def _shadow(detail: RecordDetail) -> Html | None:
    if detail.enforced:
        return None
    said = "Shadow mode: the policy judged this exchange, and changed nothing of it. What it would have done stands beside its verdicts."
    return notice(said, "problem")


def _error(detail: RecordDetail) -> Html | None:
    error = detail.error
    if error is None:
        return None
    return notice((el("strong", own("/".join(filter(None, (error.code, error.param))))), " ", own(error.message)), "problem")


# ---- tokens ----


def _tokens(record: Record, detail: RecordDetail) -> Html:
    lines: list[tuple[str, Child]] = [
        ("As it came", number(record.prompt_tokens_before)),
        ("As it went", number(record.prompt_tokens)),
        ("Answer", number(record.completion_tokens)),
    ]
    if detail.usage is not None and detail.usage.cached:
        lines.append(("Read from the provider's cache", number(detail.usage.cached)))
    use = detail.facts.context if detail.facts is not None else None
    if use is None:
        hint = el("p", "Nothing measured this context: the stage ", el("code", "budget"), " does.", class_="hint")
        return card("Tokens", facts(lines), hint, id_="tokens")
    whole: Html | None = None
    if use.window_tokens:
        exact = "counted exactly" if use.exact else "estimated: this model's tokenizer is not public"
        said = el("p", el("strong", share(use.share)), f" of {number(use.window_tokens)} tokens, {exact}", class_="hint")
        whole = el("div", said, bar(use.share, "wide"))
    return card("Tokens", facts(lines), whole, _components(use), id_="tokens")


def _components(use: ContextUse) -> Html | None:
    given = {name: tokens for name, tokens in use.components.items() if tokens > 0}
    if not given or use.used_tokens < 1:
        return None
    rows = [
        el(
            "tr",
            el("th", name.replace("_", " "), scope="row"),
            el("td", bar_of(tokens / use.used_tokens)),
            el("td", number(tokens), class_="n"),
        )
        for name, tokens in sorted(given.items(), key=lambda one: -one[1])
    ]
    return el("table", el("caption", "What it is made of", class_="vh"), el("tbody", rows), class_="parts")


def bar_of(value: float) -> Html:
    """A plain bar, without marks."""
    rects = (el("rect", width=100, height=10, class_="track"), el("rect", width=f"{min(value, 1.0) * 100:.1f}", height=10, class_="fill"))
    return el("svg", rects, viewBox="0 0 100 10", preserveAspectRatio="none", class_="bar plain", aria_hidden="true")


# ---- the answer ----


def _answer(record: Record, detail: RecordTexts, forms: FeedbackForms) -> Html:
    found = next((verdict.detail for verdict in reversed(detail.verdicts) if verdict.stage == "claims" and verdict.detail), {})
    claims = answer.claims_of(entries(found, "claims"))
    left_out = found.get("claims_left_out")
    left = left_out if isinstance(left_out, int) else 0
    listed = answer.findings(claims, left, lambda one: forms.of_sentence("claims", one.place, one.label)) if claims else None
    texts = _choices(record.answer_body)
    if texts is None:
        said: Child = _no_bodies("The answer's text was not kept")
    else:
        said = [_choice(index, text, calls, claims, len(texts) > 1) for index, text, calls in texts]
    checked = any(claim.label != "not_checkable" for claim in claims)
    text = el("div", answer.legend() if checked and texts is not None else None, said, _delivered(detail))
    right = el("div", el("h3", "What was found"), listed) if checked else None
    hint = None if claims or texts is None else el("p", "No stage checked its sentences: ", el("code", "claims"), " does.", class_="hint")
    return card("Answer", el("div", text, right, class_="answer-pair" if right else ""), hint, id_="answer")


def _choice(index: int, text: str, calls: Sequence[Any], claims: Sequence[answer.ShownClaim], several: bool) -> Html:
    mine = [claim for claim in claims if claim.choice == index]
    asked = _calls(calls)
    title = el("h3", f"Choice {index + 1}") if several else None
    body = answer.marked(text, mine) if text else None
    return el("div", title, body, asked, None if body or asked else el("p", "It has no text.", class_="hint"))


def _calls(calls: Sequence[Any]) -> list[Html]:
    return [
        el("div", el("h4", "Tool call ", own(str(call.get("name", "")))), block(_pretty(call.get("arguments", "")), "text small"))
        for call in calls
        if isinstance(call, Mapping)
    ]


def _choices(body: bytes | None) -> list[tuple[int, str, Sequence[Any]]] | None:
    """Index, text and tool calls of each choice; None where no body was kept."""
    if body is None:
        return None
    found: list[tuple[int, str, Sequence[Any]]] = []
    for position, choice in enumerate(entries(_loaded(body), "choices")):
        index, calls = choice.get("index", position), choice.get("tool_calls")
        found.append(
            (index if isinstance(index, int) else position, str(choice.get("text") or ""), calls if isinstance(calls, list) else [])
        )
    return found


def _delivered(detail: RecordTexts) -> Html | None:
    """What the client got, where a stage changed the answer."""
    if not detail.delivered:
        return None
    return el(
        "div",
        el("h3", "What the client got"),
        el("p", "A stage changed the answer before it left.", class_="hint"),
        [_delivered_choice(choice) for choice in detail.delivered],
    )


def _delivered_choice(choice: Mapping[str, Any]) -> list[Child]:
    texts = [text for name in ("text", "refusal") if (text := str(choice.get(name) or ""))]
    found: list[Child] = [*map(block, texts), *_calls(_list(choice, "tool_calls"))]
    return found or [el("p", "It has no text.", class_="hint")]


# ---- the request ----


def _request(record: Record, detail: RecordTexts) -> Html:
    if record.request_body is None:
        return card("Request", _no_bodies("The request's text was not kept"), _what_changed(detail.changes), id_="request")
    sent = _loaded(record.request_body)
    messages, tools = _list(sent, "messages"), _list(sent, "tools")
    forwarded = detail.forwarded
    went = _list(forwarded, "messages") if forwarded else messages
    went_tools = _list(forwarded, "tools") if forwarded else tools
    same = None if forwarded else el("p", "It went upstream as it came.", class_="hint")
    rest = {name: value for name, value in sent.items() if name not in ("messages", "tools")} if isinstance(sent, Mapping) else {}
    other = el("details", el("summary", "Model and parameters"), block(_pretty(rest), "text small")) if rest else None
    return card(
        "Request",
        same,
        _what_changed(detail.changes),
        diff.shown_steps(diff.steps(messages, went)),
        diff.shown_tools(tools, went_tools),
        other,
        id_="request",
    )


def _what_changed(changes: Sequence[Mapping[str, Any]]) -> Html | None:
    if not changes:
        return None
    items = []
    for change in changes:
        rest = ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in change.items() if name not in ("stage", "what"))
        items.append(
            el(
                "li",
                el("strong", own(str(change.get("stage", "")))),
                " ",
                own(str(change.get("what", ""))),
                own(f": {rest}") if rest else "",
            )
        )
    return el("div", el("h3", "What the stages changed"), el("ul", items, class_="changes"))


def _headers(record: Record, headers: ResponseHeaders) -> Html:
    rows = [el("tr", el("th", el("code", name), scope="row"), el("td", own(value))) for name, value in headers_of(record, headers).items()]
    return card(
        "Headers",
        el("p", "What the answer told the client of itself, all of it; a streamed answer can tell less before it begins.", class_="hint"),
        el("table", el("tbody", rows), class_="headers"),
        id_="headers",
    )


def _no_bodies(what: str) -> Html:
    return empty(
        f"{what}.",
        el(
            "p",
            "Texts are private, so they are kept only where ",
            el("code", "store: {bodies: true}"),
            " in config.yaml says so, with secrets masked.",
        ),
    )


def _loaded(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except ValueError:
        return {}


def _list(mapping: Any, name: str) -> list[Any]:
    found = mapping.get(name) if isinstance(mapping, Mapping) else None
    return found if isinstance(found, list) else []


def _pretty(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1), _JSON_CHARS)


def _short(value: Any) -> str:
    return cut(_plain(value), 400)


def _plain(value: Any) -> str:
    """A value without the marks of JSON."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ("; " if any(isinstance(one, Mapping) for one in value) else ", ").join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

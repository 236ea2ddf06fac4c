"""What each stage found and how long it took: a row for each hook, its time as a bar, its verdict, and the verdict's detail on request."""

from __future__ import annotations

import json
from collections.abc import Mapping

from proxy.admin.dashboard.feedback import FeedbackForms
from proxy.admin.dashboard.frame import badge, card, empty
from proxy.admin.dashboard.html import Child, Html, block, cut, el, own
from proxy.language.amounts import milliseconds, score
from proxy.store.detail import RecordDetail, RecordVerdict

_DETAIL_CHARS = 6000
_HOOKS = {"request": "on the request", "forward": "before it was sent", "answer": "on the answer", "sentence": "sentence by sentence"}
_BETWEEN = {"between_ms": "between two calls of the upstream", "after_ms": "from the upstream's last byte to the end"}


def stages_card(detail: RecordDetail, forms: FeedbackForms) -> Html:
    """Verdicts and times."""
    verdicts, times = detail.verdicts, detail.timings_ms
    said = el("p", "Left out by the client: ", own(", ".join(detail.skip)), class_="hint") if detail.skip else None
    if not verdicts and not times:
        hint = el("p", "Its policy has none, or it ended before the first.")
        return card("Stages", said, empty("No stage ran.", hint), id_="stages")
    order = list(dict.fromkeys([name.partition(".")[0] for name in times if "." in name] + [v.stage for v in verdicts]))
    longest = max([ms for name, ms in times.items() if "." in name], default=0.0)
    rows = [_stage(name, [v for v in verdicts if v.stage == name], times, longest, forms) for name in order]
    rest = [f"{milliseconds(times[name])} {words}" for name, words in _BETWEEN.items() if name in times]
    return card("Stages", said, el("ol", rows, class_="stages"), el("p", "; ".join(rest), class_="hint") if rest else None, id_="stages")


def _stage(name: str, verdicts: list[RecordVerdict], times: Mapping[str, float], longest: float, forms: FeedbackForms) -> Html:
    mine = {key.partition(".")[2]: ms for key, ms in times.items() if key.partition(".")[0] == name and "." in key}
    total = sum(mine.values())
    spent = [f"{milliseconds(ms)} {_HOOKS.get(hook, hook)}" for hook, ms in mine.items()]
    took = (
        el("span", _time_bar(total, longest), el("span", milliseconds(total), class_="n"), class_="took", title="; ".join(spent))
        if mine
        else None
    )
    said = [part_ for v in verdicts for part_ in _said(v)] or [el("span", "nothing to say", class_="dim")]
    head = el("div", el("strong", own(name), class_="stage"), said, took, class_="stage-head")
    return el("li", head, [_more(v) for v in verdicts], [_asked(v, forms) for v in verdicts])


def _asked(verdict: RecordVerdict, forms: FeedbackForms) -> Html | None:
    """Whether a verdict that somebody may mind is right; where sentences stand behind it, they are asked about."""
    minded = verdict.outcome in ("warn", "block") and not verdict.detail.get("claims")
    return forms.of_verdict(verdict.stage, verdict.code, verdict.outcome) if minded else None


def _said(verdict: RecordVerdict) -> list[Child]:
    """A verdict in one line."""
    return [
        badge(verdict.outcome),
        el("span", "would ", own(verdict.would), class_="flag") if verdict.would else None,
        el("code", own(verdict.code)) if verdict.code else None,
        el("span", f"score {score(verdict.score)}", class_="dim") if verdict.score is not None else None,
    ]


def _more(verdict: RecordVerdict) -> Html | None:
    """Its message, and its detail on request."""
    if not verdict.message and not verdict.detail:
        return None
    told = json.dumps(verdict.detail, ensure_ascii=False, indent=1)
    more = el("details", el("summary", "Detail"), block(cut(told, _DETAIL_CHARS), "text small")) if verdict.detail else None
    return el("div", el("p", own(verdict.message)) if verdict.message else None, more, class_="outcome")


def _time_bar(ms: float, longest: float) -> Html:
    width = f"{100 * ms / longest if longest else 0:.1f}"
    rects = (el("rect", width=100, height=10, class_="track"), el("rect", width=width, height=10, class_="fill"))
    return el("svg", rects, viewBox="0 0 100 10", preserveAspectRatio="none", class_="bar plain time", aria_hidden="true")

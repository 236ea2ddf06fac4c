"""The small form beside a finding on which a person says whether it is right: a word for the figures, and a row of labelled data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from proxy.admin.dashboard.frame import View, secret
from proxy.admin.dashboard.html import Child, Html, el, own
from proxy.admin.dashboard.words import moment, record_path
from proxy.admin.feedback import LABELS, OUTCOMES
from proxy.store.decisions import MAX_REASON_CHARS
from proxy.store.feedback import Feedback


class FeedbackForms(Struct, frozen=True):
    """Makes the forms of one record's page."""

    view: View
    record_id: str
    said: Mapping[tuple[str, str], Feedback]
    """What there is already, by stage and place."""

    def of_sentence(self, stage: str, place: str, label: str) -> Html:
        """For a sentence of the answer."""
        return self._form(stage, place, label, LABELS)

    def of_verdict(self, stage: str, code: str, outcome: str) -> Html:
        """For a stage's verdict."""
        return self._form(stage, code or outcome, outcome, OUTCOMES)

    def _form(self, stage: str, place: str, label: str, labels: Sequence[str]) -> Html:
        before = self.said.get((stage, place))
        named = f"{stage} {place}"
        options = [("", "I cannot say"), *((one, one.replace("_", " ")) for one in labels if one != label)]
        chosen = before.expected if before is not None else ""
        select = el("select", [el("option", words, value=value, selected=value == chosen) for value, words in options], name="expected")
        hidden = [el("input", type="hidden", name=name, value=value) for name, value in (("stage", stage), ("place", place))]
        note = el("input", name="note", maxlength=MAX_REASON_CHARS, autocomplete="off", value=before.note if before is not None else "")
        who = el("input", name="by", maxlength=200, placeholder="admin", autocomplete="name", data_keep="by")
        buttons = [el("button", f"It is {word}", name="said", value=word) for word in ("right", "wrong")]
        form = el(
            "form",
            secret(self.view),
            hidden,
            el("label", el("span", "If it is wrong, it should be"), select),
            el("label", el("span", "Note (optional)"), note, class_="wide"),
            el("label", el("span", "Your name"), who),
            el("div", buttons, class_="acts"),
            method="post",
            action=f"{record_path(self.record_id)}/feedback",
            class_="decide",
            aria_label=f"Is this right? {named}",
        )
        words = "Is this right?" if before is None else "Say something else"
        return el("div", _said(before), el("details", el("summary", words, el("span", f" {named}", class_="vh")), form), class_="feedback")


def _said(before: Feedback | None) -> Child:
    if before is None:
        return None
    better = f", it should be {before.expected.replace('_', ' ')}" if before.expected else ""
    note = (": ", own(before.note)) if before.note else ""
    who = el("strong", own(before.said_by), f" says this is {before.said}")
    return el("p", who, better, note, " ", moment(before.created_at), class_="said-of")

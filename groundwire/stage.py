"""What a stage of one's own is made of: its options, hooks and verdicts, its header and its panel of the dashboard."""

from proxy.exchange import Answer, Choice, Exchange, Facts, Sentence, Verdict, VerdictView
from proxy.language.text import text_of
from proxy.ports import Ports
from proxy.ports.panels import RecordedVerdict, StagePanel
from proxy.ports.stage import Action, Positive, SentenceStage, Share, Stage, StageHeader, StageOptions

__all__ = [
    "Action",
    "Answer",
    "Choice",
    "Exchange",
    "Facts",
    "Ports",
    "Positive",
    "RecordedVerdict",
    "Sentence",
    "SentenceStage",
    "Share",
    "Stage",
    "StageHeader",
    "StageOptions",
    "StagePanel",
    "Verdict",
    "VerdictView",
    "text_of",
]

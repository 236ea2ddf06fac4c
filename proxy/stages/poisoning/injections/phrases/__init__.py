"""The phrases of hidden instructions, by what they try to do: in English, German, Spanish and French.

Each `Signal` has a strength, the probability by which it alone would be taken for an attack; signals near each other add up
(`proxy.stages.poisoning.injections.injection`). Patterns read folded text (lower case, no diacritics, one character for one) and are tried
only around their `hints`, which are the beginnings of words. Every repetition in them is bounded, so that a text costs time in proportion
to its length.

What attacks look like is known from Perez and Ribeiro 2022 (arXiv:2211.09527), Greshake et al. 2023 (arXiv:2302.12173), InjecAgent
(arXiv:2403.02691) and AgentDojo (arXiv:2406.13352). The strengths were set by hand on the training templates of
`benchmarks.injection_data` and on ordinary tool results: what is found in those is weak.
"""

from __future__ import annotations

from proxy.stages.poisoning.injections.phrases.addressee import ADDRESSEE
from proxy.stages.poisoning.injections.phrases.commands import AUTHORITY, COMMAND, PRESSURE
from proxy.stages.poisoning.injections.phrases.exfiltration import CONCEALMENT, EXFILTRATION
from proxy.stages.poisoning.injections.phrases.override import OVERRIDE
from proxy.stages.poisoning.injections.phrases.roles import ROLE
from proxy.stages.poisoning.injections.phrases.signal import Signal
from proxy.stages.poisoning.injections.phrases.turns import FAKE_TURN

SIGNALS: tuple[Signal, ...] = (
    *OVERRIDE,
    *ROLE,
    *ADDRESSEE,
    *EXFILTRATION,
    *CONCEALMENT,
    *FAKE_TURN,
    *COMMAND,
    *AUTHORITY,
    *PRESSURE,
)
"""All of them. Several of one category near each other count once, by the strongest."""

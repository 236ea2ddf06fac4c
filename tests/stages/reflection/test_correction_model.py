"""Which words make a correction likely: numbers that are the same everywhere, for any text."""

import json
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.reflection.signals.correction_model import BUCKETS, WEIGHTS, CorrectionModel, features, likelihood, threshold
from proxy.stages.reflection.signals.corrections import prepared, read_correction
from tests.cost import below

TOOLS = ("search_web", "run_sql")


def likely(text: str, said: str) -> float:
    return likelihood(*prepared(text, TOOLS, said)).correction


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("rejected", "since when is Lyon the capital of France", "The capital of France is Lyon."),
        ("rejected", "Hm, da fehlt die Hälfte der Liste", "Hier ist die ganze Liste."),
        ("rejected", "Te has liado con las fechas, creo", "Su vuelo sale el 4 de mayo."),
        ("override", "in future I'd rather you asked me before you touch anything", "I have deleted the old entries."),
        ("override", "Frag mich in Zukunft bitte, bevor du etwas löschst", "Ich habe die alten Einträge gelöscht."),
    ],
)
def test_wording_that_no_rule_knows_is_read(kind: str, text: str, said: str) -> None:
    found = read_correction(text, tools=TOOLS, said=said)
    assert found is not None
    assert (kind, "") == (found.kind, found.language)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Two nights, please.", "How long do you want to stay?"),
        ("Sounds great, book it!", "The Ritz has a room for 200 euros."),
        ("Und wie wird das Wetter am Sonntag?", "Am Samstag regnet es."),
        ("¿Y cuánto cuesta el envío?", "El libro cuesta 12 euros."),
        ("Merci, bonne journée !", "Votre table est réservée."),
        ("No, just the two of us.", "Are there any children?"),
    ],
)
def test_what_users_mostly_say_is_none(text: str, said: str) -> None:
    assert likely(text, said) < threshold()


def test_a_report_is_not_judged_by_words_that_short_messages_correct_with() -> None:
    report = " ".join(
        f"Step {n}: the log of service {n} has {n * 37} lines, of which {n} are warnings about the queue." for n in range(1, 6)
    )
    said = "Service 4 is done; service 5 is next."
    assert likely(report, said) > threshold()
    assert read_correction(report, said=said) is None


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_has_probabilities(text: str, said: str) -> None:
    found = likelihood(*prepared(text, TOOLS, said))
    assert (True, True) == (0 <= found.rejected <= 1, 0 <= found.override <= 1)
    assert 0 <= found.correction <= 1 + 1e-9


@given(st.text(max_size=100), st.text(max_size=100))
def test_features_are_buckets(text: str, said: str) -> None:
    found = features(text, said)
    assert (True, True) == (len(found) > 0, all(0 <= bucket < BUCKETS for bucket in found))


@pytest.mark.process
def test_every_process_computes_the_same() -> None:
    code = "from proxy.stages.reflection.signals.correction_model import *; import sys; print(repr(likelihood(*sys.argv[1:]).correction))"
    said = ("not what i asked, ça alors", "here is the list of 12 shops")
    ended = subprocess.run([sys.executable, "-c", code, *said], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"})
    assert repr(likelihood(*said).correction) == ended.stdout.strip()


@pytest.mark.cost
def test_an_endless_message_takes_no_longer_than_its_beginning() -> None:
    likelihood("warm", "up")
    with below(1):
        likelihood("no that is wrong " * 50_000, "x " * 500_000)


def test_weights_for_other_features_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"training\.corrections"):
        msgspec.json.decode(json.dumps(json.loads(WEIGHTS.read_bytes()) | {"buckets": 2}), type=CorrectionModel)

"""What is looked for before the large patterns of `proxy.grounding.clashes.statements.cues` loses nothing that these find."""

import re

from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.clashes.statements import cues

LETTERS = re.compile(r"[^\W\d_]+")
WORDS = sorted(
    {word for pattern in (cues._FIRST_PERSON, cues._UPDATE, cues._NOW) for word in LETTERS.findall(pattern.pattern)}
    | {
        "changed",
        "thoughts",
        "meiner",
        "unseren",
        "nuestra",
        "ändert",
        "olvídalo",
        "cambiar",
        "oublie",
        "modifiez",
        "İstanbul",
        "ſorry",
        "House",
    }
)
BETWEEN = (" ", ", ", ". ", "'", "’", ": ", " - ", "n't ", "")
SENTENCES = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(BETWEEN)), max_size=7).map(
    lambda found: "".join(map("".join, found))
)
ALTERNATIVES = st.sampled_from(
    [part for pattern in (cues._UPDATE, cues._NOW) for part in re.split(r"[|()?:\\]", pattern.pattern) if part.strip()]
)


@given(SENTENCES, ALTERNATIVES, SENTENCES)
def test_a_change_of_mind_is_found_as_by_the_patterns_alone(before: str, said: str, after: str) -> None:
    sentence = f"{before} {said} {after}"

    assert cues.is_update(sentence) == (cues._UPDATE.search(sentence) is not None or cues._NOW.search(sentence) is not None)


@given(SENTENCES)
def test_the_first_person_is_found_as_by_the_pattern_alone(sentence: str) -> None:
    assert cues.is_first_person(sentence) == (cues._FIRST_PERSON.search(sentence) is not None)


@given(SENTENCES)
def test_both_are_looked_for_at_once(sentence: str) -> None:
    assert cues.is_personal_or_news(sentence) == (cues.is_first_person(sentence) or cues.is_update(sentence))

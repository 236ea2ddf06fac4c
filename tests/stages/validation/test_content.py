"""What a caller gives."""

import pytest

from proxy.grounding.claims.claims import read_content
from proxy.language.json.strings import parse_json
from proxy.stages.validation.content import content_of


def statements_of(text: str) -> list[str]:
    return read_content(text).sentences


def test_a_text_is_its_own_content() -> None:
    content = content_of("Tea is hot.", ("price",))
    assert ("Tea is hot.", None, ("price",)) == (content.text, content.timestamp, content.required_fields)


@pytest.mark.parametrize("key", ["content", "text"])
def test_a_mapping_names_its_text_and_what_is_known_of_it(key: str) -> None:
    given = {key: "Tea.", "timestamp": "2024-05-01T12:00:00Z", "source": "menu", "fields": {"price": 3}, "required_fields": ["price"]}
    content = content_of(given, ("other",))
    every = {key: "Tea.", "timestamp": "2024-05-01T12:00:00Z", "source": "menu", "price": 3}
    assert ("Tea.", 1714564800.0, "menu", every, ("price",)) == (
        content.text,
        content.timestamp,
        content.source,
        dict(content.fields),
        content.required_fields,
    )


def test_content_in_parts_is_their_text() -> None:
    assert "a\nb" == content_of({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}).text


def test_a_mapping_without_text_is_data() -> None:
    content = content_of({"city": "Graz", "degrees": 21, "updated_at": 1714564800})
    assert {"city": "Graz", "degrees": 21, "updated_at": 1714564800} == parse_json(content.text)
    assert 1714564800.0 == content.timestamp


def test_an_object_as_content_is_its_json() -> None:
    assert {"a": 1} == parse_json(content_of({"content": {"a": 1}}).text)


def test_a_json_text_says_its_own_time() -> None:
    assert 1714564800.0 == content_of('{"as_of": "2024-05-01T12:00:00Z"}').timestamp


@pytest.mark.parametrize("given", [3, None, b"bytes"])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match="expected a text or a mapping"):
        content_of(given)


def test_prose_states_its_sentences_each_once() -> None:
    assert ["The tower is 330 m tall.", "It stands in Paris."] == statements_of(
        "The tower is 330 m tall. It stands in Paris. The tower is 330 m tall."
    )


def test_questions_state_nothing() -> None:
    assert [] == statements_of("How tall is it? Wo steht er?")


def test_a_result_s_longer_strings_state_something_its_data_nothing() -> None:
    result = '{"id": "A-17", "status": "in transit", "note": "The parcel left Graz on Monday morning.", "count": 3}'
    assert ["The parcel left Graz on Monday morning."] == statements_of(result)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Der Turm ist 330 Meter hoch. Er steht in Paris.", 2),
        ("La torre mide 330 metros. Está en París.", 2),
        ("La tour mesure 330 mètres. Elle est à Paris.", 2),
    ],
)
def test_statements_of_other_languages(text: str, count: int) -> None:
    assert count == len(statements_of(text))

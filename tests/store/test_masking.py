"""Masking: a planted secret never survives, ordinary text is untouched."""

import json
import string
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store.masking import MASK, is_secret_name, mask, mask_body, mask_json, mask_text, may_hold_secrets

_ALNUM = string.ascii_letters + string.digits


def _random(least: int, most: int, alphabet: str = _ALNUM) -> st.SearchStrategy[str]:
    """What a generator of keys would make: with a digit in it."""
    return st.builds(lambda a, b: a + "7" + b, st.text(alphabet, min_size=least, max_size=most), st.text(alphabet, min_size=4, max_size=8))


secrets = st.one_of(
    _random(20, 48).map("sk-".__add__),
    _random(20, 80, _ALNUM + "-_").map("sk-proj-".__add__),
    _random(24, 24).map("sk_live_".__add__),
    _random(30, 36).map("ghp_".__add__),
    _random(30, 34).map("hf_".__add__),
    _random(40, 60, _ALNUM + "-_").map("gw-".__add__),
    st.builds(str.__add__, st.sampled_from(["pplx-", "tvly-", "nvapi-", "lsv2_pt_", "shpat_", "dop_v1_", "GOCSPX-"]), _random(20, 48)),
    st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16).map("AKIA".__add__),
    st.builds("eyJ{}.{}.{}".format, _random(10, 40), _random(10, 80), _random(10, 40)),
)
keys_under_names = st.tuples(
    st.sampled_from(["api_key", "apiKey", "OPENAI_API_KEY", "password", "client_secret", "access_token", "Authorization", "x-api-key"]),
    st.text(string.ascii_letters + string.digits + " .-_!$%", min_size=8, max_size=40).filter(lambda s: s.strip() == s and MASK not in s),
)
surroundings = st.text(string.ascii_letters + string.digits + " .,:;\n\"'{}[]()äß世🙂", max_size=60)


@given(surroundings, secrets, surroundings)
def test_a_planted_secret_never_survives(before: str, secret: str, after: str) -> None:
    assert secret not in mask_text(f"{before} {secret} {after}")
    assert secret not in json.dumps(mask({"messages": [{"content": f"{before} {secret}"}, {secret: 1}]}))
    assert secret.encode() not in mask_body(json.dumps({"content": [{"text": f'{before}"{secret}"{after}'}]}).encode())
    ours = json.dumps({"error": f"{before} {secret}."}).encode()
    assert secret.encode() not in mask_json(ours)
    assert may_hold_secrets(b"\n".join((b"{}", ours, b"{}")))


@given(_random(8, 40, _ALNUM + "-._~+/"))
def test_a_bearer_token_never_survives(token: str) -> None:
    for text in (f"Authorization: Bearer {token}", f"bearer {token}, and more", f'{{"h": "Bearer {token}"}}'):
        assert token not in mask_text(text)


@given(keys_under_names)
def test_what_stands_under_a_secrets_name_never_survives(named: tuple[str, str]) -> None:
    name, value = named
    once = json.dumps({name: value})
    assert mask({name: value, "nested": [{name: [value]}]}) == {name: MASK, "nested": [{name: [MASK]}]}
    assert json.loads(mask_body(once.encode())) == {name: MASK}
    assert json.loads(mask_text(once)) == {name: MASK}
    assert json.loads(json.loads(mask_body(json.dumps({"arguments": once}).encode()))["arguments"]) == {name: MASK}


@given(surroundings, secrets, surroundings)
def test_masking_twice_changes_nothing_more(before: str, secret: str, after: str) -> None:
    once = mask_text(f"{before} {secret} {after}")
    assert mask_text(once) == once


@given(st.text(st.characters(exclude_categories=["Cs"]).filter(lambda c: c not in "_-:=/@+" and not c.isdigit()), max_size=200))
def test_text_without_a_keys_marks_is_untouched(text: str) -> None:
    if "bearer" not in text.lower() and "eyj" not in text.lower():
        assert mask_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "The bearer instruments of a basic authorization need a secret handshake.",
        "Bearer authentication is required.",
        "max_tokens=4096, prompt_tokens: 12, token: required",
        "Password: must be chosen",
        "The desk-top and the risk-averse sk-learn user; task-oriented-dialogue-systems",
        "see https://example.com:8080/a/b?c=d and npm i left-pad@1.3.0",
        "the host gw-eu-central-1-production-blue-02 answers",
        "eyJust kidding. AKIA is a prefix.",
        "for token in tokens: total += len(token)",
        "Das Geheimnis 世界 🙂",
    ],
)
def test_ordinary_text_is_untouched(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPENAI_API_KEY=sk-proj-abcdefghij0123456789", "OPENAI_API_KEY=sk-[masked]"),
        (f"my key gw-{'aB3' * 14}x works", "my key gw-[masked] works"),
        ("postgresql://u:pw@host/db", "postgresql://u:[masked]@host/db"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG+bPxRfiCY", "aws_secret_access_key = [masked]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [masked]"),
        ('password="correct horse"', 'password="[masked]"'),
        (r"{\"api_key\": \"plain words\", \"n\": 1}", r"{\"api_key\": \"[masked]\", \"n\": 1}"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[masked]\nb"),
        ("a -----BEGIN PRIVATE KEY----- MIIE cut off", "a [masked]"),
    ],
)
def test_known_shapes_are_masked_in_place(text: str, expected: str) -> None:
    assert mask_text(text) == expected


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True),
        ("apiKey", True),
        ("x-api-key", True),
        ("Authorization", True),
        ("clientSecret", True),
        ("access_token", True),
        ("token", True),
        ("dbPassword", True),
        ("private_key", True),
        ("max_tokens", False),
        ("prompt_tokens", False),
        ("maxToken", False),
        ("eos_token", False),
        ("next_page_token", False),
        ("key", False),
        ("monkey", False),
        ("tokenizer", False),
        ("", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) == secret


def test_structure_stays() -> None:
    body = {
        "max_tokens": 5,
        "logprobs": {"content": [{"token": "hello", "logprob": -0.1, "top_logprobs": [{"token": "hi", "logprob": -2}]}]},
        "tools": [{"parameters": {"properties": {"password": {"type": "string"}}, "required": ["password"]}}],
        "api_key": None,
        "nothing": [1, 2.5, True, None, {}],
    }
    assert mask(body) == body


def test_a_body_that_is_no_json_is_masked_as_text() -> None:
    assert mask_body(b'data: {"api_key": "abc"}\n\xff') == 'data: {"api_key": "[masked]"}\n\ufffd'.encode()


def test_a_body_nested_too_deep_is_masked_all_the_same() -> None:
    body = b"[" * 100_000 + b'"sk-abcdefghijklmnop123456"' + b"]" * 100_000
    assert b"abcdefghijklmnop" not in mask_body(body)
    assert b"secret" not in mask_body(b"[" * 250 + b'"secret"' + b"]" * 250)


@pytest.mark.cost
@pytest.mark.parametrize(
    "piece",
    [
        "sk-",
        "eyJ",
        "eyJaaaaaaaa.",
        "token",
        "token=",
        'token":"',
        "token='\n",
        "-----BEGIN PRIVATE KEY-----",
        "://a:",
        "bearer ",
        "authorization: ",
        'api_key=\\\\\\"',
        "password ",
        "ghp_",
        "-_sk-",
    ],
)
def test_time_is_linear(piece: str) -> None:
    short, long = _best_s(piece * (10_000 // len(piece))), _best_s(piece * (80_000 // len(piece)))
    assert long < 40 * short + 0.01  # eight times the text; a quadratic pattern would take 64 times as long


def _best_s(text: str) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        mask_text(text)
        best = min(best, time.process_time() - started)
    return best


# ---- personal data ----


@pytest.mark.parametrize(
    "personal",
    [
        *("anna.berg@example.com", "o'neil+x@mail.example.co.uk", "jörg@exämple.de", "a@b.io"),
        *("+49 171 5550123", "+1 (415) 555-0132", "+442079460958", "+33 6 12 34 56 78"),
        *("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19", "NL91ABNA0417164300", "NO9386011117947"),
        *("4111 1111 1111 1111", "4111-1111-1111-1111", "5555555555554444", "378282246310005", "3782 822463 10005", "6011111111111117"),
        *("12345678Z", "X1234567L", "255081416802538"),
    ],
)
def test_personal_data_is_masked_in_its_place(personal: str) -> None:
    for text in ("{}", "Write to {}.", "({})", '"{}", he said', "a {}\nb", "{}, {} AND MORE 12", "Anna,{},Berlin", "AB12 CD {} x"):
        assert mask_text(text.replace("{}", personal)) == text.replace("{}", MASK)
    assert MASK in mask_json(json.dumps({"text": f"call {personal} now"}, ensure_ascii=False).encode()).decode()


@pytest.mark.parametrize(
    "personal", ["DE89 3704 0044 0532 0130 00", "4111 1111 1111 1111", "378282246310005", "12345678Z", "255081416802538"]
)
@pytest.mark.parametrize("before", ["", ":", ",", "[", "0.", ":1.", "\n", "\x01", "\x01.", "é", '"', "x"])
def test_json_is_searched_for_personal_data_as_its_texts_are(before: str, personal: str) -> None:
    told = {"score": 0.9731234073638916, "said": before + personal, "list": [0.5, personal + before], before + personal: 1}
    encoded = msgspec.json.encode(told)
    assert msgspec.json.encode(mask(told)) == mask_json(encoded)


def test_scores_and_ids_are_no_reason_to_read_a_record() -> None:
    told = {
        "score": 0.9731234073638916,
        "scores": [0.1234567890123456, 1.25],
        "id": "kf_86097536838ab492778743cd9250567f",
        "code": "DISTRACTION",
    }
    assert not may_hold_secrets(msgspec.json.encode(told))


@pytest.mark.parametrize("name", ["token", "refresh_token", "clientToken", "token_", "TOKEN", "pwd", "Cookie"])
def test_what_is_secret_by_its_name_alone_is_a_reason_to_read_a_record(name: str) -> None:
    told = {"verdicts": [{"detail": {name: "summer"}}], "said": f'{{"{name}" : "summer1"}}, {name}\t= summer2'}
    encoded = msgspec.json.encode(told)
    assert msgspec.json.encode(mask(told)) == mask_json(encoded)
    assert b'summer"' not in mask_json(encoded)


def test_numbers_of_tokens_and_names_of_stages_are_no_reason_to_read_a_record() -> None:
    told = {"used_tokens": 45, "code": "unchecked_no_context", "timings_ms": {"work_claims.answer": 0.1}, "stage": "work_claims"}
    assert not may_hold_secrets(msgspec.json.encode(told))


def test_figures_behind_a_phone_number_do_not_hide_it() -> None:
    assert mask_text("call +49 171 5550123 2026 11 28") == f"call {MASK} 2026 11 28"


@pytest.mark.parametrize(
    "text",
    [
        *("DE89370400440532013001", "4111 1111 1111 1112", "12345678A", "255081416802539", "9111111111111111"),
        *(
            "+120 000 000 people",
            "+1.234.567.890",
            "+12 345 678 USD",
            "up +0.25, then +123456",
            "2026-11-28T21:00:00+01:00",
            "C++17 and +1",
        ),
        *(
            "0.4111111111111111",
            "4111 1111 1111 11115",
            "id 01890a5d-ac96-774b-bcce-b302099a8057",
            "1,234,567,890,123,456",
            "1764363600000",
        ),
        *("@property.setter", "left-pad@1.3.0", "default@3f2a9c11", "@everyone", "a @ b.com", "ISBN 978-3-16-148410-0", "ACME12345678"),
    ],
)
def test_figures_and_ids_stay(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "+4",
        "1 ",
        "DE89 ",
        "a.",
        "@a.",
        "@",
        "a@b.",
        "4111-",
        "DE89A",
        "+1 (",
        "1",
        "-",
        "A",
        "+" + "1" * 98 + "a",
        "+1 2" + "3" * 60 + "x",
        "+1" + " 000" * 40_000 + " 00,",
    ],
)
def test_personal_data_is_looked_for_in_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        began = time.process_time()
        mask_text(text)
        return time.process_time() - began

    assert min(seconds(200_000) for _ in range(2)) < 2.0

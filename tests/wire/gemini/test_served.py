"""Clients of Gemini's API before a server of it, on real sockets: what passes, in which bytes, under which policies."""

import json
from typing import Any

import pytest

from proxy.errors import RateLimited
from proxy.exchange import Exchange, Verdict
from proxy.ports.stage import Stage
from proxy.testing import ScriptedVerifiers, reply, stream
from proxy.wire.gemini.answers import relocate_citations, with_changes
from proxy.wire.gemini.dialect import GeminiDialect
from tests import gemini
from tests.claims import LONDON, PARIS, TALL, TOWER, WHERE, judged_by_words
from tests.conftest import EMPTY_TAP, Start
from tests.own_tools import FIND, Finder

GEMINI: dict[str, Any] = {"kind": "gemini", "api_key": "AIza-upstream-secret"}
CLAIMS = "name: c\ndelivery: {}\nstages: [claims: {{action: {}, embed: false, on_error: closed}}]\n"
POLICIES = {
    "tap": EMPTY_TAP,
    "gate": "name: gate\ndelivery: gate\nstages: [budget, claims]\n",
    "hold": "name: hold\ndelivery: hold\nstages: [budget, citations, claims]\n",
}
ODD = b"""{ "contents" : [{"role":"user","parts":[{"text":"When\\u0020does the tide turn?"}, {"new_part": {"x": 1.50}}]},
  {"role":"model","parts":[{"text":"Hm.","thought":true},{"functionCall":{"name":"read","args":{"n":1e2}},"thoughtSignature":"CiQBVKhc7o+/"}]},
  {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"At noon."}}}]}],
  "system_instruction":{"parts":{"text":"Be brief."}}, "tools":[{"function_declarations":[{"name":"read","parameters":{"type":"OBJECT"}}]},{"googleSearch":{}}],
  "never_heard_of": [1, 2.0] }"""


def sent_to(proxy: Any) -> tuple[str, bytes]:
    (call,) = proxy.upstream.calls
    return call.path, call.body


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_body_of_which_nothing_changed_is_the_clients_bytes(start: Start, policy: str) -> None:
    body = json.dumps(gemini.answer(gemini.text("It turns at noon.")), indent=2).encode()
    async with start(reply(body), policy=POLICIES[policy], **GEMINI) as proxy:
        answer = await proxy.post(ODD, gemini.WHOLE)
        assert (200, body) == (answer.status, answer.body)
        assert ("/v1/models/gemini-2.5-flash:generateContent", ODD) == sent_to(proxy)
        headers = dict(proxy.upstream.calls[0].headers)
        assert "AIza-upstream-secret" == headers["x-goog-api-key"]
        assert "authorization" not in headers


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_stream_is_the_same_answer_in_order(start: Start, policy: str) -> None:
    parts = [gemini.THOUGHT, gemini.text("It turns at noon. Mind the current."), gemini.call(thoughtSignature=gemini.SIGNATURE)]
    events = gemini.streamed(*parts)
    async with start(stream(events), policy=POLICIES[policy], **GEMINI) as proxy:
        answer = await proxy.post(ODD, gemini.STREAM)
        assert gemini.read(b"".join(events)) == gemini.read(answer.body)
        assert policy == "gate" or b"".join(events) == answer.body
        assert "/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse" == sent_to(proxy)[0]


async def test_a_stream_without_alt_sse_is_a_list_of_the_same_chunks(start: Start) -> None:
    events = gemini.streamed(gemini.text("It turns at noon."))
    async with start(stream(events), **GEMINI) as proxy:
        answer = await proxy.post(gemini.ASK, gemini.STREAM.partition("?")[0])
        assert "application/json" == answer.headers["content-type"]
        assert gemini.payloads(b"".join(events)) == answer.json


async def test_a_key_in_the_query_is_the_clients_and_is_written_nowhere(start: Start) -> None:
    async with start(reply(gemini.answer()), kind="gemini", api_key="forward") as proxy:
        answer = await proxy.post(gemini.ASK, gemini.WHOLE + "?key=AIza-of-the-client")
        record = await proxy.record(answer)
        (call,) = proxy.upstream.calls
    assert "AIza-of-the-client" == dict(call.headers)["x-goog-api-key"]
    assert "AIza-of-the-client" not in json.dumps(record) + call.path
    assert ("/generateContent", 9, 3) == (record["path"].removeprefix("/v1"), record["prompt_tokens"], record["completion_tokens"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"contents": []}, "contents"),
        ({"contents": [{"parts": [{"text": 5}]}]}, "contents[0].parts[0].text"),
        ({"contents": [{"parts": [{"text": "a"}, {"functionResponse": {"response": {}}}]}]}, "contents[0].parts[1].functionResponse.name"),
        ({"contents": [{"role": "model", "parts": [{"functionCall": {"args": {}}}]}]}, "contents[0].parts[0].functionCall.name"),
        ({"contents": gemini.ASK["contents"], "tools": [5]}, "tools[0]"),
        ({"contents": gemini.ASK["contents"], "systemInstruction": {}, "system_instruction": {}}, "systemInstruction"),
    ],
)
async def test_bad_input_is_googles_envelope_with_the_path_of_the_field(start: Start, body: object, field: str) -> None:
    async with start(**GEMINI) as proxy:
        answer = await proxy.post(body, gemini.WHOLE)
        error = answer.json["error"]
        assert (400, 400, "INVALID_ARGUMENT") == (answer.status, error["code"], error["status"])
        assert [field] == [one["field"] for detail in error["details"] for one in detail.get("fieldViolations", ())]
        assert [] == proxy.upstream.calls


def test_when_to_come_again_is_said_in_googles_words() -> None:
    error = json.loads(GeminiDialect().error(RateLimited("Rate limit reached", headers=(("retry-after", "7"),))))["error"]
    assert (429, "RESOURCE_EXHAUSTED") == (error["code"], error["status"])
    assert {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"} == error["details"][-1]


async def test_a_models_name_cannot_name_another_path(start: Start) -> None:
    async with start(**GEMINI) as proxy:
        answer = await proxy.post(gemini.ASK, "/v1beta/models/..%2F..%2Ffiles:generateContent")
        assert (400, []) == (answer.status, proxy.upstream.calls)


async def test_a_model_in_the_body_is_not_the_one_that_is_asked(start: Start) -> None:
    async with start(reply(gemini.answer()), **GEMINI) as proxy:
        await proxy.post({"model": "gemini-ultra", "stream": True, **gemini.ASK}, gemini.WHOLE)
        assert ("/v1/models/gemini-2.5-flash:generateContent", gemini.ASK) == (sent_to(proxy)[0], json.loads(sent_to(proxy)[1]))


async def test_tokens_are_counted_by_the_provider(start: Start) -> None:
    async with start(reply({"totalTokens": 7, "promptTokensDetails": []}), **GEMINI) as proxy:
        answer = await proxy.post(gemini.ASK, gemini.COUNT)
        assert {"totalTokens": 7, "promptTokensDetails": []} == answer.json
        assert ("/v1/models/gemini-2.5-flash:countTokens", gemini.ASK) == (sent_to(proxy)[0], json.loads(sent_to(proxy)[1]))


async def test_tokens_are_estimated_where_the_provider_does_not_count(start: Start) -> None:
    async with start(reply({"detail": "Not Found"}, 404)) as proxy:
        answer = await proxy.post({"generateContentRequest": {"model": "models/x", **gemini.ASK}}, gemini.COUNT)
        assert 200 == answer.status
        assert 0 < answer.json["totalTokens"] < 30


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
async def test_each_version_of_the_api_is_served(version: str, start: Start) -> None:
    async with start(reply(gemini.answer()), **GEMINI) as proxy:
        answer = await proxy.post(gemini.ASK, f"/{version}/models/gemini-2.5-flash:generateContent")
        assert (200, "/v1/models/gemini-2.5-flash:generateContent") == (answer.status, sent_to(proxy)[0])


@pytest.mark.parametrize("version", ["v1beta", "v1alpha"])
async def test_models_are_listed_at_the_apis_own_path(version: str, start: Start) -> None:
    async with start(reply({"models": []}), **GEMINI) as proxy:
        answer = await proxy.get(f"/{version}/models?key=AIza&pageSize=5")
        assert ({"models": []}, "/v1/models?pageSize=5") == (answer.json, proxy.upstream.calls[0].path)


@pytest.mark.parametrize(("own", "sent"), [("forward", "AIza-client"), ("AIza-operator", "AIza-operator")])
async def test_a_key_in_the_query_of_another_path_is_in_no_address_either(own: str, sent: str, start: Start) -> None:
    async with start(reply({"models": []}), **GEMINI | {"api_key": own}) as proxy:
        await proxy.get("/v1/models?key=AIza-client&pageSize=5")
        (call,) = proxy.upstream.calls
    assert ("/v1/models?pageSize=5", sent) == (call.path, call.headers["x-goog-api-key"])


@pytest.mark.parametrize("index", [1, 2])
def test_a_place_counts_from_the_beginning_of_its_part(index: int) -> None:
    parts = [gemini.text("Grüße. London is the capital. "), gemini.text("High tide. "), gemini.text("High tide at noon.")]
    segment = {"partIndex": index, "startIndex": 5, "endIndex": 9, "text": "tide"}
    candidate = {"content": {"role": "model", "parts": parts}, "groundingMetadata": {"groundingSupports": [{"segment": segment}]}}
    changed = with_changes(candidate, "Grüße. High tide. High tide at noon.", {})
    (support,) = changed["groundingMetadata"]["groundingSupports"]
    text = changed["content"]["parts"][support["segment"]["partIndex"]]["text"]
    assert "tide" == text.encode()[support["segment"]["startIndex"] : support["segment"]["endIndex"]].decode()
    assert ("noon" in text) == (index == 2)


def test_words_that_are_left_in_no_single_part_have_no_place() -> None:
    candidate = {"groundingMetadata": {"groundingSupports": [{"segment": {"startIndex": 3, "endIndex": 7}}]}}
    moved = relocate_citations(candidate, "xx abcd", "abcd", {0: 0}, {0: 0, 1: 2})
    assert [] == moved["groundingMetadata"]["groundingSupports"]


BLOCKED = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("policy", [*POLICIES.values(), CLAIMS.format("hold", "block"), CLAIMS.format("gate", "block")])
async def test_a_prompt_that_the_provider_blocks_is_told_as_it_tells_it(start: Start, policy: str, streams: bool) -> None:
    answers = stream([gemini.event(BLOCKED)]) if streams else reply(BLOCKED)
    options = {**GEMINI, "policy": policy, "verifiers": ScriptedVerifiers(judged_by_words)}
    async with start(answers, **options) as proxy:
        answer = await proxy.post(asking_about_the_tower(), gemini.STREAM if streams else gemini.WHOLE)
    told = gemini.payloads(answer.body) if streams else [answer.json]
    assert (200, ["PROHIBITED_CONTENT"]) == (answer.status, [one["promptFeedback"]["blockReason"] for one in told])
    assert "error" not in answer.body.decode()


def asking_about_the_tower() -> dict[str, Any]:
    return {"contents": [gemini.said(gemini.text(WHERE))], "groundwire": {"context": [{"content": TOWER, "source": "tower.txt"}]}}


WRONG = gemini.text(f"{PARIS} {LONDON} {TALL}")


async def test_a_blocked_answer_ends_as_the_apis_own_filters_end_one(start: Start) -> None:
    options = {**GEMINI, "policy": CLAIMS.format("hold", "block"), "verifiers": ScriptedVerifiers(judged_by_words)}
    async with start(reply(gemini.answer(WRONG)), **options) as proxy:
        answer = await proxy.post(asking_about_the_tower(), gemini.WHOLE)
    (candidate,) = answer.json["candidates"]
    assert (200, "block", "SAFETY", []) == (answer.status, answer.verdict, candidate["finishReason"], candidate["content"]["parts"])
    assert "contradicts its context" in candidate["finishMessage"]


@pytest.mark.parametrize("delivery", ["gate", "hold"])
async def test_a_blocked_stream_ends_so_too(start: Start, delivery: str) -> None:
    options = {**GEMINI, "policy": CLAIMS.format(delivery, "block"), "verifiers": ScriptedVerifiers(judged_by_words)}
    async with start(stream(gemini.streamed(WRONG)), **options) as proxy:
        answer = await proxy.post(asking_about_the_tower(), gemini.STREAM)
    assert "SAFETY" == gemini.read(answer.body)["candidates"][0]["finishReason"]
    assert "London" not in answer.body.decode().replace(gemini.payloads(answer.body)[-1]["candidates"][0]["finishMessage"], "")


@pytest.mark.parametrize("delivery", ["gate", "hold"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_redacted_sentence_is_in_none_of_an_answers_places(start: Start, delivery: str, streams: bool) -> None:
    said = WRONG["text"]
    supports = [
        {
            "segment": {
                "startIndex": said.encode().find(one.encode()),
                "endIndex": said.encode().find(one.encode()) + len(one.encode()),
                "text": one,
            }
        }
        for one in (LONDON, TALL)
    ]
    grounding = {"groundingChunks": [{"web": {"uri": "https://example.com", "title": "example.com"}}], "groundingSupports": supports}
    options = {**GEMINI, "policy": CLAIMS.format(delivery, "redact"), "verifiers": ScriptedVerifiers(judged_by_words)}
    answers = (
        stream(gemini.streamed(WRONG, groundingMetadata=grounding)) if streams else reply(gemini.answer(WRONG, groundingMetadata=grounding))
    )
    async with start(answers, **options) as proxy:
        answer = await proxy.post(asking_about_the_tower(), gemini.STREAM if streams else gemini.WHOLE)
    whole = gemini.read(answer.body) if streams else answer.json
    text = gemini.text_of(whole)
    assert "London" not in answer.body.decode()
    assert PARIS in text
    (support,) = whole["candidates"][0]["groundingMetadata"]["groundingSupports"]
    segment = support["segment"]
    assert TALL == text.encode()[segment["startIndex"] : segment["endIndex"]].decode()


@pytest.mark.parametrize("streams", [False, True])
async def test_what_the_providers_search_found_is_evidence(start: Start, streams: bool) -> None:
    grounding = {
        "groundingChunks": [
            {"retrievedContext": {"uri": "files/tower", "title": "tower.txt", "text": TOWER}},
            {"web": {"uri": "https://x"}},
        ]
    }
    options = {
        **GEMINI,
        "policy": CLAIMS.format("hold", "redact").replace("closed", "open"),
        "verifiers": ScriptedVerifiers(judged_by_words),
    }
    answers = (
        stream(gemini.streamed(WRONG, groundingMetadata=grounding)) if streams else reply(gemini.answer(WRONG, groundingMetadata=grounding))
    )
    async with start(answers, **options) as proxy:
        answer = await proxy.post({"contents": [gemini.said(gemini.text(WHERE))]}, gemini.STREAM if streams else gemini.WHOLE)
    text = gemini.text_of(gemini.read(answer.body) if streams else answer.json)
    assert (False, True, True) == ("London" in text, PARIS in text, TALL in text)


class Refusing(Stage):
    """Refuses every request."""

    name = "refusing"

    async def on_request(self, exchange: Exchange) -> Verdict:
        return Verdict("refusing", "block", code="no", message="not here")


@pytest.mark.parametrize("streams", [False, True])
async def test_a_blocked_prompt_has_no_candidates(start: Start, streams: bool) -> None:
    policy = "name: p\ndelivery: hold\nstages: [refusing]\n"
    async with start(**GEMINI, policy=policy, stages=(Refusing,)) as proxy:
        answer = await proxy.post(gemini.ASK, gemini.STREAM if streams else gemini.WHOLE)
        assert [] == proxy.upstream.calls
    told = gemini.payloads(answer.body)[0] if streams else answer.json
    assert (200, "block", "not here") == (answer.status, answer.verdict, told["promptFeedback"]["blockReasonMessage"])
    assert "candidates" not in told


@pytest.mark.parametrize("delivery", ["tap", "gate", "hold"])
@pytest.mark.parametrize("streams", [False, True])
async def test_calls_of_the_proxys_own_tools_stay_with_it(start: Start, delivery: str, streams: bool) -> None:
    first = [gemini.text("I look."), gemini.call(FIND, {"q": "hotel"}, thoughtSignature=gemini.SIGNATURE)]
    answers = [gemini.streamed(*first), gemini.streamed(gemini.text("Booked."))]
    replies = [stream(one) for one in answers] if streams else [reply(gemini.answer(*first)), reply(gemini.answer(gemini.text("Booked.")))]
    policy = f"name: p\ndelivery: {delivery}\nstages: [finder]\n"
    ask = {**gemini.ASK, "tools": [{"functionDeclarations": [gemini.function("search_flights")]}, {"googleSearch": {}}]}
    async with start(*replies, **GEMINI, policy=policy, stages=(Finder,)) as proxy:
        answer = await proxy.post(ask, gemini.STREAM if streams else gemini.WHOLE)
        second = proxy.upstream.calls[1].json
    whole = gemini.read(answer.body) if streams else answer.json
    assert (True, 24) == (gemini.text_of(whole).endswith("Booked."), whole["usageMetadata"]["totalTokenCount"])
    assert FIND not in answer.body.decode()
    called, answered = second["contents"][-2:]
    assert gemini.SIGNATURE == next(part["thoughtSignature"] for part in called["parts"] if "functionCall" in part)
    assert ("user", FIND) == (answered["role"], answered["parts"][0]["functionResponse"]["name"])
    assert {"googleSearch": {}} == second["tools"][1]
    assert ["search_flights", FIND, "book_hotel"] == [one["name"] for one in second["tools"][0]["functionDeclarations"]]


@pytest.mark.parametrize(("model", "signed"), [("gemini-3-pro-preview", "skip_thought_signature_validator"), (gemini.MODEL, None)])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_clients_call_whose_signature_stays_with_an_own_one_says_so(start: Start, streams: bool, model: str, signed: Any) -> None:
    calls = [
        gemini.call(FIND, {"q": "hotel"}, thoughtSignature=gemini.SIGNATURE),
        gemini.call("search_flights"),
        gemini.call("search_flights"),
    ]
    events = [event.replace(gemini.MODEL.encode(), model.encode()) for event in gemini.streamed(*calls)]
    answer = stream(events) if streams else reply({**gemini.answer(*calls), "modelVersion": model})
    async with start(answer, **GEMINI, policy="name: p\ndelivery: tap\nstages: [finder]\n", stages=(Finder,)) as proxy:
        got = await proxy.post(gemini.ASK, gemini.STREAM if streams else gemini.WHOLE)
    whole = gemini.read(got.body) if streams else got.json
    first, second = whole["candidates"][0]["content"]["parts"]
    assert calls[2] == second
    assert {**calls[1], **({"thoughtSignature": signed} if signed else {})} == first


async def test_a_clients_first_call_keeps_its_own_signature(start: Start) -> None:
    calls = [gemini.call("search_flights", thoughtSignature=gemini.SIGNATURE), gemini.call(FIND, {"q": "hotel"})]
    answer = reply({**gemini.answer(*calls), "modelVersion": "gemini-3-pro-preview"})
    async with start(answer, **GEMINI, policy="name: p\ndelivery: tap\nstages: [finder]\n", stages=(Finder,)) as proxy:
        got = await proxy.post(gemini.ASK, gemini.WHOLE)
    assert calls[:1] == got.json["candidates"][0]["content"]["parts"]


async def test_a_key_that_no_header_can_hold_is_none_and_no_fault_of_the_upstream(start: Start) -> None:
    async with start(reply(gemini.answer()), kind="gemini", api_key="forward") as proxy:
        answer = await proxy.post(gemini.ASK, gemini.WHOLE + "?key=AIza%0d%0ax-evil:%201")
    assert 200 == answer.status
    assert not {"x-goog-api-key", "x-evil"} & {name.lower() for name in proxy.upstream.calls[0].headers}

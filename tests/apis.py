"""The scenarios' clients and providers in each API: a test speaks chat completions, and what goes over the wire is the API's own.

The client's side turns a chat body into the API's request and reads its answer as its clients do; the provider's side reads the request and
turns a scripted chat answer into the API's. Between the two, the proxy sees nothing of chat.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.exchange import Choice
from proxy.testing import ReceivedCall, ScriptedReply, ScriptedUpstream, chunk, completion, reply, stream
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.gemini.stream import WITHHELD
from tests import gemini as google
from tests import messages as anthropic
from tests import responses_api as openai

CHAT_PATH = "/v1/chat/completions"
Body = dict[str, Any]
Read = tuple[str, str, list[tuple[str, str, str]], bool, Any]
"""Text, refusal, calls (id, name, arguments), whether a filter has ended it, and the inline verdict."""


class ChatApi:
    """Chat completions: all stays as it is."""

    name, path = "chat", CHAT_PATH

    def upstream(self, *replies: ScriptedReply) -> ScriptedUpstream:
        """The provider."""
        return ScriptedUpstream(*replies)

    def request(self, chat: Body) -> Body:
        """A chat body as the API's."""
        return chat

    def chat_request(self, body: Body) -> Body:
        """The API's request as chat's."""
        return body

    def chat_answer(self, body: bytes, streamed: bool) -> bytes:
        """The API's answer as chat's."""
        return body


class _Provider(ScriptedUpstream):
    """Its scripts answer chat completions, and its calls are kept as such; on the wire it speaks `api`."""

    def __init__(self, api: _OtherApi, *replies: ScriptedReply) -> None:
        super().__init__(*replies)
        self._api = api

    async def _answer(self, answer: ScriptedReply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        if not self._api.serves(call.path.partition("?")[0]):
            await super()._answer(answer, reader, writer, call)
            return
        chat = json.dumps(self._api.chat_request(call.json)).encode()
        self.calls[-1] = asked = ReceivedCall(call.method, CHAT_PATH, call.headers, chat)
        await super()._answer(self._translated(answer, asked), reader, writer, call)

    def _translated(self, answer: ScriptedReply, asked: ReceivedCall) -> ScriptedReply:
        async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
            said = _Written()
            await answer(said, asked)  # type: ignore[arg-type]
            status, body = said.read()
            if status != 200:
                error = self._api.error(json.loads(body))
                await reply(error, status)(writer, call)
                return
            dialect = ChatDialect()
            if body.startswith(b"data:"):
                stream_ = dialect.stream()
                stream_.feed(body)
                await stream(self._api.events(stream_.answer.choices[0]))(writer, call)
            else:
                await reply(self._api.answer(dialect.parse_answer(body).choices[0]))(writer, call)

        return write


class _Written:
    """What a script writes, instead of a connection."""

    def __init__(self) -> None:
        self._data = b""

    def write(self, data: bytes) -> None:
        self._data += data

    async def drain(self) -> None:
        return None

    def read(self) -> tuple[int, bytes]:
        """Status and body."""
        head, _, body = self._data.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head:
            whole, rest = b"", body
            while rest:
                size, _, rest = rest.partition(b"\r\n")
                whole, rest = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
            body = whole
        return int(head.split(b" ", 2)[1]), body


class _OtherApi:
    name = path = ""

    def serves(self, path: str) -> bool:
        """Whether a path is the provider's own for it."""
        return path == self.path

    def address(self, chat: Body) -> str:
        """Where a client posts what a chat body says."""
        return self.path

    def upstream(self, *replies: ScriptedReply) -> ScriptedUpstream:
        """The provider."""
        return _Provider(self, *replies)

    def chat_answer(self, body: bytes, streamed: bool) -> bytes:
        """The API's answer as chat's, with the inline verdict where it has one."""
        text, refusal, calls, filtered, verdict = self.read(body, streamed)
        message: Body = {"role": "assistant", "content": text or None, "refusal": refusal or None}
        if calls:
            named = [{"id": i, "type": "function", "function": {"name": name, "arguments": given}} for i, name, given in calls]
            message["tool_calls"] = named
        finish = "content_filter" if filtered else "tool_calls" if calls else "stop"
        extra = {"groundwire": verdict} if verdict is not None else {}
        if not streamed:
            whole = completion(choices=[{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}], **extra)
            return json.dumps(whole).encode()
        delta = {**message, "tool_calls": [{"index": i, **call} for i, call in enumerate(message.get("tool_calls", ()))]}
        return b"".join([chunk(delta), chunk({}, finish, **extra), b"data: [DONE]\n\n"])

    def chat_error(self, body: bytes, warnings: str) -> tuple[int, bytes] | None:
        """What is an error of chat's: status and body; None for an answer, and where both APIs have the same."""
        return None

    def request(self, chat: Body) -> Body:
        raise NotImplementedError

    def chat_request(self, body: Body) -> Body:
        """The API's request as chat's."""
        raise NotImplementedError

    def answer(self, choice: Choice) -> Body:
        """The model's answer as the API's."""
        raise NotImplementedError

    def events(self, choice: Choice) -> list[bytes]:
        """The same, streamed."""
        raise NotImplementedError

    def error(self, chat: Body) -> Body:
        """An error of chat's as the API's."""
        return chat

    def read(self, body: bytes, streamed: bool) -> Read:
        """What a client reads."""
        raise NotImplementedError


class ResponsesApi(_OtherApi):
    """OpenAI's Responses."""

    name, path = "responses", "/v1/responses"

    def request(self, chat: Body) -> Body:
        """Items, flat tools, ``text.format``."""
        taken = {name: value for name, value in chat.items() if name not in ("messages", "tools", "tool_choice", "response_format")}
        body = {**taken, "input": [item for message in chat["messages"] for item in _items(message)]}
        if "tools" in chat:
            body["tools"] = [{"type": "function", **tool["function"]} for tool in chat["tools"]]
        choice = chat.get("tool_choice")
        if choice:
            body["tool_choice"] = {"type": "function", **choice["function"]} if isinstance(choice, dict) else choice
        if wanted := chat.get("response_format"):
            body["text"] = {"format": {"type": wanted["type"], **wanted.get("json_schema", {})}}
        return body

    def chat_request(self, body: Body) -> Body:
        """As the provider reads it."""
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        before = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        tools = [
            {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
            for tool in body.get("tools", ())
        ]
        return {**body, "messages": [*before, *_messages(items)], **({"tools": tools} if tools else {})}

    def _output(self, choice: Choice) -> list[Body]:
        said = [openai.text_item(choice.text)] if choice.text else []
        refused = [openai.refusal_item(choice.refusal)] if choice.refusal else []
        return [*said, *refused, *(openai.call_item(call.name, call.arguments, call.id) for call in choice.tool_calls)]

    def answer(self, choice: Choice) -> Body:
        """A response."""
        return openai.response(*self._output(choice))

    def events(self, choice: Choice) -> list[bytes]:
        """A streamed response."""
        return openai.events(*self._output(choice), words=1)

    def read(self, body: bytes, streamed: bool) -> Read:
        """Of a stream: its deltas, which must come to what its end says."""
        told = openai.decoded(body) if streamed else []
        whole = told[-1]["response"] if streamed else json.loads(body)
        parts = [part for item in whole["output"] if item["type"] == "message" for part in item["content"]]
        text = "".join(part.get("text", "") for part in parts)
        if streamed:
            assert text == "".join(one["delta"] for one in told if one["type"] == "response.output_text.delta")
        refusal = "".join(part.get("refusal", "") for part in parts)
        calls = [(item["call_id"], item["name"], item["arguments"]) for item in whole["output"] if item["type"] == "function_call"]
        filtered = whole["status"] == "incomplete" and whole["incomplete_details"]["reason"] == "content_filter"
        return text, refusal, calls, filtered, whole.get("groundwire")


class MessagesApi(_OtherApi):
    """Anthropic's Messages."""

    name, path = "messages", "/v1/messages"

    def request(self, chat: Body) -> Body:
        """Blocks, ``system``, ``input_schema``, ``output_config``."""
        taken = {name: value for name, value in chat.items() if name not in ("messages", "tools", "tool_choice", "response_format")}
        system = [message["content"] for message in chat["messages"] if message["role"] in ("system", "developer")]
        body = {"max_tokens": 1000, **taken, "messages": list(_turns(chat["messages"]))}
        if system:
            body["system"] = "\n\n".join(system)
        if "tools" in chat:
            functions = [tool["function"] for tool in chat["tools"]]
            body["tools"] = [{**function, "input_schema": function["parameters"]} for function in functions]
            for tool in body["tools"]:
                del tool["parameters"]
        choice = chat.get("tool_choice")
        if choice:
            body["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]} if isinstance(choice, dict) else {"type": choice}
        if wanted := chat.get("response_format"):
            body["output_config"] = {"format": {"type": "json_schema", "schema": wanted.get("json_schema", {}).get("schema", {})}}
        return body

    def chat_request(self, body: Body) -> Body:
        """As the provider reads it."""
        system = body.get("system")
        said = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system or ())
        before = [{"role": "system", "content": said}] if said else []
        functions = [{**tool, "parameters": tool["input_schema"]} for tool in body.get("tools", ())]
        for function in functions:
            del function["input_schema"]
        tools = [{"type": "function", "function": function} for function in functions]
        messages = [*before, *(one for message in body["messages"] for one in _spoken(message))]
        return {**body, "messages": messages, **({"tools": tools} if tools else {})}

    def _blocks(self, choice: Choice) -> list[Body]:
        said = [anthropic.text(choice.text or choice.refusal)] if choice.text or choice.refusal else []
        return [*said, *(anthropic.use(call.name, json.loads(call.arguments), call.id) for call in choice.tool_calls)]

    def answer(self, choice: Choice) -> Body:
        """A message."""
        return anthropic.message(*self._blocks(choice))

    def events(self, choice: Choice) -> list[bytes]:
        """A streamed message."""
        return anthropic.streamed(*self._blocks(choice))

    def error(self, chat: Body) -> Body:
        """Its envelope."""
        return {"type": "error", "error": {"type": "api_error", "message": chat["error"]["message"]}}

    def read(self, body: bytes, streamed: bool) -> Read:
        """By the API's rules for blocks."""
        whole = anthropic.read(body) if streamed else json.loads(body)
        verdict = anthropic.payloads(body)[-1].get("groundwire") if streamed else whole.get("groundwire")
        text = "".join(block["text"] for block in whole["content"] if block["type"] == "text")
        uses = [block for block in whole["content"] if block["type"] == "tool_use"]
        calls = [(use["id"], use["name"], json.dumps(use["input"])) for use in uses]
        return text, "", calls, whole["stop_reason"] == "refusal", verdict


class GeminiApi(_OtherApi):
    """Google's ``generateContent``."""

    name, path = "gemini", "/v1/generateContent"

    def serves(self, path: str) -> bool:
        """The model stands in it."""
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def request(self, chat: Body) -> Body:
        """Contents, ``systemInstruction``, ``functionDeclarations``, ``generationConfig``; the model and whether it streams are the path's."""
        taken = {name: value for name, value in chat.items() if name in ("groundwire",)}
        system = [message["content"] for message in chat["messages"] if message["role"] in ("system", "developer")]
        body: Body = {**taken, "contents": list(_contents(chat["messages"]))}
        if system:
            body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
        if "tools" in chat:
            functions = [tool["function"] for tool in chat["tools"]]
            declared = [{("parametersJsonSchema" if k == "parameters" else k): v for k, v in f.items()} for f in functions]
            body["tools"] = [{"functionDeclarations": declared}]
        if choice := chat.get("tool_choice"):
            named = {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]} if isinstance(choice, dict) else {}
            body["toolConfig"] = {"functionCallingConfig": named or {"mode": {"required": "ANY"}.get(choice, choice.upper())}}
        names = {"max_tokens": "maxOutputTokens", "temperature": "temperature", "n": "candidateCount"}
        config = {names[name]: chat[name] for name in names if name in chat}
        if wanted := chat.get("response_format"):
            config["responseMimeType"] = "application/json"
            config |= {"responseJsonSchema": wanted["json_schema"]["schema"]} if "json_schema" in wanted else {}
        return {**body, "generationConfig": config} if config else body

    def address(self, chat: Body) -> str:
        """Of the model."""
        return google.path(chat["model"], streams=bool(chat.get("stream")))

    def chat_request(self, body: Body) -> Body:
        """As the provider reads it."""
        system = "\n\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ()))
        functions = [one for item in body.get("tools", ()) for one in item.get("functionDeclarations", ())]
        tools = [
            {"type": "function", "function": {("parameters" if k == "parametersJsonSchema" else k): v for k, v in one.items()}}
            for one in functions
        ]
        messages = [{"role": "system", "content": system}] if system else []
        messages += [one for i, item in enumerate(body["contents"]) for one in _heard(i, item)]
        return {**body, "messages": messages, **({"tools": tools} if tools else {})}

    def _parts(self, choice: Choice) -> list[Body]:
        said = [google.text(choice.text or choice.refusal)] if choice.text or choice.refusal else []
        return [*said, *(google.call(call.name, json.loads(call.arguments), call.id) for call in choice.tool_calls)]

    def answer(self, choice: Choice) -> Body:
        """A whole answer."""
        return google.answer(*self._parts(choice))

    def events(self, choice: Choice) -> list[bytes]:
        """The same, streamed."""
        return google.streamed(*self._parts(choice))

    def error(self, chat: Body) -> Body:
        """Its envelope."""
        return {"error": {"code": 500, "message": chat["error"]["message"], "status": "INTERNAL"}}

    def chat_error(self, body: bytes, warnings: str) -> tuple[int, bytes] | None:
        """A refusal, or a block that is an answer of its own, as chat has it: status and body."""
        told = google.payloads(body)[0] if body.startswith(b"data:") else json.loads(body)
        if "error" in told:
            info = told["error"]["details"][0] if told["error"].get("details") else {"reason": told["error"]["status"]}
            said = {"message": told["error"]["message"], "code": info["reason"].lower(), "param": info.get("metadata", {}).get("param")}
            return told["error"]["code"], json.dumps({"error": said}).encode()
        found = told.get("promptFeedback", {}).get("blockReasonMessage") or (told.get("candidates") or [{}])[0].get("finishMessage")
        if not found or found == WITHHELD:
            return None
        return 400, json.dumps({"error": {"message": found, "code": "policy_blocked", "param": warnings.split(",")[0]}}).encode()

    def read(self, body: bytes, streamed: bool) -> Read:
        """Its parts."""
        whole = google.read(body) if streamed else json.loads(body)
        candidates = whole.get("candidates") or [{}]
        parts = candidates[0].get("content", {}).get("parts", ())
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        named = [(call.get("id", ""), call["name"], json.dumps(call["args"])) for call in calls]
        filtered = candidates[0].get("finishReason") == "SAFETY"
        return google.text_of({"candidates": [{"content": {"parts": parts}}]}), "", named, filtered, whole.get("groundwire")


Api = ChatApi | ResponsesApi | MessagesApi | GeminiApi
APIS: Mapping[str, Api] = {api.name: api for api in (ChatApi(), ResponsesApi(), MessagesApi(), GeminiApi())}


def _contents(messages: Sequence[Body]) -> Iterator[Body]:
    names = {call["id"]: call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()}
    results: list[Body] = []
    for message in messages:
        if message["role"] == "tool":
            identity = message["tool_call_id"]
            results.append(google.result({"output": message["content"]}, names.get(identity, "unknown"), identity))
            continue
        if results:
            yield google.said(*results)
            results = []
        if message["role"] not in ("system", "developer"):
            said = [google.text(_plain(message["content"]))] if message.get("content") else []
            calls = [
                google.call(c["function"]["name"], json.loads(c["function"]["arguments"]), c["id"]) for c in message.get("tool_calls") or ()
            ]
            own = {"groundwire": message["groundwire"]} if "groundwire" in message else {}
            yield {**google.said(*said, *calls, role="model" if message["role"] == "assistant" else "user"), **own}
    if results:
        yield google.said(*results)


def _heard(i: int, item: Body) -> Iterator[Body]:
    text = "".join(part.get("text", "") for part in item["parts"])
    for part in item["parts"]:
        if given := part.get("functionResponse"):
            said = given["response"]
            yield {
                "role": "tool",
                "tool_call_id": given.get("id", ""),
                "content": said["output"] if said.keys() == {"output"} else json.dumps(said),
            }
    calls = [
        {"id": call.get("id", ""), "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
        for part in item["parts"]
        if (call := part.get("functionCall"))
    ]
    if text or calls:
        role = "assistant" if item["role"] == "model" else "user"
        yield {"role": role, "content": text or None, **({"tool_calls": calls} if calls else {})}


def _items(message: Body) -> Iterator[Body]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        return
    if message.get("content"):
        yield {name: value for name, value in message.items() if name != "tool_calls"}
    for call in message.get("tool_calls") or ():
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _messages(items: Sequence[Body]) -> list[Body]:
    found: list[Body] = []
    for item in items:
        if item.get("type") == "function_call_output":
            found.append({"role": "tool", "tool_call_id": item["call_id"], "content": _plain(item["output"])})
        elif item.get("type") == "function_call":
            call = {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": None})
            found[-1].setdefault("tool_calls", []).append(call)
        else:
            found.append({"role": item["role"], "content": _plain(item["content"])})
    return found


def _turns(messages: Sequence[Body]) -> Iterator[Body]:
    results: list[Body] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(anthropic.result(message["content"], message["tool_call_id"]))
            continue
        if results:
            yield {"role": "user", "content": results}
            results = []
        if calls := message.get("tool_calls"):
            said = [anthropic.text(message["content"])] if message.get("content") else []
            uses = [anthropic.use(call["function"]["name"], json.loads(call["function"]["arguments"]), call["id"]) for call in calls]
            yield {"role": "assistant", "content": [*said, *uses]}
        elif message["role"] not in ("system", "developer"):
            yield message
    if results:
        yield {"role": "user", "content": results}


def _spoken(message: Body) -> Iterator[Body]:
    content = message["content"]
    if isinstance(content, str):
        yield message
        return
    text = "".join(block["text"] for block in content if block["type"] == "text")
    for block in content:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _plain(block.get("content") or "")}
    calls = [
        {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": json.dumps(block["input"])}}
        for block in content
        if block["type"] == "tool_use"
    ]
    if text or calls:
        yield {"role": message["role"], "content": text or None, **({"tool_calls": calls} if calls else {})}


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

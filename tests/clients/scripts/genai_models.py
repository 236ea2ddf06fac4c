"""google-genai, as an application would use it."""

from cases import HI, INLINE, QUESTION, WEATHER, case, groundwire, main_by_route, raised
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

MODEL = "gemini-2.5-flash"
_clients = []
"""One that nobody holds closes its connections."""


class Report(BaseModel):
    """What the weather is."""

    city: str
    degrees: float


def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return WEATHER[city]


DECLARED = types.FunctionDeclaration(
    name="get_weather",
    description="The weather of a city, now.",
    parameters=types.Schema(type="OBJECT", properties={"city": types.Schema(type="STRING")}, required=["city"]),
)
TOOLS = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[DECLARED])],
    system_instruction="You know the weather.",
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
THINK = TOOLS.model_copy(update={"thinking_config": types.ThinkingConfig(include_thoughts=True)})


def client(url, key=None, **headers):
    """A client that does not retry; its key is that of the environment."""
    options = types.HttpOptions(base_url=url, headers=headers or None)
    _clients.append(genai.Client(http_options=options, **({"api_key": key} if key else {})))
    return _clients[-1]


def calls_of(content):
    return [[part.function_call.name, part.function_call.args] for part in content.parts if part.function_call]


def answered(contents):
    """The conversation with the results of its calls."""
    calls = [part.function_call for content in contents for part in content.parts if part.function_call]
    results = [
        types.Part(function_response=types.FunctionResponse(id=c.id, name=c.name, response={"output": WEATHER[c.args["city"]]}))
        for c in calls
    ]
    asked = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    return [asked, *contents, types.Content(role="user", parts=results)]


def merged(chunks):
    """A stream's parts as one content."""
    parts = [part for chunk in chunks for candidate in chunk.candidates or () for part in (candidate.content.parts or ())]
    return types.Content(role="model", parts=parts)


@case
def whole(url):
    got = client(url).models.generate_content(model=MODEL, contents=HI)
    return {
        "text": got.text,
        "finish": got.candidates[0].finish_reason.value,
        "tokens": [got.usage_metadata.prompt_token_count, got.usage_metadata.candidates_token_count],
        "headers": groundwire(got.sdk_http_response.headers),
    }


@case
def stream(url):
    chunks = list(client(url).models.generate_content_stream(model=MODEL, contents=HI))
    return {"text": "".join(chunk.text or "" for chunk in chunks), "finish": chunks[-1].candidates[0].finish_reason.value}


@case
async def asynchronous_stream(url):
    got = await client(url).aio.models.generate_content_stream(model=MODEL, contents=HI)
    return "".join([chunk.text or "" async for chunk in got])


@case
def tools(url):
    models = client(url).models
    asked = models.generate_content(model=MODEL, contents=QUESTION, config=TOOLS).candidates[0].content
    final = models.generate_content(model=MODEL, contents=answered([asked]), config=TOOLS)
    return {"calls": calls_of(asked), "text": final.text}


@case
def stream_tools_with_thinking(url):
    models = client(url).models
    asked = merged(list(models.generate_content_stream(model=MODEL, contents=QUESTION, config=THINK)))
    final = merged(list(models.generate_content_stream(model=MODEL, contents=answered([asked]), config=THINK)))
    thoughts = "".join(part.text for part in asked.parts if part.thought)
    signed = [bool(part.thought_signature) for part in asked.parts if part.function_call]
    text = "".join(part.text for part in final.parts if part.text and not part.thought)
    return {"calls": calls_of(asked), "thoughts": thoughts, "signed": signed, "text": text}


@case
def library_calls_functions(url):
    """The library's own loop."""
    config = types.GenerateContentConfig(tools=[get_weather])
    return client(url).models.generate_content(model=MODEL, contents=QUESTION, config=config).text


@case
def chat(url):
    """The library keeps the conversation."""
    said = client(url).chats.create(model=MODEL)
    first, second = said.send_message(HI).text, "".join(chunk.text or "" for chunk in said.send_message_stream(HI))
    return [first, second, len(said.get_history())]


@case
def structured(url):
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Report)
    return client(url).models.generate_content(model=MODEL, contents=HI, config=config).parsed.model_dump()


@case
def count_tokens(url):
    return client(url).models.count_tokens(model=MODEL, contents=HI).total_tokens


@case
def inline(url):
    """The field is none that the library knows."""
    models = client(url, **INLINE).models
    chunks = models.generate_content_stream(model=MODEL, contents=HI)
    return [models.generate_content(model=MODEL, contents=HI).text, "".join(chunk.text or "" for chunk in chunks)]


@case
def failures(url):
    found = {}
    for name, model, key in (("wrong_key", MODEL, "gw-wrong"), ("limited", "limited", None), ("breaks", "breaks", None)):
        models = client(url, key).models
        if name == "breaks":
            error = raised(lambda models=models, model=model: list(models.generate_content_stream(model=model, contents=HI)))
        else:
            error = raised(models.generate_content, model=model, contents=HI)
        assert isinstance(error, errors.APIError), error
        found[name] = {"kind": type(error).__name__, "code": error.code, "status": error.status}
    return found


def told(got):
    """Verdict, and how it ended, of an answer that its context contradicts."""
    (candidate,) = got.candidates
    return {"finish": candidate.finish_reason.value, "text": got.text or "", "why": candidate.finish_message or ""}


@case
def contradicted(url):
    """Under a policy that refuses what its context contradicts; under others a warning."""
    context = [{"content": "It is 4.5 °C there, i.e. cold.", "source": "weather.txt"}]
    config = types.GenerateContentConfig(http_options=types.HttpOptions(extra_body={"groundwire": {"context": context}}))
    models = client(url).models
    whole = told(models.generate_content(model=MODEL, contents="How is the weather there?", config=config))
    chunks = list(models.generate_content_stream(model=MODEL, contents="How is the weather there?", config=config))
    return {"whole": whole, "streamed": told(chunks[-1])}


main_by_route()

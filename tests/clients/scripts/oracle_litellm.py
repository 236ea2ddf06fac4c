"""litellm as an oracle, from the proxy's own environment."""

import os
import sys
import types
import warnings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no price list from the network

import litellm
from oracle import HELLO, TIMEOUT_S, serve


class NoGateway:
    """litellm 1.106.0 asks its MCP gateway at every Responses request, and its core install lacks what that needs: there is none."""

    should_use_litellm_mcp_gateway = staticmethod(lambda *_, **__: False)


_module = types.ModuleType("litellm.responses.mcp.litellm_proxy_mcp_handler")
_module.LiteLLM_Proxy_MCP_Handler = NoGateway
sys.modules[_module.__name__] = _module
warnings.simplefilter("ignore")
litellm.suppress_debug_info = True
litellm.telemetry = False
OPTIONS = {"api_key": "k", "num_retries": 0, "max_retries": 0, "timeout": TIMEOUT_S}


def options(ask):
    if ask["api"] == "messages":
        return {"model": "anthropic/claude-sonnet-4-5", "messages": HELLO, "api_base": ask["url"], **OPTIONS}
    more = {"n": ask["choices"]} if ask["choices"] > 1 else {}
    return {"model": "openai/gpt-4o", "messages": HELLO, "api_base": ask["url"] + "/v1", **more, **OPTIONS}


def litellm_whole(ask, shown):
    got = litellm.completion(**options(ask))
    shown.look(got)
    for i in range(ask["choices"]):
        shown.say(f"text {i}", got.choices[i].message.content)


def litellm_stream(ask, shown):
    chunks = []
    for chunk in litellm.completion(**options(ask), stream=True):
        chunks.append(chunk)
        shown.look(chunk)
        if chunk.choices and ask["choices"] == 1:
            shown.say("text", chunk.choices[0].delta.content)
    rebuilt = litellm.stream_chunk_builder(chunks)
    if rebuilt is not None and ask["choices"] == 1:  # of several it makes one
        shown.look(rebuilt)
        shown.say("rebuilt", rebuilt.choices[0].message.content)


def responses_options(ask):
    return {"model": "openai/gpt-4o", "input": "Where is it?", "api_base": ask["url"] + "/v1", **OPTIONS}


def litellm_responses(ask, shown):
    got = litellm.responses(**responses_options(ask))
    shown.look(got)
    shown.say("output_text", got.output_text)


def litellm_responses_stream(ask, shown):
    for event in litellm.responses(**responses_options(ask), stream=True):
        shown.look(event)
        if event.type == "response.output_text.delta":
            shown.say("delta", event.delta)


RUNS = {
    ("chat", False): [litellm_whole],
    ("chat", True): [litellm_stream],
    ("responses", False): [litellm_responses],
    ("responses", True): [litellm_responses_stream],
    ("messages", False): [litellm_whole],
    ("messages", True): [litellm_stream],
}

if __name__ == "__main__":
    serve(RUNS)

"""The Agents SDK behind Groundwire: another address, and the run's name as a header. ``pip install openai-agents``, then
``python examples/clients/openai_agents.py`` beside a running ``groundwire serve``.
"""

import os

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

BASE_URL = os.environ.get("GROUNDWIRE_URL", "http://127.0.0.1:4000/openai/v1")


@function_tool
def stock(part: str) -> str:
    """How many pieces of a part are in stock."""
    return f"There are 12 pieces of {part} in stock."


set_tracing_disabled(True)
client = AsyncOpenAI(base_url=BASE_URL, api_key=os.environ.get("OPENAI_API_KEY", "unused"))  # the proxy has the key
keeper = Agent(
    name="storekeeper",
    instructions="Answer from the stock list.",
    model=OpenAIChatCompletionsModel(model="gpt-4o-mini", openai_client=client),
    model_settings=ModelSettings(extra_headers={"x-groundwire-run-id": "stock-take"}),  # its turns are one page of the dashboard
    tools=[stock],
)
print(Runner.run_sync(keeper, "How many chains are in stock?").final_output)
print("the run: /dashboard/runs/stock-take")

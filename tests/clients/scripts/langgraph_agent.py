"""A LangGraph agent with a tool and a memory, streamed, as an application would use it: on chat completions and on Responses."""

from cases import HI, QUESTION, WEATHER, case, main_by_route
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return WEATHER[city]


def graph_of(url, *, responses):
    """A model that calls the tool until it has its answer."""
    model = ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", max_retries=0, use_responses_api=responses).bind_tools([get_weather])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([get_weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver())


def round_trip(url, **options):
    """A question in a thread that has begun: what was streamed, called and answered."""
    graph, thread = graph_of(url, **options), {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", HI)]}, thread)
    before = len(graph.get_state(thread).values["messages"])
    pieces = [part for part, _ in graph.stream({"messages": [("user", QUESTION)]}, thread, stream_mode="messages")]
    messages = graph.get_state(thread).values["messages"][before:]
    calls = [call for message in messages if message.type == "ai" for call in message.tool_calls]
    return {
        "deltas": "".join(piece.text for piece in pieces if isinstance(piece, AIMessageChunk)),
        "calls": [[call["name"], call["args"]] for call in calls],
        "results": [message.content for message in messages if message.type == "tool"],
        "text": messages[-1].text,
        "turns": len(messages),
    }


@case
def chat(url):
    return round_trip(url, responses=False)


@case
def responses(url):
    return round_trip(url, responses=True)


main_by_route()

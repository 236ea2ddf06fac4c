"""What is called by its name in a transcript."""

from proxy.context.conversation import called_names


def test_a_call_without_an_id_shifts_no_names() -> None:
    calls = [True, {"function": {"name": "a"}}, {"id": "1", "function": {"name": "b"}}, {"id": "2", "function": []}]
    assert {"1": "b"} == called_names([{"role": "assistant", "tool_calls": calls}])

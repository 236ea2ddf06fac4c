"""Servers' names in tools' names."""

import pytest

from proxy.language.names import is_marked_as_server, split_tool_name


@pytest.mark.parametrize(
    ("name", "server", "tool"),
    [
        ("mcp__github__create_issue", "github", "create_issue"),
        ("mcp__my_server__read", "my_server", "read"),
        ("mcp_github_create_issue", "github", "create_issue"),
        ("mcp--my-server--create_issue", "my-server", "create_issue"),
        ("c1a2b30mcp0create_issue", "c1a2b3", "create_issue"),
        ("developer__text_editor", "developer", "text_editor"),
        ("github.create_issue", "github", "create_issue"),
        ("github/create_issue", "github", "create_issue"),
        ("github:create_issue", "github", "create_issue"),
    ],
)
def test_a_server_stands_in_front(name: str, server: str, tool: str) -> None:
    assert split_tool_name(name) == (server, tool)


@pytest.mark.parametrize("name", ["read_file", "Read", "send-mail.v2", "api.2", "list_mcp_resources", "mcp", "mcp_", "__", "", "getFile"])
def test_other_names_have_no_server(name: str) -> None:
    assert split_tool_name(name) == ("", name)


@pytest.mark.parametrize(
    ("name", "marked"),
    [("mcp__github__get", True), ("mcp--github--get", True), ("mcp_github_get", True), ("github__get", False), ("use_mcp_tool", False)],
)
def test_the_mark_of_a_tool_server(name: str, marked: bool) -> None:
    assert is_marked_as_server(name) == marked

"""Runs a client script's cases and writes what each of them got, or its traceback, as JSON into the file named by the first argument.

Every script is given its address and key as an application would be: OPENAI_BASE_URL and OPENAI_API_KEY. One that runs its cases on
several routes, in one process, gets their addresses by name: ROUTES.
"""

import asyncio
import inspect
import json
import os
import sys
import traceback

BASE_URL, KEY = os.environ.get("OPENAI_BASE_URL", ""), os.environ["OPENAI_API_KEY"]
HI = "Hi"
QUESTION = "How is the weather in Zürich and in Oslo?"
WEATHER = {"Zürich": "21.5 °C in Zürich", "Oslo": "4 °C in Oslo"}
TOO_LONG = "word " * 9000
INLINE = {"x-groundwire-inline": "1"}
_cases = []


def server_of(url):
    """The address of the server that a base_url belongs to: what is no route's is below that."""
    return "/".join(url.split("/")[:3])


def case(function):
    """Mark a function (or coroutine function) as a case."""
    _cases.append(function)
    return function


def raised(function, *arguments, **named):
    """The exception that a call must raise."""
    try:
        function(*arguments, **named)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def status_error(error):
    """What an application reads off openai-python's exceptions."""
    parts = {name: getattr(error, name, None) for name in ("status_code", "code", "param", "message")}
    response = getattr(error, "response", None)
    headers = {k: v for k, v in response.headers.items() if k.startswith(("x-groundwire-", "retry-after"))} if response is not None else {}
    return {"kinds": [kind.__name__ for kind in type(error).__mro__], **parts, "headers": headers}


def groundwire(headers):
    """The proxy's response headers."""
    return {name: value for name, value in headers.items() if name.startswith("x-groundwire-")}


def main():
    """Run the cases."""
    _write(_run())


def main_by_route():
    """Run the cases, each with the address of each route."""
    _write({route: _run(url) for route, url in json.loads(os.environ["ROUTES"]).items()})


def _run(*given):
    results = {}
    for function in _cases:
        try:
            value = function(*given)
            results[function.__name__] = {"value": asyncio.run(value) if inspect.iscoroutine(value) else value}
        except Exception:
            results[function.__name__] = {"error": traceback.format_exc()}
    return results


def _write(results):
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(results, file)

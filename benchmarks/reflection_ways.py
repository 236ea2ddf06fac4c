"""Tasks for a simulated agent: eight ways to fail, look-alikes of failures that are none, and plain work. Everything follows from a seed.

Names of tools and arguments and the wording of errors differ from run to run; within a run a tool words its errors in one way, with new
ids and numbers each time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from benchmarks.reflection_world import Action, Goal, Outcome, Rule, Task, World

WAYS = (
    "1 oversized search",
    "2 wrong id",
    "3 broken arguments",
    "4 unknown tool",
    "5 empty search",
    "6 loop",
    "7 tool unavailable",
    "8 permission",
)
HARMLESS, CLEAN = "look-alikes", "no failure"
KINDS = (*WAYS, HARMLESS, CLEAN)


def make_task(kind: str, seed: int) -> Task:
    """One of `KINDS`; look-alikes are mixed into half of the failing runs."""
    source = random.Random(f"task-{kind}-{seed}")
    make = _Maker(source)
    if kind in WAYS:
        traps = _TRAPS[WAYS.index(kind)](make)
        goals = [traps[0], make.plain(), *traps[1:]]
        if source.random() < 0.5:
            goals.insert(source.randrange(len(goals) + 1), make.harmless(source.randrange(6)))
    elif kind == HARMLESS:
        goals = [make.harmless(which) for which in source.sample(range(6), 3)]
    else:
        goals = [make.plain() for _ in range(4)]
    user = f"Ticket {source.randrange(10_000, 99_999)}-{seed}: " + " Then ".join(make.wanted) + " Tell me when all of it is done."
    system = "You are an assistant with tools. Work through what the user asks for, one call at a time."
    return Task(kind, seed, tuple(goals), tuple(make.tools.values()), system, user, tuple(make.rules))


# ---- texts ----

WORDINGS: Mapping[str, tuple[str, ...]] = {
    "timeout": (
        '{"error": {"type": "timeout", "message": "Request <id> timed out after <ms> ms"}}',
        "Error: the request timed out after <ms> ms",
        "TimeoutError: The read operation timed out",
        "HTTP 504 Gateway Timeout (request <id>)",
    ),
    "not_found": (
        '{"error": "not_found", "message": "No record with id <value>", "request_id": "<id>"}',
        "Error 404: <value> not found",
        '{"status": 404, "detail": "Not found."}',
        "Error: <value> does not exist",
    ),
    "invalid": (
        '{"error": "invalid arguments", "detail": "<name>: expected <expected>"}',
        "Invalid value for parameter '<name>': expected <expected>",
        "ValidationError: 1 validation error for <tool>\n<name>\n  Input should be <expected>",
        "400 Bad Request: <name> must be <expected>",
    ),
    "unknown_tool": (
        "Error: tool '<tool>' not found",
        '{"error": "Unknown tool: <tool>"}',
        "Unknown function <tool>",
        "Tool <tool> does not exist.",
    ),
    "empty": ('{"results": []}', "No results found.", "[]", '{"total": 0, "hits": []}'),
    "unavailable": (
        '{"error": {"code": 429, "message": "Rate limit exceeded. Retry after 60 seconds."}}',
        "HTTP 503 Service Unavailable",
        "Error: the service is temporarily unavailable (request <id>)",
        "429 Too Many Requests",
    ),
    "denied": (
        '{"error": "permission_denied", "message": "You are not allowed to read this resource"}',
        "HTTP 403 Forbidden",
        "Error: access denied for this account",
        "Error: session <id> has expired. Please sign in again.",
        '{"error": {"code": "session_expired", "message": "The session handle is no longer valid"}}',
    ),
}
"""By kind of failure."""
_TOPICS = ("refund policy", "data export", "invoice layout", "team seats", "webhook retries", "single sign-on", "audit trail", "usage caps")
_PEOPLE = ("ana.ruiz", "jo.meyer", "li.wei", "tom.hart", "eva.novak", "sam.okoro", "mia.rossi", "ben.clark")
_THINGS = ("orders", "tickets", "invoices", "shipments", "contracts", "devices", "assets", "bookings")
_CITIES = ("Lisbon", "Graz", "Porto", "Bergen", "Ghent", "Cork", "Turin", "Malmö", "Brno", "Split")
_LOG = (
    "2026-03-02 10:00:01 INFO error_count=0 retries=0\n2026-03-02 10:00:04 INFO registered handler for TimeoutError\n"
    "2026-03-02 10:01:00 INFO last error: none\n2026-03-02 10:02:13 INFO request finished status=200 in 31 ms\n"
    "2026-03-02 10:03:40 WARN 1 failed login for user ext-7, blocked as configured\n2026-03-02 10:04:02 INFO 404 page rendered for /favicon"
)
_ARTICLE = (
    '{"results": [{"title": "How to handle a TimeoutError", "text": "When a request fails with 504 Gateway Timeout, retry it with a '
    'smaller page. A 404 Not Found means that the resource does not exist, and permission denied that the key lacks a scope."}, '
    '{"title": "Error codes", "text": "Exception classes of the client: RateLimitError, NotFoundError, BadRequestError."}], "error": null}'
)


def _tool(name: str, about: str, properties: Mapping[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    schema = {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}


class _Maker:
    """Collects the goals, tools and rules of one task."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.tools: dict[str, dict[str, Any]] = {}
        self.rules: list[Rule] = []
        self.wanted: list[str] = []
        self._made = 0
        self._cities = source.sample(_CITIES, len(_CITIES))
        self._topics = source.sample(_TOPICS, len(_TOPICS))
        self._people = source.sample(_PEOPLE, len(_PEOPLE))

    # ---- parts of every way ----

    def pick(self, *options: str) -> str:
        return self.source.choice(options)

    def wording(self, kind: str, **filled: str) -> str:
        text = self.source.choice(WORDINGS[kind])
        for name, value in filled.items():
            text = text.replace(f"<{name}>", value)
        return text

    def topic(self) -> str:
        return self._topics.pop()

    def person(self) -> str:
        return self._people.pop()

    def part(self) -> str:
        self._made += 1
        return f"part-{self._made}"

    def offer(self, name: str, about: str, properties: Mapping[str, Any], required: tuple[str, ...]) -> None:
        """A tool that is there already takes these arguments, too."""
        known = self.tools[name]["function"]["parameters"]["properties"] if name in self.tools else {}
        self.tools[name] = _tool(name, about, {**known, **properties}, required)

    def rows(self, about: str, count: int) -> str:
        rows = [
            {"id": self.source.randrange(1000, 9999), "subject": f"{about} {i}", "state": self.pick("open", "closed")} for i in range(count)
        ]
        return json.dumps({"items": rows})

    def answers(self, answers: Mapping[str, Outcome]) -> None:
        """Calls that always bring the same, by `Action.key`."""
        self.rules.append(lambda action, _: answers.get(action.key))

    # ---- plain work, and what only looks like a failure ----

    def plain(self) -> Goal:
        """One call that works."""
        city, part = self._cities.pop(), self.part()
        self.offer("get_weather", "The weather of a city.", {"city": _TEXT}, ("city",))
        call = Action("get_weather", {"city": city})
        self.wanted.append(f"Look up the weather in {city}.")
        self.answers({call.key: Outcome(json.dumps({"city": city, "celsius": self.source.randrange(30), "sky": "clear"}), part=part)})
        return Goal({part: call})

    def harmless(self, which: int) -> Goal:
        return (self._log, self._article, self._poll, self._pages, self._edit, self._quiet)[which]()

    def _log(self) -> Goal:
        """A text full of the word error."""
        self.offer("read_log", "The newest lines of a service's log.", {"service": _TEXT}, ("service",))
        call, part = Action("read_log", {"service": self.pick("mail", "billing", "search")}), self.part()
        self.wanted.append(f"Read the log of {call.arguments['service']}.")
        self.answers({call.key: Outcome(_LOG, part=part)})
        return Goal({part: call})

    def _article(self) -> Goal:
        """Passages about errors."""
        self.offer("search_docs", "Search the documentation.", {"query": _TEXT}, ("query",))
        call, part = Action("search_docs", {"query": "how the client handles errors"}), self.part()
        self.wanted.append("Find out how the client handles errors.")
        self.answers({call.key: Outcome(_ARTICLE, part=part)})
        return Goal({part: call})

    def _poll(self) -> Goal:
        """The same call again and again, until it is done."""
        tool = self.pick("get_job_status", "poll_export", "deployment_progress", "check_build")
        self.offer(tool, "How far a job is.", {"job": _TEXT}, ("job",))
        call = Action(tool, {"job": f"job-{self.source.randrange(100, 999)}"})
        states = [("queued", 0), ("running", 20), ("running", 75), ("done", 100)]
        if self.source.random() < 0.5:
            states.insert(1, states[0])
        parts = [self.part() for _ in states]
        texts = [json.dumps({"state": state, "percent": percent, "error": None}) for state, percent in states]
        self.wanted.append(f"Wait until {call.arguments['job']} is done.")

        def rule(action: Action, world: World) -> Outcome | None:
            if action.key != call.key:
                return None
            at = min(world.times(call), len(parts) - 1)
            return Outcome(texts[at], part=parts[at])

        self.rules.append(rule)
        return Goal(dict.fromkeys(parts, call))

    def _pages(self) -> Goal:
        """Three pages of a list, the last one empty."""
        thing = self.pick(*_THINGS)
        self.offer(f"list_{thing}", f"A page of {thing}.", {"page": _NUMBER, "size": _NUMBER}, ("page",))
        calls = {self.part(): Action(f"list_{thing}", {"page": page, "size": 5}) for page in (1, 2, 3)}
        texts = (self.rows(thing, 5), self.rows(thing, 5), '{"items": []}')
        self.wanted.append(f"Go through all {thing}.")
        self.answers({call.key: Outcome(text, part=part) for (part, call), text in zip(calls.items(), texts, strict=True)})
        return Goal(calls)

    def _edit(self) -> Goal:
        """Read, change, and read again."""
        self.offer("get_record", "A record.", {"id": _NUMBER}, ("id",))
        self.offer("update_record", "Change a record's owner.", {"id": _NUMBER, "owner": _TEXT}, ("id", "owner"))
        number, owner, parts = self.source.randrange(10, 99), self.person(), [self.part() for _ in range(3)]
        read, write = Action("get_record", {"id": number}), Action("update_record", {"id": number, "owner": owner})
        self.wanted.append(f"Give record {number} to {owner} and look whether that has worked.")

        def rule(action: Action, world: World) -> Outcome | None:
            if action.key == write.key:
                return Outcome('{"ok": true}', part=parts[1])
            if action.key != read.key:
                return None
            after = bool(world.times(write))
            return Outcome(json.dumps({"id": number, "owner": owner if after else None, "name": "n/a"}), part=parts[2 if after else 0])

        self.rules.append(rule)
        return Goal(dict(zip(parts, (read, write, read), strict=True)))

    def _quiet(self) -> Goal:
        """Nothing there, which is good news."""
        self.offer("list_alerts", "Alerts that are open.", {"team": _TEXT}, ("team",))
        call, part = Action("list_alerts", {"team": self.pick("core", "web", "data")}), self.part()
        self.wanted.append("Make sure that no alert is open.")
        self.answers({call.key: Outcome('{"alerts": []}', part=part)})
        return Goal({part: call})


# ---- the eight ways ----


def _oversized(make: _Maker) -> list[Goal]:
    """Too much at a time takes too long; 10 at a time, page by page, works."""
    tool, size = make.pick("search_docs", "find_messages", "query_events", "search_tickets"), make.pick("limit", "max_results", "page_size")
    make.offer(tool, "Search, page by page.", {"query": _TEXT, size: _NUMBER, "page": _NUMBER}, ("query",))
    error, most = Outcome(make.wording("timeout"), "timeout"), 10
    goals = []
    for _ in range(2):
        topic, parts = make.topic(), [make.part(), make.part()]
        pages = [make.rows(topic, 4), make.rows(topic, 4)]
        make.wanted.append(f"Search for what we have on {topic}, the first two pages.")

        def rule(action: Action, _: World, topic: str = topic, parts: list[str] = parts, pages: list[str] = pages) -> Outcome | None:
            if action.tool != tool or action.arguments.get("query") != topic:
                return None
            wanted, page = action.arguments.get(size, 50), action.arguments.get("page", 1)
            if wanted > most:
                return error
            return Outcome(pages[page - 1], part=parts[page - 1]) if page in (1, 2) else Outcome('{"items": []}')

        make.rules.append(rule)
        right = {part: Action(tool, {"query": topic, size: 10, "page": page}) for page, part in enumerate(parts, 1)}
        wrong = tuple(Action(tool, {"query": topic, size: limit}) for limit in (50, 40, 30))
        goals.append(Goal(right, wrong, frozenset(("cap",))))
    return goals


def _wrong_id(make: _Maker) -> list[Goal]:
    """What is taken for an id is none; the mail address works."""
    noun = make.pick("customer", "employee", "account", "member")
    tool, key = make.pick(f"lookup_{noun}", f"get_{noun}", f"{noun}_details"), f"{noun}_id"
    make.offer(tool, f"A {noun} by id or by mail address.", {key: _TEXT, "email": _TEXT}, ())
    wording, goals = make.source.choice(WORDINGS["not_found"]), []
    for _ in range(3):
        name, part = make.person(), make.part()
        right = Action(tool, {"email": f"{name}@example.org"})
        wrong = tuple(Action(tool, {key: value}) for value in (name, name.replace(".", "-"), name.split(".")[0]))
        make.wanted.append(f"Look up the {noun} {name} (e-mail {name}@example.org).")
        answers = {call.key: Outcome(wording.replace("<value>", call.arguments[key]), "not_found") for call in wrong}
        make.answers(answers | {right.key: Outcome(json.dumps({noun: name, "since": 2019, "plan": "team"}), part=part)})
        goals.append(Goal({part: right}, wrong, frozenset(("change", "another"))))
    return goals


def _broken(make: _Maker) -> list[Goal]:
    """Arguments that the tool's schema does not allow."""
    tool = make.pick("create_event", "schedule_meeting", "add_appointment")
    several = {"type": "array", "items": _TEXT}
    levels = {"type": "string", "enum": ["low", "normal", "high"]}
    make.offer(tool, "Put something into the calendar.", {"title": _TEXT, "guests": several, "level": levels}, ("title", "guests", "level"))
    name = make.pick("guests", "level")
    expected = "a valid list" if name == "guests" else "one of low, normal, high"
    error = Outcome(make.wording("invalid", name=name, expected=expected, tool=tool), "invalid")
    goals = []
    for _ in range(3):
        topic, guests, part = make.topic(), make.source.sample(_PEOPLE, 2), make.part()
        right = Action(tool, {"title": topic, "guests": guests, "level": "high"})
        bad = (", ".join(guests), " and ".join(guests), ";".join(guests)) if name == "guests" else ("urgent", "HIGHEST", "1")
        make.wanted.append(f"Put {topic} into the calendar with {' and '.join(guests)}, it is urgent.")

        def rule(action: Action, _: World, topic: str = topic, part: str = part) -> Outcome | None:
            given = action.arguments
            if action.tool != tool or given.get("title") != topic:
                return None
            fits = isinstance(given.get("guests"), list) and given.get("level") in levels["enum"]
            return Outcome('{"created": true, "event": "ev-<id>"}', part=part) if fits else error

        make.rules.append(rule)
        goals.append(Goal({part: right}, tuple(right.but(**{name: value}) for value in bad), frozenset(("fix", f"fix {name}"))))
    return goals


def _unknown(make: _Maker) -> list[Goal]:
    """A tool under a name that it does not have."""
    tool = make.pick("files_search", "crm_find_contact", "run_sql_query", "send_chat_message")
    short = tool.split("_", 1)[1]
    camel = "".join(word.capitalize() if i else word for i, word in enumerate(tool.split("_")))
    make.offer(tool, "What the name says.", {"text": _TEXT}, ("text",))
    wording, names, goals = make.source.choice(WORDINGS["unknown_tool"]), (short, camel, f"{tool}s"), []
    for _ in range(3):
        topic, part = make.topic(), make.part()
        right = Action(tool, {"text": topic})
        wrong = tuple(Action(name, right.arguments) for name in names)
        make.wanted.append(f"Use {tool.replace('_', ' ')} for {topic}.")
        answers = {call.key: Outcome(wording.replace("<tool>", call.tool), "unknown_tool") for call in wrong}
        make.answers(answers | {right.key: Outcome(make.rows(topic, 3), part=part)})
        goals.append(Goal({part: right}, wrong, frozenset((f"known {tool}",))))
    return goals


def _empty(make: _Maker) -> list[Goal]:
    """A search that finds nothing with the user's words."""
    tool = make.pick("search_docs", "search_documents", "knowledge_base_search", "retrieve_passages")
    make.offer(tool, "Search the documents.", {"query": _TEXT}, ("query",))
    nothing, goals = Outcome(make.wording("empty"), "empty"), []
    for _ in range(3):
        topic, part = make.topic(), make.part()
        right = Action(tool, {"query": f"{topic} guide"})
        wrong = tuple(
            Action(tool, {"query": f"{start} {topic} {end}"}) for start, end in (("our", "thing"), ("the", "stuff"), ("my", "bits"))
        )
        make.wanted.append(f"Find our {topic} thing.")
        found = json.dumps(
            {"results": [{"id": f"doc-{part}", "text": f"The guide on {topic} tells how it is set up and who may change it."}]}
        )
        make.answers({call.key: nothing for call in wrong} | {right.key: Outcome(found, part=part)})
        goals.append(Goal({part: right}, wrong, frozenset(("rephrase", "change", "another"))))
    return goals


def _loop(make: _Maker) -> list[Goal]:
    """The result is there, and yet it is fetched again; half of the time two results in turn."""
    noun = make.pick("order", "profile", "balance", "schedule")
    tool = make.pick(f"get_{noun}", f"fetch_{noun}", f"read_{noun}")
    make.offer(tool, f"A {noun}.", {"id": _NUMBER}, ("id",))
    goals = []
    for _ in range(2):
        calls = {make.part(): Action(tool, {"id": make.source.randrange(1000, 9999)}) for _ in range(make.source.choice((1, 2)))}
        make.wanted.append(f"Read {noun} {' and '.join(str(call.arguments['id']) for call in calls.values())}.")
        for part, call in calls.items():
            text = json.dumps({"id": call.arguments["id"], noun: make.pick("ready", "waiting"), "total": make.source.randrange(500)})

            def rule(action: Action, world: World, call: Action = call, part: str = part, text: str = text) -> Outcome | None:
                if action.key != call.key:
                    return None
                return Outcome(text, "loop" if world.times(call) else "", part)

            make.rules.append(rule)
        goals.append(Goal(calls, tuple(calls.values()), frozenset(("result", "another")), after=True))
    return goals


def _unavailable(make: _Maker) -> list[Goal]:
    """A service that is down, beside one that works."""
    first, second = make.pick("alpha", "north", "prime"), make.pick("beta", "south", "metro")
    noun = make.pick("quote", "rates", "stock")
    tools = f"{first}_{noun}", f"{second}_{noun}"
    for tool in tools:
        make.offer(tool, f"{noun.capitalize()} for an article.", {"article": _TEXT, "currency": _TEXT}, ("article",))
    error, goals = Outcome(make.wording("unavailable"), "unavailable"), []
    make.rules.append(lambda action, _: error if action.tool == tools[0] else None)
    for _ in range(3):
        topic, part = make.topic(), make.part()
        right = Action(tools[1], {"article": topic})
        wrong = (Action(tools[0], {"article": topic}), *(Action(tools[0], {"article": topic, "currency": c}) for c in ("EUR", "USD")))
        make.wanted.append(f"Get the {noun} for {topic} ({first} or {second}).")
        make.answers({right.key: Outcome(json.dumps({"article": topic, noun: make.source.randrange(10, 99)}), part=part)})
        goals.append(Goal({part: right}, wrong, frozenset((f"other {tools[1]}", "another"))))
    return goals


def _denied(make: _Maker) -> list[Goal]:
    """Only a person can open what is closed."""
    noun = make.pick("salary", "contract", "mailbox", "ledger")
    tool = make.pick(f"get_{noun}", f"read_{noun}", f"open_{noun}")
    make.offer(tool, f"A person's {noun}.", {"person": _TEXT, "year": _NUMBER}, ("person",))
    error, goals = Outcome(make.wording("denied"), "denied"), []
    for _ in range(2):
        name, part = make.person(), make.part()
        call = Action(tool, {"person": name})
        make.wanted.append(f"Read the {noun} of {name}.")
        text = json.dumps({"person": name, noun: make.source.randrange(100, 999)})

        def rule(action: Action, world: World, name: str = name, part: str = part, text: str = text) -> Outcome | None:
            if action.tool != tool or action.arguments.get("person") != name:
                return None
            return Outcome(text, part=part) if world.granted else error

        make.rules.append(rule)
        goals.append(Goal({part: call}, (call, call.but(year=2026), call.but(year=2025)), frozenset(("ask",)), stuck=True))
    return goals


_TRAPS = (_oversized, _wrong_id, _broken, _unknown, _empty, _loop, _unavailable, _denied)

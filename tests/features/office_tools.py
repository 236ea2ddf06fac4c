"""The 45 tools of an office assistant, as an agent would send them: travel, calendar, mail, files, people, tasks, money, web."""

from __future__ import annotations

from typing import Any

COMMON = {"account": "string: which of the user's linked accounts to act for, by its id; the one that is set as default when left out"}
"""Parameters of every tool."""


def tool(name: str, description: str, /, *required: str, **parameters: str) -> dict[str, Any]:
    """A parameter is ``type: description``; those in `required` must be given."""
    properties = {}
    for parameter, text in {**parameters, **COMMON}.items():
        kind, _, meaning = text.partition(": ")
        properties[parameter] = {"type": kind, "description": meaning}
        if kind == "array":
            properties[parameter]["items"] = {"type": "string"}  # type: ignore[assignment]
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TRAVEL = [
    tool(
        "search_flights",
        "Search for flights between two airports on a date, with prices, airlines and departure times.",
        "origin",
        "destination",
        "date",
        origin="string: IATA code of the departure airport",
        destination="string: IATA code of the arrival airport",
        date="string: day of departure, YYYY-MM-DD",
        return_date="string: day of the flight back, YYYY-MM-DD",
        cabin="string: economy or business",
    ),
    tool(
        "book_flight",
        "Book a seat on a flight for a traveller and charge the stored card.",
        "flight_id",
        "passenger",
        flight_id="string: id of the flight, from search_flights",
        passenger="string: full name as in the passport",
        seat="string: seat such as 12A",
    ),
    tool(
        "cancel_flight",
        "Cancel a flight booking and ask the airline for a refund.",
        "booking_id",
        booking_id="string: id of the flight booking",
        reason="string: why the flight is cancelled",
    ),
    tool(
        "get_flight_status",
        "Tell whether a flight is on time, delayed or cancelled, and its gate.",
        "flight_number",
        flight_number="string: such as LH 2034",
        date="string: day of the flight",
    ),
    tool(
        "search_hotels",
        "Find hotels in a city for a stay, with room prices and guest ratings.",
        "city",
        "check_in",
        "check_out",
        city="string: name of the city",
        check_in="string: first night, YYYY-MM-DD",
        check_out="string: day of leaving, YYYY-MM-DD",
        guests="integer: number of guests",
        max_price="number: highest price of a night in euros",
    ),
    tool(
        "book_hotel",
        "Book a hotel room in a city for given nights.",
        "hotel_id",
        "check_in",
        "check_out",
        hotel_id="string: id of the hotel, from search_hotels",
        check_in="string: first night",
        check_out="string: day of leaving",
        room_type="string: single, double or suite",
    ),
    tool("cancel_hotel", "Cancel a hotel booking before its deadline.", "booking_id", booking_id="string: id of the hotel booking"),
    tool(
        "get_hotel_reviews",
        "Read what guests wrote about a hotel.",
        "hotel_id",
        hotel_id="string: id of the hotel",
        limit="integer: how many reviews",
    ),
    tool(
        "rent_car",
        "Rent a car at a station from one day to another.",
        "station",
        "from_date",
        "to_date",
        station="string: city or airport of the rental station",
        from_date="string: day of pick-up",
        to_date="string: day of return",
        category="string: compact, estate or van",
    ),
    tool(
        "search_trains",
        "Look up train connections between two stations.",
        "origin",
        "destination",
        origin="string: station of departure",
        destination="string: station of arrival",
        departure="string: earliest departure, ISO 8601",
    ),
    tool(
        "get_visa_rules",
        "Tell which visa a citizen of one country needs for another.",
        "citizenship",
        "destination",
        citizenship="string: country of the passport",
        destination="string: country to visit",
    ),
    tool(
        "get_weather_forecast",
        "Weather forecast for a place, up to ten days ahead.",
        "place",
        place="string: town or coordinates",
        days="integer: number of days",
    ),
]

CALENDAR = [
    tool(
        "create_event",
        "Put a meeting or appointment into the calendar and invite people.",
        "title",
        "start",
        "end",
        title="string: what the meeting is about",
        start="string: begin, ISO 8601",
        end="string: end, ISO 8601",
        attendees="array: e-mail addresses of those invited",
        location="string: room or address",
    ),
    tool(
        "list_events",
        "List the calendar's meetings and appointments between two days.",
        "from_date",
        "to_date",
        from_date="string: first day",
        to_date="string: last day",
    ),
    tool(
        "move_event",
        "Reschedule a meeting to another time.",
        "event_id",
        "start",
        event_id="string: id of the calendar entry",
        start="string: new begin, ISO 8601",
    ),
    tool(
        "delete_event",
        "Remove a meeting from the calendar and tell the invited people.",
        "event_id",
        event_id="string: id of the calendar entry",
    ),
    tool(
        "find_free_time",
        "Find a time at which several people are free for a meeting.",
        "people",
        "minutes",
        people="array: e-mail addresses",
        minutes="integer: length of the meeting",
        before="string: latest day",
    ),
    tool(
        "set_reminder",
        "Remind the user of something at a given time.",
        "text",
        "time",
        text="string: what to be reminded of",
        time="string: when, ISO 8601",
    ),
]

MAIL = [
    tool(
        "send_email",
        "Write and send an e-mail.",
        "to",
        "subject",
        "body",
        to="array: addresses of the recipients",
        subject="string: subject line",
        body="string: text of the message",
        attachments="array: ids of files to attach",
    ),
    tool(
        "search_emails",
        "Search the mailbox by sender, subject or words.",
        "query",
        query="string: words to look for",
        sender="string: address of the sender",
        since="string: earliest day",
    ),
    tool("read_email", "Read one e-mail with its attachments' names.", "email_id", email_id="string: id of the e-mail"),
    tool(
        "reply_to_email",
        "Answer an e-mail, to its sender or to all.",
        "email_id",
        "body",
        email_id="string: id of the e-mail",
        body="string: text of the answer",
        to_all="boolean: whether to answer everybody",
    ),
    tool("archive_email", "Move an e-mail out of the inbox.", "email_id", email_id="string: id of the e-mail"),
    tool(
        "set_out_of_office",
        "Switch on an automatic answer for the time of an absence.",
        "from_date",
        "to_date",
        "message",
        from_date="string: first day away",
        to_date="string: last day away",
        message="string: text of the automatic answer",
    ),
]

FILES = [
    tool("list_files", "List the files and folders in a folder of the drive.", "folder", folder="string: path of the folder"),
    tool(
        "open_document",
        "Read the text of a document on the drive.",
        "file_id",
        file_id="string: id of the file",
        pages="string: range such as 1-5",
    ),
    tool(
        "create_document",
        "Create a new text document on the drive.",
        "title",
        "content",
        title="string: name of the document",
        content="string: text in Markdown",
        folder="string: path of the folder",
    ),
    tool(
        "share_file",
        "Give somebody access to a file on the drive.",
        "file_id",
        "person",
        file_id="string: id of the file",
        person="string: e-mail address",
        may_edit="boolean: whether the person may change the file",
    ),
    tool("delete_file", "Move a file to the bin.", "file_id", file_id="string: id of the file"),
    tool("convert_to_pdf", "Convert a document, sheet or picture to PDF.", "file_id", file_id="string: id of the file"),
    tool(
        "edit_spreadsheet",
        "Write values into cells of a spreadsheet.",
        "file_id",
        "range",
        "values",
        file_id="string: id of the spreadsheet",
        range="string: cells such as B2:D9",
        values="array: rows of values, as CSV",
    ),
]

PEOPLE_AND_TASKS = [
    tool(
        "find_contact", "Look up a person's address and phone number in the address book.", "name", name="string: full name or part of it"
    ),
    tool(
        "add_contact",
        "Add a person to the address book.",
        "name",
        name="string: full name",
        email="string: e-mail address",
        phone="string: phone number",
    ),
    tool(
        "send_chat_message",
        "Send a message in the company chat to a person or a channel.",
        "recipient",
        "text",
        recipient="string: person or channel",
        text="string: the message",
    ),
    tool("start_video_call", "Start a video call and return its link.", "people", people="array: e-mail addresses of those invited"),
    tool(
        "create_task",
        "Add an item to a to-do list.",
        "title",
        title="string: what is to be done",
        due="string: day by which it is due",
        assignee="string: who should do it",
    ),
    tool("list_tasks", "List the open items of a to-do list.", project="string: name of the project", assignee="string: whose items"),
    tool("complete_task", "Mark a to-do item as done.", "task_id", task_id="string: id of the item"),
    tool(
        "log_working_hours",
        "Record the hours worked on a project on a day.",
        "project",
        "hours",
        project="string: name of the project",
        hours="number: hours worked",
        date="string: day",
    ),
]

MONEY_AND_WEB = [
    tool(
        "convert_currency",
        "Convert an amount of money at today's exchange rate.",
        "amount",
        "source",
        "target",
        amount="number: how much",
        source="string: currency such as EUR",
        target="string: currency such as JPY",
    ),
    tool(
        "submit_expense",
        "Hand in a receipt to be reimbursed.",
        "amount",
        "purpose",
        amount="number: sum in euros",
        purpose="string: what it was spent on",
        receipt="string: id of the picture of the receipt",
    ),
    tool("get_stock_price", "Latest price of a share on the stock exchange.", "symbol", symbol="string: ticker such as SAP"),
    tool(
        "search_web", "Search the public internet for pages.", "query", query="string: words to search for", limit="integer: how many pages"
    ),
    tool(
        "translate_text",
        "Translate text from one language into another.",
        "text",
        "target",
        text="string: text to be translated",
        target="string: language of the translation",
    ),
    tool("calculate", "Work out an arithmetic expression.", "expression", expression="string: such as (3 + 4) * 2"),
]

TOOLS = [*TRAVEL, *CALENDAR, *MAIL, *FILES, *PEOPLE_AND_TASKS, *MONEY_AND_WEB]
FLIGHT_TOOLS = frozenset(("search_flights", "book_flight", "cancel_flight", "get_flight_status"))
HOTEL_TOOLS = frozenset(("search_hotels", "book_hotel", "cancel_hotel", "get_hotel_reviews"))

QUESTIONS = {
    "Search for flights from Berlin to Lisbon on 3 May": "search_flights",
    "Is LH 2034 delayed today?": "get_flight_status",
    "Find me a hotel in Vienna for two nights": "search_hotels",
    "Book a hotel in Paris": "book_hotel",
    "I need a rental car at Munich airport next week": "rent_car",
    "Which trains go from Hamburg to Copenhagen tomorrow?": "search_trains",
    "Will it rain in Oslo this weekend?": "get_weather_forecast",
    "Set up a meeting with Dana on Monday at ten": "create_event",
    "What meetings do I have this week?": "list_events",
    "When are Ana and Bo both free for an hour?": "find_free_time",
    "Send an e-mail to the whole team about the new office": "send_email",
    "Search my mailbox for the invoice from Contoso": "search_emails",
    "I'm on holiday from Friday, set an automatic reply": "set_out_of_office",
    "Convert the contract to PDF": "convert_to_pdf",
    "Give Priya access to the budget file": "share_file",
    "What is Jonas's phone number?": "find_contact",
    "Add buying printer paper to my to-do list": "create_task",
    "How much is 200 euros in Japanese yen?": "convert_currency",
    "Translate this sentence into Spanish: the door is open": "translate_text",
    "What does an SAP share cost right now?": "get_stock_price",
}
"""Each with the tool that answers it."""

"""TypeSafe's own SDK for System One, against what the built-in judge answers."""

from cases import BASE_URL, KEY, case, main, raised
from typesafe_sdk import AsyncTypeSafeClient, Choice, Noul, Score, TypeSafeClient

STATE = "Order 4711 was delivered on 5 March. The customer was charged twice."
ROUTE = BASE_URL.removesuffix("/v1")
QUESTIONS = {
    "late": Noul(instructions="The order was delivered on 7 March."),
    "asked": Noul(instructions="Is it urgent?"),
    "meant": Noul(instructions="Has it come?", criteria={"true": "The order was delivered on 5 March."}),
    "which": Choice(instructions="Which?", criteria={"money": "The customer was charged twice.", "parcel": "It never came."}),
    "level": Score(criteria=["The order was never sent.", "The order was delivered on 5 March."]),
}


@case
def answers():
    with TypeSafeClient(api_key=KEY, base_url=ROUTE) as client:
        found = client.system_one(STATE, QUESTIONS, model="builtin")
    return {
        "nouls": {name: one.noul for name, one in found.nouls.items()},
        "choice": found.choices["which"].model_dump(),
        "score": found.scores["level"].model_dump(),
        "tokens": found.usage.input_tokens,
        "model": found.model,
    }


@case
async def asynchronous():
    async with AsyncTypeSafeClient(api_key=KEY, base_url=ROUTE) as client:
        found = await client.system_one({"order": {"id": 4711, "delivered": "5 March"}}, {"late": QUESTIONS["late"]}, model="builtin")
    return list(found.nouls)


@case
def a_long_state():
    with TypeSafeClient(api_key=KEY, base_url=ROUTE) as client:
        found = client.system_one(STATE + " Nothing else is known." * 400, {"late": QUESTIONS["late"]}, model="builtin")
    return found.nouls["late"].noul


@case
def a_bad_field():
    with TypeSafeClient(api_key=KEY, base_url=ROUTE) as client:
        error = raised(client.system_one, STATE, QUESTIONS, model="builtin", extra_body={"images": ["data:image/png;base64,AA=="]})
    return {"kind": type(error).__name__, "status": error.status, "text": str(error)}


@case
def a_wrong_key():
    with TypeSafeClient(api_key="wrong", base_url=ROUTE) as client:
        return type(raised(client.system_one, STATE, QUESTIONS, model="builtin")).__name__


if __name__ == "__main__":
    main()

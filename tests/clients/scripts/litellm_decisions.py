"""litellm as a client of both shapes, from the proxy's own environment."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no price list from the network

import litellm
from cases import BASE_URL, KEY, case, main, raised

STATE = "Order 4711 was delivered on 5 March. The customer was charged twice."
TO = {"api_base": BASE_URL, "api_key": KEY}


@case
def decisions():
    questions = [
        {"type": "predicate", "name": "late", "instructions": "The order was delivered on 7 March."},
        {"type": "predicate", "name": "asked", "instructions": "Is it urgent?"},
        {
            "type": "choice",
            "name": "which",
            "instructions": "Which?",
            "choices": [
                {"value": "money", "description": "The customer was charged twice."},
                {"value": "parcel", "description": "It never came."},
            ],
        },
    ]
    found = litellm.decisions(model="openai/builtin", input=STATE, questions=questions, **TO)
    return [one.model_dump() for one in found.answers]


@case
def systemone():
    questions = {
        "late": {"type": "noul", "instructions": "The order was delivered on 7 March."},
        "asked": {"type": "noul", "instructions": "Is it urgent?"},
        "level": {"type": "score", "criteria": ["The order was never sent.", "The order was delivered on 5 March."]},
    }
    found = litellm.systemone(model="hosted_vllm/builtin", state=STATE, questions=questions, **TO)
    return {name: one.model_dump() for name, one in found.answers.items()}


@case
def a_bad_field():
    error = raised(
        litellm.systemone, model="hosted_vllm/builtin", state=STATE, questions={"q": {"type": "noul", "criteria": {"true": ""}}}, **TO
    )
    return {"status": error.status_code, "text": str(error)}


if __name__ == "__main__":
    main()

"""What a memory says of the user, against what the user has said: judged as clashes are."""

from __future__ import annotations

from tests.stages.validation.cases import codes, exchange_of, run

SAID = [{"role": "user", "content": "I prefer budget hotels."}, {"role": "assistant", "content": "Noted."}]


async def warned(role: str, name: str, text: str) -> list[str]:
    remembered = {"role": role, "name": name, "content": text}
    exchange = exchange_of([*SAID, remembered, {"role": "user", "content": "Find one in Rome."}])
    await run(exchange, action={"consistency": "annotate"})
    return codes(exchange)


async def test_a_memory_that_the_user_has_contradicted_is_inconsistent() -> None:
    assert ["context_inconsistent"] == await warned("system", "user_memory", "User prefers luxury 5-star hotels.")


async def test_one_that_goes_with_what_they_said_is_not() -> None:
    assert [] == await warned("system", "user_memory", "User prefers quiet hotels.")

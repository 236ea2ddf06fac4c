"""How an answer leaves: `tap` as it comes, `gate` sentence by sentence, `hold` whole; `own_tools` answers the proxy's own tools on the
way."""

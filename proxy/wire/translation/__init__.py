"""Translation between the APIs: a request of one as a request of another, and its answer back.

What a client says is read into a form that is no API's own (`neutral`: turns, tools and settings), and written in the server's; its answer
is read as a row of pieces (`pieces`) and written in the client's, whole or event by event. So each API has one reader and one writer of
requests (`chat_requests`, `messages_requests`, `responses_requests`), whose fields are tables, and one of answers (`chat_answers`,
`messages_answers`, `responses_answers`). What the server's API has no form for is refused by the name of the client's field, never left
out in silence; what says nothing to the answer (a hint to a cache) is in the tables as left out. `translate` puts them together.
"""

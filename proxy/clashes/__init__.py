"""Statements that contradict earlier ones: found here, resolved here, without models, stores or waiting.

`statements` reads what a conversation states, `slots` which of it can hold one value only, `candidates` which pairs are worth judging,
`detection` what two statements are to each other once a verifier has been asked (`proxy.verification.clashes` asks it).
"""

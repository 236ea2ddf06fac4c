"""Statements that contradict earlier ones: found here, resolved here, without models, stores or waiting.

To find them: `statements` reads what a conversation states (with `cues`, `stance` and `records`), `slots` which of it can hold one value
only (by the words in `slot_cues` and `slot_words`, the places in `places`), `candidates` which pairs are worth judging, `questions` what is
asked of a verifier, `features` what its answers are worth, `wording` and `categories` what words alone tell, and `detection` what two
statements are to each other. `proxy.verification.clashes` asks the verifier. To resolve them: `resolution`, `merging`, `asking`, `replies`.
"""

"""Judging claims by evidence: what the stages that check answers and content share.

`grounder` finds the evidence for each claim, asks the verifier of this process and labels the claim (`labelling`). Over that stands the
judge that a policy names, and what it is asked in words (`questions`): who answers (`readouts`), when, for how much and what is remembered
(`judges`), and what its word changes (`reconsidering`). `decisions` answers other programs' questions with the same engine.
"""

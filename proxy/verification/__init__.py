"""Judging claims by evidence: what the stages that check answers share.

`grounder` finds the evidence for each claim, asks and labels. Whom it asks: which verifiers a policy names (`options`), an LLM as one
(`llm`), several as one (`combined`).
"""

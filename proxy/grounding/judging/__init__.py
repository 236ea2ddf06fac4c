"""Judging claims by evidence: what the stages that check answers and content share.

`grounder` finds the evidence for each claim, asks and labels (`deciding`). Whom it asks: which verifiers a policy names (`options`), an
LLM as one (`llm`, `asking`), several as one (`combined`), a model of an upstream where the first is unsure (`second_opinion`).
"""

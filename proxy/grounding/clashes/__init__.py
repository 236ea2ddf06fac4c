"""Statements that contradict each other: what texts state (`statements`), which two clash (`detecting`), and the words for it (`kinds`).

The one judge of clashes: the stage `clash`, the consistency of the stage `validation` and the libraries ask it.
"""

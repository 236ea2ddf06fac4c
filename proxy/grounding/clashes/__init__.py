"""Statements that contradict each other: what texts state (`reading`, `plain`), which values exclude each other (`values`), what two
statements are to each other (`deciding`), and who asks (`detector`); `kinds` has the types.

The one judge of clashes: the stage `clash`, the consistency of the stage `validation` and the libraries ask it.
"""

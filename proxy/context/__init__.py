"""The conversation as stages see it: its parts (`conversation`), passages, pieces that can be checked and taken out (`pieces`, `edits`),
what has left the prompt (`archive`, `compaction`, `summaries`), and the wording of context-faithful prompts (`faithful`). Used by several
stages.
"""

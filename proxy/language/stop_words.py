"""Words that say nothing of what a question is about, in English, German, Spanish and French; folded as `lexical.fold` does.

Read from ``stop_words.toml``. `FUNCTION_WORDS` are skipped when a question's words are looked for in a passage. The others tell thanks and
instructions ("translate that to German") from questions.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_LISTS = {name: frozenset(words.split()) for name, words in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()}
FUNCTION_WORDS = _LISTS["function_words"]
SUMMARY_FUNCTION_WORDS = _LISTS["summary_function_words"]
"""Left out where sentences are picked for a summary."""
CJK_FUNCTION_CHARACTERS = frozenset("的了是在和与及或吗呢吧啊哪里些什么谁多少几为何怎样如把被从到对也都而着过这那有个請请")
"""Chinese characters that mostly carry grammar; a pair of characters with one of them is not looked for."""
THANKS = _LISTS["thanks"]
"""A message of these and function words alone asks nothing of the passages; with a question mark, in mid-conversation, it may go on."""
INSTRUCTIONS = _LISTS["instructions"]
"""A message that holds one of these, and beside it only `INSTRUCTION_OBJECTS`, is about the text at hand, not about its subject."""
INSTRUCTION_OBJECTS = _LISTS["instruction_objects"]
POINTERS = _LISTS["pointers"]
"""Words by which a question points back at what was said before."""
OPENERS = _LISTS["openers"]
"""A question that starts with one of these goes on from the one before."""

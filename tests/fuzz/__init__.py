"""Fuzzing: what comes from outside, mutated, against what must hold whatever comes.

``python -m tests.fuzz --seconds 60`` mutates a kept corpus (``tests/data/fuzz``, a folder for each kind of input) and saves what breaks
an invariant, made small, into it. `test_corpus` replays the corpus in the ordinary test run, so that what was found once stays mended.
"""

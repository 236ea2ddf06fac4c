"""What an answer claims, what the evidence says to it, and how the two are brought together.

Pure functions and plain values, but for `judging` and `knowledge.checking`, which ask the verifier through the ports.
"""

"""What must not enter the context: false statements by their kind, hidden instructions, and what a policy makes of either.

`kinds` names what is false about a statement, `injection` finds instructions in what should be data, `decisions` turns both into a decision
for each piece of the context. Pure and synchronous; the stage `poisoning` asks, remembers and edits.
"""

"""What two statements are to each other: a clash, a change of mind, the same thing twice, or nothing.

`candidates` says which pairs are worth judging, `questions` what a verifier is asked, `features` what its answers are worth, `wording` what
words alone tell, `detection` decides, `certainty` says whether it may be acted on, and `judging` runs it all over many statements at once.
"""

"""How well passages go with a question: `question` finds what is asked, `lexical` and `scoring` compute a calibrated probability.

`coefficients` are what ``python -m training.relevance`` makes. Pure functions, used by the stages `relevance` and `validation`.
"""

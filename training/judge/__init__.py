"""Trains the judge of a statement by its evidence, in four languages: what is packed, the loop, its held-out figures.

``python -m training.judge pack``, then ``train`` as often as there is time for, then ``evaluate``; see `training.judge.__main__`. The
encoder, the evidence and the public sources are those of `training.grounding`.
"""

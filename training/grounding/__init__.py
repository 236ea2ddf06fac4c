"""Trains the built-in grounding verifier (`proxy.models.verifier.verifier`): data, start weights, encoder, loop, export.

``python -m training.grounding`` does all of it, from ``../shared/data/grounding`` to the int8 ONNX file and its model card; see
`training.grounding.__main__`.
"""

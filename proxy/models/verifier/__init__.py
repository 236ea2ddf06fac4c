"""(claim, evidence) -> calibrated support: the built-in cross-encoder (`onnx`), others by name, and the batching around them
(`verifier`)."""

"""The multilingual Universal Sentence Encoder 3 in numpy, twice as fast as its package, with vectors that depend on their text alone.

`encoder` is the door: `files` unpacks and maps the weights, `tokens` and `hashes` cut text into the vocabulary's pieces, `forward` is the
network, `rough` what of it finds candidates.
"""

from groundwire_encoder.encoder import EncoderUnavailable, SentenceEncoder

__all__ = ["EncoderUnavailable", "SentenceEncoder"]

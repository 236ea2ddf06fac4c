"""How well passages go with a question, as a calibrated probability; its coefficients are made by ``python -m training.relevance``."""

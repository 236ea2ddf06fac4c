"""Prompt tokens as the provider would count them: encodings, media, schemas, and the catalogue of models."""

"""Models and what they need: token counts, embeddings, grounding. Heavy libraries are imported here only, and lazily."""

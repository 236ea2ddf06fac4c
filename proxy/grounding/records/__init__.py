"""Structured evidence read as cells of rows and columns, and statements compared with them: exact, before any model."""

"""What an answer may rest on: texts, tables and JSON cut into pieces, and the pieces that speak of a claim."""

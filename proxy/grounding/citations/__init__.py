"""What an answer cites, whether a citation can be told apart from the others, and citation precision and recall."""

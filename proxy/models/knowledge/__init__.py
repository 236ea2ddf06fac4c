"""The index over a knowledge base's facts: built (`building`), searched by words and vectors (`index`), served (`bases`)."""

"""The index over a knowledge base's facts: built (`building`), kept (`files`), searched by words and vectors (`index`), served
(`bases`)."""

"""One file a revision, named REVISION_what.py; the four digits count up."""

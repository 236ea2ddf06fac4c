"""Which of many tools a task needs: an index over their descriptions, what calls taught, and the ranking (`ranker`)."""

"""What a conversation states, sentence by sentence: preferences, facts and constraints, and of which one person can hold only one."""

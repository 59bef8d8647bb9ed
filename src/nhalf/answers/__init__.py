"""Answers: the commands as Python functions, whose answers are small objects that show themselves."""

"""Old names on the new engine: a program changes one import line."""

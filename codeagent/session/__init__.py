"""Stored sessions: the folder, its log, and the conversation rebuilt from it."""

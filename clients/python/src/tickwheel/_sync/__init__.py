"""The client, for threads."""

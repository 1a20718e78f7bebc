"""The client, for coroutines."""

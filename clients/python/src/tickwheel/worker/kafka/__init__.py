"""A worker that consumes the topics of its callbacks, in place of polls."""

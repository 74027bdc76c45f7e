"""Readers and writers: every format to the common span model, and back. Knows nothing of backends or of the command."""

"""Sequential tests that several policies share."""

"""What a policy pays for what."""

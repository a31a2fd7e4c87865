"""Pictures of an episode."""

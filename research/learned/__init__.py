"""What reinforcement learning finds on the small game, against uniform sampling at the same error rate."""

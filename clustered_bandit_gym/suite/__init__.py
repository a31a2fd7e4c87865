"""A frozen benchmark: cells, scores, submissions that anyone can verify, and the leaderboard."""

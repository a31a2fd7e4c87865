"""A frozen benchmark: cells, scores, submissions that anyone can verify, and the leaderboard."""

from clustered_bandit_gym.suite.cells import SUITE_V1, SuiteCell

__all__ = ["SUITE_V1", "SuiteCell"]

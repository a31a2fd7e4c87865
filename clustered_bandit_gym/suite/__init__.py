"""A frozen benchmark: cells, scores, submissions that anyone can verify, and the leaderboard."""

from clustered_bandit_gym.suite.cells import SuiteCell, cells_of

__all__ = ["SuiteCell", "cells_of"]

"""The players: the paper's four schemes, baselines, and what goes past them."""

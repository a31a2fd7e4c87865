"""The game: instances, rewards, the federation of agents, its ledger and its judge."""

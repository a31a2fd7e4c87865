"""From rows to verdicts and scores."""

"""BAI-Cl's printed error budgets with another engine: `python -m research.counterexample`."""

"""What another value of a policy's tuning constant costs: `python -m research.constants`."""

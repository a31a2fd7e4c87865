"""Which policy for which problem: the grid behind docs/which-policy.md."""

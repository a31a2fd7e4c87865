"""The paper's claims beside what was measured: `python -m research.paper`, docs/results/claims.md."""

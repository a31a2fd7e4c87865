"""Studies behind the pages of docs/results: one folder per question, one command each.

    python -m research.paper           the paper's claims beside what was measured
    python -m research.rare            error probabilities too small to simulate
    python -m research.beyond          StructuredBAI and FrugalBAI beside the paper's schemes
    python -m research.counterexample  BAI-Cl's printed error budgets with another engine
    python -m research.constants       what a policy's tuning constant changes

Run them from the top of the repository. They are not part of the installed package.
"""

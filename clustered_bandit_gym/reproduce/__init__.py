"""The paper's experiments, and what the package adds to them."""

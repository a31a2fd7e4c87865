"""The paper's four schemes."""

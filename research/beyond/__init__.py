"""StructuredBAI and FrugalBAI beside the paper's schemes: `python -m research.beyond`."""

"""FrugalBAI."""

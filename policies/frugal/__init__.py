"""FrugalBAI: agents test on their own and send few bits."""

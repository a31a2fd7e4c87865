"""StructuredBAI."""

"""Instances built to provoke errors."""

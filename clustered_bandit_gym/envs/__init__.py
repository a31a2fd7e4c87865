"""Gymnasium interfaces to the game."""

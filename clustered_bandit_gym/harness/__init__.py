"""Plays trials, judges, stores and compares them: a trial is a row, and everything else works on
rows."""

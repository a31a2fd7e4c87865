"""Engines: best-arm subroutines that a scheme can run at an agent."""

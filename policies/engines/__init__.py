"""Best-arm searches that a scheme can run at one agent."""

"""Policies trained with reinforcement learning."""

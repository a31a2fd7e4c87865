"""What the paper claims, beside what was measured."""

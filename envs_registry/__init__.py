"""The catalogue of named environments."""


def register() -> None:
    """Register every environment of the catalogue with Gymnasium; safe to call again."""

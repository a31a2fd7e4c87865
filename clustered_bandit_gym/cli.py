"""The command line `clustered-bai`."""


def main() -> None:
    """Entry point."""
    raise SystemExit("clustered-bai: nothing here yet")

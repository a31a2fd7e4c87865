"""`python -m clustered_bandit_gym.cli`."""

from clustered_bandit_gym.cli import main

if __name__ == "__main__":
    main()

"""`Federation`: one play, with the channel between centre and agents.

What a local program returns is what is sent, and what is sent is billed: a policy cannot forget to
count.
"""

from __future__ import annotations

from clustered_bandit_gym.game.play import Play
from clustered_bandit_gym.game.view import Channel, FederationView


class Federation(Channel, Play):
    """A centre and N agents playing one instance.

    Args:
        instance: the truth; no public attribute leads back to it. None where nobody knows it: then
            `source` is required, `values` says which rewards occur, and the play has an answer but
            no judgement.
        problem: what the learner is told.
        seed: int, `SeedSequence` or None. Rewards and the policy's own randomness (`rng`) are
            separate streams.
        source: draws the rewards; by default a `Simulator` of the instance with the seed's stream
            of rewards.
        values: without an instance, the values that rewards can take; None where they are not
            finitely many.
        max_pulls: pulls beyond this raise `BudgetExceeded` before they are drawn.
        c_b, c_r, itemise: prices and detail of the ledger.

    Public: `problem`, `agents` (all ids), `rng`, `ledger`, `pulls`, `pulls_per_agent`,
    `pulls_by_phase`, `rounds` (exchanges between centre and agents), `answer` (the arms, after
    `stop`), `judgement` (likewise), `labels` (the clustering that the policy reported).

    This object holds all counts and belongs to the judge of the play. The harness gives a policy
    its `view()`.
    """

    @property
    def _play(self) -> Play:  # type: ignore[override]
        return self

    def view(self, strict: bool = False) -> FederationView:
        """What the harness gives to a policy: this play without its books."""
        return FederationView(self, strict)

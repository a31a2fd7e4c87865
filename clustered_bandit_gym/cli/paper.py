"""The verb `reproduce`: the paper's experiments."""

from __future__ import annotations

from pathlib import Path

from clustered_bandit_gym.cli.app import bar, command, few, say


@command("reproduce")
def reproduce(
    figures: list[str] | None = None,
    *,
    trials: int = 50,
    out: Path = Path("out/reproduce"),
    data: str | None = None,
    seed: int = 0,
    jobs: int = -1,
    quiet: bool = False,
) -> None:
    """Play the settings of the paper's figures and plot them. An interrupted run resumes."""
    from clustered_bandit_gym.reproduce import reproduce as run_reproduce

    played = run_reproduce(
        figures or ["all"],
        few(trials),
        out,
        seed=seed,
        n_jobs=jobs,
        data=data,
        progress=bar(quiet),
    )
    for name in played:
        say(f"Wrote {out / name}.png and {out / name}.csv")

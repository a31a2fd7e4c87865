"""Computes the yardsticks of suite v1 and prints its digest: ``python -m clustered_bandit_gym.suite.yardsticks``.

It writes v1.json. The digest belongs into `cells.DIGEST_V1`, by hand: v1 does not change. The bounds may be replaced by
tighter ones; then all scores are computed again from the rows.
"""

from __future__ import annotations

import json
from pathlib import Path

from clustered_bandit_gym.harness.play import play
from clustered_bandit_gym.suite.cells import SEED, SUITE_V1, SuiteCell, suite_digest


def yardstick(cell: SuiteCell) -> dict[str, float]:
    """The lower bound on the expected pulls of a δ-PC policy on the cell's instance, and the cost of `naive`."""
    row = play("naive", cell.setting().make(), SEED)
    if row["bound"] is None or row["outcome"] != "solved":
        raise RuntimeError(
            f"{cell.name} has no yardstick: bound {row['bound']}, naive {row['outcome']}"
        )
    # Six digits: the solver's last ones differ between platforms.
    return {"bound": float(f"{row['bound']:.6g}"), "cost": row["cost"]}


def main() -> None:
    lines = [f"{json.dumps(cell.name)}: {json.dumps(yardstick(cell))}" for cell in SUITE_V1]
    path = Path(__file__).with_name("v1.json")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"wrote {path.name}; digest {suite_digest(SUITE_V1)}")


if __name__ == "__main__":
    main()

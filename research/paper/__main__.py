"""Play the paper's figures and judge its claims; `claims.md` in --out has the result."""

from __future__ import annotations

from clustered_bandit_gym.reproduce.figures import FIGURES
from research.options import parser, run, shows_progress
from research.paper.page import claims_of, render_markdown, render_terminal
from research.paper.play import play_figures


def main(words: list[str] | None = None) -> None:
    options = parser(__doc__, trials=50, out="out/reproduce")
    options.add_argument("figures", nargs="*", default=["all"], help="fig1a, ..., or all")
    options.add_argument("--data", help="your copy of MovieLens-1M or Yelp; without: stand-ins")
    given = options.parse_args(words)
    played = play_figures(
        given.figures,
        given.trials,
        given.out,
        seed=given.seed,
        n_jobs=given.jobs,
        data=given.data,
        progress=shows_progress(given),
    )
    claims = claims_of(played)
    names = "all" if len(played) == len(FIGURES) else " ".join(played)
    command = f"python -m research.paper {names} --trials {given.trials}"
    path = given.out / "claims.md"
    path.write_text(render_markdown(played, claims, command, given.seed), encoding="utf-8")
    render_terminal(claims)
    print(f"figures, rows and claims.md are in {given.out}")


if __name__ == "__main__":
    run(main)

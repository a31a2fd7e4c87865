"""Arguments and options of the commands, each declared once, and how they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.seeds import root_seed
from clustered_bandit_gym.settings_text import parse_pairs, parse_value

DEFAULT_ENV = "ClusteredBAI-PaperSmall-v0"
#: The paper's schemes, in its order.
FOUR = ["naive", "cl-bai", "bai-cl", "bai-cl++"]
_ENVS_OWN = "the environment's"


class About(NamedTuple):
    """What `--help` says: the text, what None means where it is the default, the short flag."""

    help: str
    without: str = ""
    flag: str = ""


#: Parameters of the commands by name. "verb name" is for a parameter that differs in that verb.
PARAMETERS = {
    "address": About("Of a running Dask scheduler.", "a local one"),
    "algo": About("ppo or maskable-ppo."),
    "all_": About("Also trials of policies whose code has changed since."),
    "allow": About("Modules of your own whose policies and generators rows may name.", "none"),
    "audit delta": About("δ at which the policy is tested.", "0.1, or that of --game", "-d"),
    "audit max_pulls": About("Budget of a trial in pulls.", "1e12; 50,000 for a StepPolicy"),
    "audit trials": About("Most trials per cell.", "60/δ; 30/δ with --quick", "-t"),
    "authors": About("Who made the policy."),
    "backend": About("processes or dask.", "processes"),
    "bold_best": About("With --pivot: the best of each column in bold."),
    "bound": About("Compute the instances' lower bounds."),
    "ci": About("With --pivot: intervals after the means."),
    "columns": About("One table of these, e.g. policy,verdict,pulls_mean.", "two tables"),
    "data": About("Your copy of MovieLens-1M or Yelp.", "stand-ins"),
    "delta": About("δ.", _ENVS_OWN, "-d"),
    "env": About("An environment.", DEFAULT_ENV),
    "envs": About("Environments.", DEFAULT_ENV),
    "epsilon": About("Good enough: ε below the best arm."),
    "eta": About("η of the generator.", _ENVS_OWN),
    "export": About("Write all trials here (.csv or .parquet).", "no file"),
    "figures": About("fig1a, ...", "all"),
    "folder": About("Folder of kept trials, or of a submission."),
    "folders": About("Submissions; on a board all full or all quick."),
    "force": About("Overwrite an existing page."),
    "format_": About("text, markdown, latex, csv or json.", flag="-f"),
    "game": About("Play only a game that --search saved, at its δ.", "the suite"),
    "gaps": About("Least and largest gap.", "give --means"),
    "guarantee": About("proved (needs --link), claimed or none.", "the policy's"),
    "hide": About("What is not told: n_clusters, eta, eta1, support.", "nothing"),
    "highlight": About("Mark the submission of this name.", "none"),
    "jobs": About("Processes; -1 for one per core, -2 for one fewer, and so on.", flag="-j"),
    "json_": About("JSON instead of text."),
    "key": About("Name of this tell; the same name again is a repetition.", "no name"),
    "link": About("Paper, proof or repository."),
    "max_pulls": About("Budget of a trial; one that needs more is unfinished.", _ENVS_OWN),
    "max_pulls_per_agent": About("Limit of the pulls at each agent.", "no limit"),
    "max_seconds": About("Time limit of a trial; a longer one is unfinished.", "no limit"),
    "means": About("CSV, a line per cluster.", "give --gaps"),
    "n_agents": About("N.", _ENVS_OWN, "-n"),
    "n_envs": About("Sub-environments stepped at once."),
    "name": About("Name on the leaderboard.", "the policy's"),
    "out": About("Folder or file to write.", "nothing is kept", "-o"),
    "overwrite": About("Replace --out if it exists."),
    "panel": About("One panel: pulls, communication, busiest or tradeoff.", "two panels"),
    "pivot": About("Setting; with --format latex: pulls, a column per value.", "two tables"),
    "plot": About("Write a picture here (.png, .pdf, .svg).", "no picture"),
    "policy": About("A name, or module:Class, with settings after a colon.", flag="-p"),
    "policies": About("Names, or module:Class, with settings.", " ".join(FOUR), "-p"),
    "quick": About("A short run: a stated subset of cells and trials."),
    "quiet": About("No progress bar, fewer notes.", flag="-q"),
    "replay": About("Trials to play once more, chosen at random; 0 runs no policy."),
    "replays": About("Trials of each policy to play once more in a fresh process."),
    "save": About("With --search: where the worst game is saved."),
    "search": About("Search for a worse game for 90s, 10m or 1h of CPU time.", "no search"),
    "secret_seed": About("Play fresh instances of each family as well."),
    "seed": About("Root seed; for compare and audit also 'secret'.", flag="-s"),
    "set_": About("Any other keyword of the environment, KEY=VALUE; JSON for lists.", "none"),
    "steps": About("Environment steps in all."),
    "strict": About("Enforce that a policy learns nothing from agents but what they send."),
    "study": About("File of the study."),
    "study ask out": About("A .csv or .json file.", "the terminal", "-o"),
    "study new eta": About("η.", "not told"),
    "study new eta1": About("η1.", "not told"),
    "study new n_arms": About("K.", flag="-k"),
    "study new n_clusters": About("M.", "not told", "-m"),
    "study new sigma": About("σ.", "half the support's width, or 1"),
    "study plan n_arms": About("K, with --gaps.", "that of --means", "-k"),
    "study plan n_clusters": About("M, with --gaps.", "that of --means", "-m"),
    "study plan policies": About("Names of policies.", "a choice", "-p"),
    "study plan rewards": About("bernoulli or gaussian."),
    "study plan sigma": About("σ of gaussian rewards."),
    "study tell rewards": About("A .csv or .json file; - for stdin."),
    "style": About("paper: one panel in small type, no title.", "for a screen"),
    "suite board format_": About("html writes the page; json prints the order."),
    "suite verify seed": About("Of the choice of trials.", "random"),
    "support": About("Smallest and largest reward.", "that of --values"),
    "tensorboard": About("Folder of a TensorBoard log; needs tensorboard.", "no log"),
    "traceback": About("Show tracebacks: of a mistake, and of policies that raise."),
    "train set_": About("KEY=VALUE: of the training (pull_cost, ...) or the environment.", "none"),
    "trials": About("Trials of each policy and setting.", flag="-t"),
    "values": About("The values of rewards, e.g. 0 1.", "not told"),
    "width": About("Of the picture, in inches: 3.25 for a column.", "automatic"),
    "x": About("Swept setting along the axis of pictures.", "the one with most values"),
    "yes": About("Replay without asking first."),
}


def declared(verb: str, function: Callable[..., None]) -> inspect.Signature:
    """The signature of a verb's function, as typer reads it.

    Parameters before ``*`` are arguments, the others options. All have a `--traceback`.
    """
    found = dict(inspect.signature(function, eval_str=True).parameters)
    flag = inspect.Parameter.KEYWORD_ONLY
    found["traceback"] = inspect.Parameter("traceback", flag, default=False, annotation=bool)
    for name, parameter in found.items():
        about = PARAMETERS.get(f"{verb} {name}") or PARAMETERS[name]
        default = about.without if parameter.default is None else True
        shown: dict[str, Any] = {"help": about.help, "show_default": default}
        kind = typer.Argument(**shown)
        if parameter.kind is parameter.KEYWORD_ONLY:
            word = name.strip("_").replace("_", "-")
            both = f"/--no-{word}" if parameter.default is True else ""
            kind = typer.Option(*filter(None, [f"--{word}{both}", about.flag]), **shown)
        found[name] = parameter.replace(annotation=Annotated[parameter.annotation, kind])
    return inspect.Signature(list(found.values()))


class SpreadCommand(TyperCommand):
    """Lets an option that may be repeated take several values at once: ``--policies naive cl-bai
    --n-agents 10 30``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeated = [option for option in self.params if getattr(option, "multiple", False)]
        spread = {name for option in repeated for name in option.opts}
        result: list[str] = []
        flag = None
        for position, word in enumerate(args):
            if word == "--":
                result += args[position:]
                break
            if word.startswith("-") and isinstance(parse_value(word), str):
                flag = word if word in spread else None
            elif flag is not None and result[-1] != flag:
                result.append(flag)
            result.append(word)
        return super().parse_args(ctx, result)


def settings_of(given: dict[str, Any], pairs: list[str] | None) -> dict[str, Any]:
    """Keywords of the environment: those `given` by options of their own, and those of --set.

    Several values of one are a list, which a sweep varies.
    """
    found = {}
    for key, value in given.items():
        several = list(dict.fromkeys(value)) if isinstance(value, list) else [value]
        if value is not None:
            found[key] = several[0] if len(several) == 1 else several
    extra = parse_pairs(pairs or [], "--set")
    if twice := sorted(set(found) & set(extra)):
        raise UserError(f"{twice[0]} is given twice: by its own option and by --set; give it once")
    return found | extra


def default_env(settings: dict[str, Any]) -> str:
    """The environment of a command that names none and has these keywords."""
    own = "instance" in settings or "generator" in settings
    return "ClusteredBAI-v0" if own else DEFAULT_ENV


def seed_of(text: str) -> int:
    """The root seed that an option gives: a whole number, or "secret"."""
    return root_seed(int(text) if text.isdecimal() else text)


def check_format(name: str) -> None:
    """Refuse an unknown --format before anything is played."""
    if name not in ("text", "markdown", "latex", "csv", "json"):
        raise UserError(f"--format is text, markdown, latex, csv or json, not {name!r}")

"""MkDocs hooks: pages made from the package at build time, so that they cannot be out of date.

- ``reference/cli.md``: every verb of ``clustered-bai`` with its options;
- ``environments/``: one page per environment;
- ``tutorials/``: the notebooks as pages, with their outputs.
"""

from __future__ import annotations

import base64
import inspect
import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Settings that most generators share.
COMMON = {
    "n_agents": "number of agents N",
    "n_clusters": "number of clusters M",
    "n_arms": "number of arms K",
    "eta": "separation η of Assumption 1",
    "eta1": "separation η1 of Assumption 2",
    "gap": "distance from the best arm to the runner-up",
    "sizes": 'how agents fall into clusters: "equal", "uniform" or "power"',
    "alpha": 'exponent of sizes="power": cluster i has probability ∝ i^alpha',
    "rewards": '"gaussian", "bernoulli" or "categorical"',
    "sigma": "standard deviation of Gaussian rewards",
    "data": "path of your copy of the data",
    "min_ratings": "ratings that a movie needs in each of the six age groups; 31 gives the 316 movies of the paper",
}
#: A table with this many columns is wide. Letters of a cell that is not wrapped there, of a name or setting that is
#: wrapped nowhere, of a text, and of one that would be a column of single words in a narrow cell.
WIDE, SHORT, NAME, LONG, LONGEST = 5, 42, 24, 60, 120
TUTORIALS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the site."""
    from mkdocs.structure.files import File

    pages: dict[str, str | bytes] = {"reference/cli.md": cli_page(), **environment_pages()}
    for notebook in TUTORIALS:
        pages |= tutorial(notebook)
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in generated parts of the README: `<!-- readme NAME -->`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    def block(found: re.Match[str]) -> str:
        start, end = (f"<!-- {word} {found[1]} -->" for word in ("begin", "end"))
        return readme.partition(start)[2].partition(end)[0].strip()

    return re.sub(r"<!-- readme (\w+) -->", block, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """For the style sheet: mark the cells of tables by the length of their text, and words that keep their hyphens."""
    html = re.sub(r"<table>.*?</table>", lambda found: _marked(found[0]), html, flags=re.S)
    html = re.sub(r"<code>[^<]*--[^<]*</code>", lambda found: _unbroken(found[0]), html)
    return re.sub(
        r'<div class="language-bash.*?</div>', lambda found: _unbroken(found[0]), html, flags=re.S
    )


def _unbroken(code: str) -> str:
    """Options and names of a command are not broken at their hyphens."""
    return re.sub(
        r"(?<=[\s>])([^\s<>]*-[^\s<>]*)(?=[\s<])(?![^<]*>)", r'<span class="whole">\1</span>', code
    )


def _marked(table: str) -> str:
    columns = len(re.findall(r"<th\b", table.partition("</tr>")[0]))
    wide = columns >= WIDE

    def mark(found: re.Match[str]) -> str:
        size = len(re.sub(r"<[^>]*>|&#?\w+;", "", found[3]).strip())
        name = "<code" in found[3] and size <= NAME
        long = "longest" if size > LONGEST and columns > 3 else "long"
        kind = long if size > LONG else "short" if name or (wide and size <= SHORT) else ""
        return f'<{found[1]}{found[2]} class="{kind}">{found[3]}' if kind else found[0]

    return re.sub(
        r"<(t[dh])((?: (?!class)[\w-]+=\"[^\"]*\")*)>(.*?)(?=</\1>)", mark, table, flags=re.S
    )


# --- the command line ------------------------------------------------------------------------------------------------


def cli_page() -> str:
    """Every command with its description, arguments and options."""
    from typer.main import get_command

    from clustered_bandit_gym.cli import app

    parts = ["# Command line", "Every verb of `clustered-bai`, as `--help` describes it."]
    parts += _commands(get_command(app), "clustered-bai", 2)
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, path: str, level: int) -> list[str]:
    parts = []
    for name, command in group.commands.items():
        parts += [f"{'#' * level} `{path} {name}`", _plain(command.help or "")]
        if hasattr(command, "commands"):
            parts += _commands(command, f"{path} {name}", level + 1)
            continue
        rows = []
        kinds = inspect.signature(command.callback).parameters
        for parameter in command.params:
            if parameter.name in ("help", "traceback"):
                continue
            is_option = parameter.param_type_name == "option"
            flags = ", ".join(f"`{flag}`" for flag in [*parameter.opts, *parameter.secondary_opts])
            label = flags if is_option else f"`{parameter.metavar or str(parameter.name).upper()}`"
            meaning = _plain(getattr(parameter, "help", "") or "").replace("|", "&#124;")
            if choices := re.search(r"Literal\[(.*?)\]", str(kinds[parameter.name].annotation)):
                meaning += f" One of {choices[1].replace(chr(39), '`')}."
            rows.append(f"| {label} | {meaning} | {_default(parameter)} |")
        if rows:
            parts.append("\n".join(["| option | meaning | default |", "|---|---|---|", *rows]))
    return parts


def _default(parameter: Any) -> str:
    """What `--help` shows as the default."""
    if isinstance(parameter.show_default, str):
        return str(parameter.show_default)
    if parameter.required:
        return "required"
    if getattr(parameter, "is_flag", False):
        return "yes" if parameter.default else "no"
    return (
        ""
        if parameter.default in (None, "") or callable(parameter.default)
        else f"`{parameter.default}`"
    )


def _plain(text: str) -> str:
    """A docstring or help text as Markdown: options and examples as code."""
    text = inspect.cleandoc(text).replace("<", "&lt;")
    text, _, example = text.partition("Example: ")
    text = re.sub(
        r"(`[^`]*`)|(?<![\w-])(--[a-z][a-z-]*)", lambda found: found[1] or f"`{found[2]}`", text
    )
    return f"{text}\n```bash\n{example.strip()}\n```" if example else text


# --- environments ----------------------------------------------------------------------------------------------------


def environment_pages() -> dict[str, str]:
    """A page per environment and an index of them. Flat twins are described on the page of their environment."""
    from clustered_bandit_gym.envs_registry import CATALOGUE

    names = [name for name in CATALOGUE if "Discrete" not in name]
    pages = {f"environments/{_slug(name)}.md": environment_page(name, CATALOGUE) for name in names}
    rows = [f"| [{name}]({_slug(name)}.md) | {CATALOGUE[name].about} |" for name in names]
    pages["environments/index.md"] = "\n".join(
        [
            "# Environments",
            "",
            "One page per environment.",
            "",
            "| id | what it is |",
            "|---|---|",
            *rows,
            "",
        ]
    )
    return pages


def _slug(name: str) -> str:
    return name.removesuffix("-v0").lower()


def environment_page(name: str, catalogue: dict[str, Any]) -> str:
    """One environment in Gymnasium's form: description, spaces, settings, version history."""
    import gymnasium as gym

    from clustered_bandit_gym.generators import generator_class

    entry = catalogue[name]
    drawn_by = entry.kwargs.get("generator", "paper-small")
    generator = generator_class(drawn_by)
    parts = [f"# {name}", f"{entry.about}."]
    picture = ROOT / "docs" / "images" / "environments" / f"{_slug(name)}.gif"
    if picture.exists():
        parts.append(f"![An episode of {name}](../images/environments/{picture.name})")
    parts.append(
        f'```python\nimport gymnasium as gym\nimport clustered_bandit_gym\n\nenv = gym.make("{name}")\n```'
    )
    parts += ["## Description", _docstring(generator)]
    if (ROOT / "docs" / "data" / f"{drawn_by}.md").exists():
        parts.append(
            f"Source, licence and what is simplified: [the datasheet](../data/{drawn_by}.md)."
        )
    if not entry.needs_data:
        env = gym.make(name, disable_env_checker=True)
        core: Any = env.unwrapped
        n, k = core.n_agents, core.n_arms
        parts += [
            "## Spaces",
            f"With the default settings N = {n} agents and K = {k} arms.\n\n"
            "| space | what |\n|---|---|\n"
            f"| action | `OneOf((MultiDiscrete([{n}, {k}]), MultiDiscrete([{k}] * {n})))`: pull an arm at an agent, or "
            "stop with an arm for every agent |\n"
            f"| observation | `Dict(pulls=Box({n}, {k}), means=Box({n}, {k}))`: what the centre has seen |",
        ]
        told = core.problem_of(core.draw_instance(0)).to_dict()
        values = ", ".join(
            f"`{key}` = {_short(value)}"
            for key, value in told.items()
            if key not in ("n_agents", "n_arms")
        )
        parts += ["## What the learner is told", f"On the instance of seed 0: {values}."]
    else:
        parts.append(
            "Needs your own copy of the data: set `data=` or the variable `CLUSTERED_BANDIT_DATA`."
        )
    rows, meanings = [], {**COMMON, **_arguments(generator)}
    for field in fields(generator):  # type: ignore[arg-type]
        if field.init:
            default = entry.kwargs.get(
                field.name, None if field.default is MISSING else field.default
            )
            rows.append(f"| `{field.name}` | `{default!r}` | {meanings.get(field.name, '')} |")
    parts += [
        "## Settings",
        f"Settings of its generator, `{drawn_by}`, as keywords of `gym.make`:\n\n"
        + "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows]),
        "All environments also take `delta`, `told`, `sigma`, `max_pulls`, `instance_seed`, `pull_cost`, "
        "`error_penalty`, `c_b`, `c_r` and `render_mode`; see [ClusteredBAIEnv](../api/environments.md).",
        "## Rewards and episode end",
        "`-pull_cost` for a pull, `-error_penalty` times the number of wrong agents at the stop. The episode "
        "terminates at the stop and is truncated at `max_pulls`.",
    ]
    twin = name.replace("-v0", "-Discrete-v0")
    if twin in gym.registry:
        parts += [
            "## Flat twin",
            f"`{twin}` is the same game with the action space `Discrete(N * K + 1)`.",
        ]
    parts += ["## Version history", "* v0: first version"]
    return "\n\n".join(parts) + "\n"


def _docstring(generator: type) -> str:
    text = inspect.cleandoc(generator.__doc__ or "")
    return re.sub(r"\n\s*Args:.*", "", text, flags=re.S)


def _arguments(generator: type) -> dict[str, str]:
    """What the Args section of the generator's docstring says of each setting."""
    section = inspect.cleandoc(generator.__doc__ or "").partition("Args:\n")[2]
    found = re.findall(r"^    (\w[\w, ]*): (.*?)(?=^    \w|\Z)", section, re.S | re.M)
    return {
        name.strip(): " ".join(text.split()) for names, text in found for name in names.split(",")
    }


def _short(value: Any) -> str:
    return (
        "not told" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    )


# --- notebooks -------------------------------------------------------------------------------------------------------


def tutorial(path: Path) -> dict[str, str | bytes]:
    """A notebook as a page, with its pictures as files beside it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    stem = path.stem
    pages: dict[str, str | bytes] = {}
    parts = [f"*This page is the notebook `notebooks/{path.name}`.*"]
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(_relink(source))
            continue
        if not source.strip():
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            for kind in ("image/png", "image/gif"):
                if kind in data:
                    name = f"{stem}-{len(pages)}.{kind[6:]}"
                    pages[f"tutorials/{name}"] = base64.b64decode("".join(data[kind]))
                    parts.append(f"![Output of the cell above]({name})")
                    break
            else:
                if "text/html" in data:
                    parts.append(_html("".join(data["text/html"])))
                    continue
                text = "".join(output.get("text", data.get("text/plain", "")))
                if text.strip() and not text.startswith("<IPython"):
                    parts.append(f"```text\n{text.rstrip()}\n```")
    title = next((i for i, part in enumerate(parts) if part.startswith("# ")), None)
    if title is not None:  # the heading first
        parts.insert(0, parts.pop(title))
    pages[f"tutorials/{stem}.md"] = "\n\n".join(parts) + "\n"
    return pages


def _html(text: str) -> str:
    """A table of a notebook as one block of HTML, in the style of the site."""
    text = re.sub(r"<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r"(<table)[^>]*", r"\1", text)
    text = re.sub(r"<img(?![^>]*alt=)", '<img alt="Output of the cell above"', text)
    return f"<div>{' '.join(text.split())}</div>"


def _relink(text: str) -> str:
    """Links between notebooks and to the docs, as the site needs them."""
    text = re.sub(r"\]\((?:\./)?(\d\d_\w+)\.ipynb\)", r"](\1.md)", text)
    return re.sub(r"\]\(\.\./docs/([^)]+)\)", r"](../\1)", text)

"""What the site adds to the pages in docs/: the gallery with its pictures, the examples, the command line, the references.

mkdocs calls these hooks; nothing they make is kept in the repository. The gallery stays in out/gallery, as after `make gallery`.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
API = {
    "Simulate": [
        "carom.running.solve.solve",
        "carom.methods.stops.Stop",
        "carom.running.rollout.rollout",
        "carom.many.ensemble.ensemble",
        "carom.many.expectation.expectation",
        "carom.many.sweep.sweep",
        "carom.results.store.load",
        "carom.live.viewing.play",
        "carom.system.impact_map.impact_map",
        "carom.sliding_velocity",
        "carom.Convex",
        "carom.separations",
        "carom.rigid_velocity",
    ],
    "Systems": [
        "carom.System",
        "carom.LumpedSystem",
        "carom.Chain",
        "carom.Supports",
        "carom.Contact",
        "carom.Joint",
        "carom.Controller",
        "carom.drawing",
    ],
    "Spaces": ["carom.Euclidean", "carom.SO3", "carom.SE3", "carom.Product", "carom.Power"],
    "Methods": [
        "carom.methods.variational.collision.VariationalCollision",
        "carom.methods.variational.collision.Variational",
        "carom.methods.event_driven.EventDriven",
        "carom.MoreauJean",
        "carom.TimeDG",
        "carom.Hybrid",
        "carom.Adaptive",
    ],
    "Rules": [
        f"carom.methods.variational.rules.{r}"
        for r in ("Rule", "OwnRule", "Trapezoidal", "Midpoint", "Left", "Right", "Gamma", "Galerkin", "Composition")
    ],
    "Discrete action": ["carom.discrete_lagrangian", "carom.DiscreteLagrangian"],
    "Results": [
        "carom.results.solution.Solution",
        "carom.results.solution.Impacts",
        "carom.results.solution.Status",
        "carom.results.reactions",
        "carom.many.trajectories.Ensemble",
        "carom.diagnostics",
        "carom.diagnostics.measures",
        "carom.diagnostics.action",
        "carom.diagnostics.forms",
        "carom.diagnostics.fields",
        "carom.diagnostics.horizontal",
        "carom.diagnostics.chaos",
        "carom.diagnostics.periodic",
        "carom.diagnostics.sections",
        "carom.diagnostics.bifurcations",
    ],
    "Bodies": ["carom.bodies.world.World", "carom.bodies.run.WorldRun", "carom.bodies.shapes", "carom.bodies.motions"],
    "Models": ["carom.models.model.Model", "carom.models.world_model.WorldModel", "carom.models"],
    "Live": [
        "carom.live.viewing",
        "carom.live.cell.PlayCell",
        "carom.live.playground.Playground",
        "carom.live.world_ground.WorldGround",
        "carom.live.player.Player",
        "carom.live.sweep_page.SweepPage",
    ],
    "Errors": ["carom.errors"],
}


def on_config(config: Any) -> Any:
    """Theory pages, discoveries and examples enter the navigation by being there."""
    theory = [{_title(path.read_text()): f"theory/{path.name}"} for path in sorted((ROOT / "docs" / "theory").glob("*.md"))]
    examples = [{_title(_page(path)): f"examples/{path.stem}.md"} for path in _examples()]
    chapters = [
        {_title(path.read_text()): f"discoveries/{path.name}"} for path in sorted((ROOT / "docs" / "discoveries").glob("*.md"))
    ]
    more = [{"Reproduction": "reproduction.md"}] if (ROOT / "docs" / "reproduction.md").exists() else []
    reference = [
        {"Command line": "command-line.md"},
        {"Python": "api.md"},
        {"Notation": "notation.md"},
        {"Papers": "references.md"},
    ]
    config["nav"] += [{"Examples": examples}, {"Theory": theory}, *more, {"Discoveries": chapters}, {"Reference": reference}]
    return config


def on_files(files: Any, config: Any) -> Any:
    pages: dict[str, str | bytes] = {f"examples/{path.stem}.md": _page(path) for path in _examples()}
    pages["api.md"] = _api()
    pages["command-line.md"] = _command_line()
    pages["references.md"] = _references()
    pages["notation.md"] = (ROOT / "NOTATION.md").read_text()
    pages |= _gallery()
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert found is not None
    return found[1]


def _examples() -> list[Path]:
    return sorted((ROOT / "examples").glob("*.py"))


def _page(path: Path) -> str:
    """A script in cells as a page: text as it is, code in fences."""
    parts = []
    for cell in re.split(r"^# %%", path.read_text(), flags=re.MULTILINE)[1:]:
        kind, _, body = cell.partition("\n")
        text = re.sub(r"^# ?", "", body, flags=re.MULTILINE) if "[markdown]" in kind else f"```python\n{body.strip()}\n```\n"
        parts.append(text.strip())
    return "\n\n".join([*parts, f"The script is `examples/{path.name}`; editors and jupytext open it as a notebook."]) + "\n"


def _api() -> str:
    sections = [f"## {title}\n\n" + "\n\n".join(f"::: {name}" for name in names) for title, names in API.items()]
    return "# Python\n\nEverything public, with what its docstring says.\n\n" + "\n\n".join(sections) + "\n"


def _command_line() -> str:
    import typer

    from carom.cli.commands import app

    group: Any = typer.main.get_command(app)
    parts = ["# Command line\n\n`carom --help` and `carom COMMAND --help` tell the same in the terminal.\n"]
    for name, command in group.commands.items():
        options = [
            f"| `{' '.join(p.opts) if p.param_type_name == 'option' else p.name.upper()}` | {(p.help or '').replace('|', '∣')} |"
            for p in command.params
            if p.name != "help"
        ]
        parts.append(
            f"## carom {name}\n\n{command.help}\n\n| argument | |\n|---|---|\n"
            + "\n".join(options)
            + f"\n\n{command.epilog or ''}\n"
        )
    return "\n".join(parts)


def _references() -> str:
    lines = ["# Papers\n"]
    for key, body in re.findall(r"^@\w+\{(\w+),(.*?)^\}", (ROOT / "references.bib").read_text(), re.MULTILINE | re.DOTALL):
        field = {k.lower(): re.sub(r"[{}]", "", v) for k, v in re.findall(r"(\w+)\s*=\s*\{(.*)\}", body)}
        where = ", ".join(field[k] for k in ("journal", "booktitle", "publisher", "volume", "pages") if k in field)
        lines.append(f"- **[{key}]** {field.get('author', '')}: *{field.get('title', '')}*. {where} ({field.get('year', '')})")
    return "\n".join(lines).replace("--", "–") + "\n"


# -- the gallery ---------------------------------------------------------------------------------------------------------


def _gallery() -> dict[str, str | bytes]:
    """The pages of `carom gallery`, with their pictures; those that out/gallery has already are not made again."""
    import carom
    from carom.live.gallery import write_gallery

    folder, made, lines = ROOT / "out" / "gallery", {}, [GALLERY]
    for page, _ in write_gallery(folder, {**carom.models.ALL, **carom.models.SCENES}):
        made |= {f"gallery/{file}": (folder / file).read_bytes() for file in page.files}
        if page.name == next(iter(carom.models.SCENES)):
            lines.append("# Worlds of bodies\n\n`carom.models.SCENES`: bodies with shapes, as films.\n")
        about = f"{page.about[0].upper()}{page.about[1:]} ({page.told})"
        lines.append(f"## {page.name}\n\n{about}.\n\n[![{page.about}](gallery/{page.picture})](gallery/{page.name}.html)\n")
        lines.append(f"[Play with it](gallery/{page.name}.html), or on your machine: `carom play {page.name}`.\n")
    made["gallery/index.html"] = (folder / "index.html").read_bytes()
    made["gallery.md"] = "\n".join(lines)
    return made


GALLERY = """# Gallery

![A star falls on a floor, tumbles, and bounces on](star.gif) ![Dice, dominoes, Newton's cradle, a tippe top](scenes.gif)

Every ready-made model, run while this site was built. Each has a page to play with at a few values of its parameters: one file,
nothing to install, no network. [All of them on one page](gallery/index.html); `carom gallery` makes the same in a folder of yours.
"""

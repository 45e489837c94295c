"""What an experiment found, as files: NAME.json (every figure with its seed), NAME.md, and each plot as PNG and SVG."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorytree.errors import DamagedFile
from memorytree.lab import tables
from memorytree.lab.experiments.base import Claim, Experiment, Findings, Plan
from memorytree.lab.parts import whole
from memorytree.lab.results import Results, troubles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINE = ("cpu", "cores", "ram_gb", "system")
CLAIMS = ("claim", "by", "here", "figures")


def document(experiment: Experiment, plan: Plan, results: Results, findings: Findings, context: dict) -> dict[str, Any]:
    """All that was found, as plain data. Each run names its machine and versions by their number in `surroundings`."""
    surroundings = [_surroundings(result) for result in results.found.values()]
    distinct = [one for place, one in enumerate(surroundings) if one not in surroundings[:place]]
    return {
        "name": experiment.name,
        "title": experiment.title,
        "about": inspect.cleandoc(experiment.__doc__ or ""),
        "quick": plan.quick,
        "seeds": plan.seeds,
        "circumstances": _circumstances(results, context),
        "claims": [{**vars(claim), "verdict": claim.verdict} for claim in findings.claims],
        "tables": [table.to_json() for table in findings.tables],
        "pictures": [{"file": _file(experiment, picture.name), "caption": picture.caption} for picture in findings.pictures],
        "elsewhere": findings.elsewhere,
        "troubles": troubles(results),
        "surroundings": distinct,
        "runs": [
            {**part.identity(plan.quick), **_lean(result), "surroundings": distinct.index(its)}
            for (part, result), its in zip(results.found.items(), surroundings, strict=True)
        ],
    }


def _file(experiment: Experiment, picture: str) -> str:
    return f"{experiment.name}-{picture}" if picture else experiment.name


def _lean(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what is said elsewhere."""
    elsewhere = ("part", "peer", "dataset", "seed", "job", "options", "quick", "machine", "versions")
    return {name: value for name, value in result.items() if name not in elsewhere}


def _surroundings(result: Mapping[str, Any]) -> dict[str, Any]:
    """On what a part was measured, as far as it tells."""
    return {name: result[name] for name in ("machine", "versions") if name in result}


def _circumstances(results: Results, context: Mapping[str, Any]) -> dict[str, Any]:
    """When and on what all parts were measured; what they do not tell is as it is now."""
    dates = sorted({one["finished"][:10] for one in results.found.values() if "finished" in one}) or [context["date"]]
    machines: list[dict[str, Any]] = []
    versions: dict[str, dict[str, None]] = {}
    for one in results.found.values():
        if "machine" in one and one["machine"] not in machines:
            machines.append(one["machine"])
        for name, number in one.get("versions", {}).items():
            versions.setdefault(name, {})[number] = None
    told = {name: " and ".join(numbers) for name, numbers in versions.items()}
    here = {name: context[name] for name in MACHINE}
    return {
        "date": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        "machines": machines or [here],
        "versions": {**context["versions"], **told},
        "quick": context["quick"],
    }


def laid_out(value: Any, indent: int = 0, width: int = 160) -> str:
    """JSON that a person can read and a diff can show: what fits on a line stands on one.

    >>> print(laid_out({"one": [1, 2], "many": list(range(60))}, width=20)[:26])
    {
     "one": [1, 2],
     "many":
    """
    text = json.dumps(value, ensure_ascii=False)
    if len(text) + indent <= width or not isinstance(value, dict | list):
        return text
    start = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [f"{start}{json.dumps(name)}: {laid_out(one, indent + 1, width)}" for name, one in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(start + laid_out(one, indent + 1, width) for one in value) + "\n" + " " * indent + "]"


def reason_against(name: str, plan: Plan, results: Results, out: Path, replace: bool = False) -> str:
    """Why the files of an experiment should stay as they are, in a sentence; empty if they should be written.

    Args:
        name: of the experiment.
        plan: what the user asked for.
        results: what would be written.
        out: where.
        replace: whether files that tell of more may be replaced.
    """
    good = _good(results.found.values())
    if not good:
        return f"{name}: no run went well, so nothing is written about it."
    if replace:
        return ""
    try:
        standing = load(out, name)
    except DamagedFile:  # nothing is lost with it
        standing = None
    if standing is None or (standing.get("quick") and not plan.quick):
        return ""
    before = _good(standing["runs"])
    if before <= good:
        return ""
    path = out / f"{name}.json"
    own = sorted({run["peer"] for run in standing["runs"] if ":" in run.get("peer", "")} - set(plan.peers))
    theirs = f" (--peer {' --peer '.join(own)} among them)" if own else ""
    return (
        f"{path} tells of {before} good runs{theirs}, this is about {good}: it stays. "
        "To replace it, delete it or say --no-resume."
    )


def _good(runs: Iterable[Mapping[str, Any]]) -> int:
    return sum(run.get("status") == "ok" for run in runs)


def write(experiment: Experiment, plan: Plan, results: Results, context: dict, out: Path | None) -> dict[str, Any]:
    """Write all files of an experiment, unless there is nowhere to write them; returns what stands in its JSON."""
    findings = experiment.findings(plan, results)
    found = document(experiment, plan, results, findings, context)
    if out is None:
        return found
    out.mkdir(parents=True, exist_ok=True)
    for ending, text in (("json", laid_out(found) + "\n"), ("md", markdown(found))):
        with whole(out / f"{experiment.name}.{ending}") as draft:
            draft.write_text(text, encoding="utf8")
    for picture in findings.pictures:
        save(picture.figure, out / _file(experiment, picture.name))
    return found


def save(figure: Figure, path: Path) -> None:
    """Save a plot as PNG and SVG, without a date or chance numbers, so that equal plots are equal files."""
    from matplotlib import rc_context

    with whole(path.with_suffix(".png")) as draft:
        figure.savefig(draft, format="png", dpi=120)
    with whole(path.with_suffix(".svg")) as draft, rc_context({"svg.hashsalt": "memorytree"}):
        figure.savefig(draft, format="svg", metadata={"Date": None})


def load(out: Path, name: str) -> dict[str, Any] | None:
    """What stands in an experiment's JSON, or None where it was not run.

    Raises:
        DamagedFile: if it is not what `write` wrote.
    """
    path = out / f"{name}.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf8"))
        if not (isinstance(found, dict) and found.get("name") == name and "runs" in found):
            raise ValueError(f"it does not tell of {name}")
    except ValueError as error:
        remedy = f"delete it, and `memorytree lab run {name}` writes it again from finished parts"
        raise DamagedFile(f"{path} is not a whole document of the lab ({error}): {remedy}") from error
    return found


def claims_table(claims: list[dict[str, Any]]) -> tables.Table:
    """Claims and verdicts as a table."""
    shown = tables.Table("Claims", [tables.Column(title) for title in CLAIMS])
    for plain in claims:
        claim = Claim(plain["who"], plain["text"], plain["holds"], plain["why"], plain.get("partial", False))
        shown.add(claim.text, claim.who, claim.verdict, claim.why)
    return shown


def measured(context: dict[str, Any]) -> str:
    """When and on what something was measured, in a sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in context["versions"].items())
    machines = context.get("machines", [context])  # earlier documents know of one
    places = (f"{one['cpu']}, {one['cores']} cores, {one['ram_gb']} GB, {one['system']}" for one in machines)
    return f"Measured {context['date']} on {' and on '.join(places)}; {versions}."


def markdown(found: dict[str, Any]) -> str:
    """The document in Markdown."""
    parts = [f"# {found['title']}", found["about"], measured(found["circumstances"])]
    if found["quick"]:
        parts.append("**A quick run on made-up or shrunken data: it shows that everything works, and nothing else.**")
    if found["claims"]:
        parts.append(tables.markdown(claims_table(found["claims"])))
    parts += [tables.markdown(tables.Table.from_json(table)) for table in found["tables"]]
    parts += [f"![{picture['caption']}]({picture['file']}.png)\n\n*{picture['caption']}*" for picture in found["pictures"]]
    for title, sentences in (("Where something else is the better choice", "elsewhere"), ("Not measured", "troubles")):
        if found[sentences]:
            parts.append(f"### {title}\n\n" + "\n".join(f"- {sentence}" for sentence in found[sentences]))
    return "\n\n".join(parts) + "\n"

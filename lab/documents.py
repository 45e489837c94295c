"""The files of an experiment: NAME.json (every figure with its seed), NAME.md, and each plot as PNG and SVG."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import tables
from lab.cache import replace_file
from lab.experiments.base import Claim, Experiment, Findings, Plan
from lab.results import Results, problems
from memorytree.errors import DamagedFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINE = ("cpu", "cores", "ram_gb", "system")
QUICK_NOTE = "**A quick run on small synthetic data: it shows only that everything runs.**"
CLAIMS = ("claim", "by", "here", "figures")


def document(
    experiment: Experiment, plan: Plan, results: Results, findings: Findings, context: dict[str, Any]
) -> dict[str, Any]:
    """Return all findings as plain data. Each run refers to its machine and versions by their place in `surroundings`."""
    surroundings = [_machine_and_versions(result) for result in results.found.values()]
    distinct = [one for place, one in enumerate(surroundings) if one not in surroundings[:place]]
    return {
        "name": experiment.name,
        "title": experiment.title,
        "about": inspect.cleandoc(experiment.__doc__ or ""),
        "quick": plan.quick,
        "seeds": plan.seeds,
        "circumstances": _circumstances(results, context),
        "claims": [claim.to_json() for claim in findings.claims],
        "tables": [table.to_json() for table in findings.tables],
        "pictures": [{"file": _file(experiment, picture.name), "caption": picture.caption} for picture in findings.pictures],
        "elsewhere": findings.alternatives,
        "troubles": problems(results),
        "surroundings": distinct,
        "runs": [
            {**part.identity(plan.quick), **_own_fields(result), "surroundings": distinct.index(its)}
            for (part, result), its in zip(results.found.items(), surroundings, strict=True)
        ],
    }


def _file(experiment: Experiment, picture: str) -> str:
    return f"{experiment.name}-{picture}" if picture else experiment.name


def _own_fields(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without the fields that the document stores in other places."""
    stored = ("part", "peer", "dataset", "seed", "job", "options", "quick", "machine", "versions")
    return {name: value for name, value in result.items() if name not in stored}


def _machine_and_versions(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine and versions of a result, if it has them."""
    return {name: result[name] for name in ("machine", "versions") if name in result}


def _circumstances(results: Results, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return dates, machines and versions of all results; what they do not have is taken from `context`."""
    dates = sorted({one["finished"][:10] for one in results.found.values() if "finished" in one}) or [context["date"]]
    machines: list[dict[str, Any]] = []
    versions: dict[str, dict[str, None]] = {}
    for one in results.found.values():
        if "machine" in one and one["machine"] not in machines:
            machines.append(one["machine"])
        for name, number in one.get("versions", {}).items():
            versions.setdefault(name, {})[number] = None
    merged = {name: " and ".join(numbers) for name, numbers in versions.items()}
    here = {name: context[name] for name in MACHINE}
    return {
        "date": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        "machines": machines or [here],
        "versions": {**context["versions"], **merged},
        "quick": context["quick"],
    }


def format_json(value: Any, indent: int = 0, width: int = 160) -> str:
    """Return JSON with short values on one line each, so that it is readable and a diff is small.

    >>> print(format_json({"one": [1, 2], "many": list(range(60))}, width=20)[:26])
    {
     "one": [1, 2],
     "many":
    """
    text = json.dumps(value, ensure_ascii=False)
    if len(text) + indent <= width or not isinstance(value, dict | list):
        return text
    start = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [f"{start}{json.dumps(name)}: {format_json(one, indent + 1, width)}" for name, one in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(start + format_json(one, indent + 1, width) for one in value) + "\n" + " " * indent + "]"


def reason_to_keep(name: str, plan: Plan, results: Results, out: Path, replace: bool = False) -> str:
    """Return a sentence that says why the files of an experiment are not replaced; empty if they are to be written.

    Args:
        name: of the experiment.
        plan: the options of the run.
        results: what would be written.
        out: the folder of the files.
        replace: whether files with more successful runs may be replaced.
    """
    good = _good(results.found.values())
    if not good:
        return f"{name}: no run succeeded, so nothing is written."
    if replace:
        return ""
    try:
        standing = load(out, name)
    except DamagedFile:  # a damaged file may be replaced
        standing = None
    if standing is None or (standing.get("quick") and not plan.quick):
        return ""
    before = _good(standing["runs"])
    if before <= good:
        return ""
    path = out / f"{name}.json"
    own = sorted({run["peer"] for run in standing["runs"] if ":" in run.get("peer", "")} - set(plan.baselines))
    theirs = f" (--baseline {' --baseline '.join(own)} among them)" if own else ""
    return (
        f"{path} has {before} successful runs{theirs}, this run has {good}: the file is kept. "
        "To replace it, delete it or use --no-resume."
    )


def _good(runs: Iterable[Mapping[str, Any]]) -> int:
    return sum(run.get("status") == "ok" for run in runs)


def write(experiment: Experiment, plan: Plan, results: Results, context: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """Write all files of an experiment to `out`, if it is given; return the content of its JSON file."""
    findings = experiment.findings(plan, results)
    found = document(experiment, plan, results, findings, context)
    if out is None:
        return found
    out.mkdir(parents=True, exist_ok=True)
    for ending, text in (("json", format_json(found) + "\n"), ("md", markdown(found))):
        with replace_file(out / f"{experiment.name}.{ending}") as draft:
            draft.write_text(text, encoding="utf8")
    for picture in findings.pictures:
        save(picture.figure, out / _file(experiment, picture.name))
    return found


def save(figure: Figure, path: Path) -> None:
    """Save a plot as PNG and SVG, without a date or random ids, so that equal plots give equal files."""
    from matplotlib import rc_context

    with replace_file(path.with_suffix(".png")) as draft:
        figure.savefig(draft, format="png", dpi=120)
    with replace_file(path.with_suffix(".svg")) as draft, rc_context({"svg.hashsalt": "memorytree"}):
        figure.savefig(draft, format="svg", metadata={"Date": None})


def load(out: Path, name: str) -> dict[str, Any] | None:
    """Return the content of an experiment's JSON file, or None if there is no file.

    Raises:
        DamagedFile: if `write` did not write it.
    """
    path = out / f"{name}.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf8"))
        if not (isinstance(found, dict) and found.get("name") == name and "runs" in found):
            raise ValueError(f"it is not about {name}")
    except ValueError as error:
        remedy = f"delete it, and `./mt lab run {name}` writes it again from cached parts"
        raise DamagedFile(f"{path} is not a whole document of the lab ({error}): {remedy}") from error
    return found


def claims_table(claims: list[dict[str, Any]]) -> tables.Table:
    """Return claims and verdicts as a table."""
    shown = tables.Table("Claims", [tables.Column(title) for title in CLAIMS])
    for plain in claims:
        claim = Claim.from_json(plain)
        shown.add(claim.text, claim.source, claim.verdict, claim.why)
    return shown


def measured_line(context: Mapping[str, Any]) -> str:
    """Return a sentence with date, machines and versions; `context` is that of a document or of `measurement_context`."""
    versions = ", ".join(f"{name} {number}" for name, number in context["versions"].items())
    machines = context.get("machines", [context])
    places = (f"{one['cpu']}, {one['cores']} cores, {one['ram_gb']} GB, {one['system']}" for one in machines)
    return f"Measured {context['date']} on {' and on '.join(places)}; {versions}."


def markdown(found: dict[str, Any]) -> str:
    """Return the document in Markdown."""
    parts = [f"# {found['title']}", found["about"], measured_line(found["circumstances"])]
    if found["quick"]:
        parts.append(QUICK_NOTE)
    if found["claims"]:
        parts.append(tables.markdown(claims_table(found["claims"])))
    parts += [tables.markdown(tables.Table.from_json(table)) for table in found["tables"]]
    parts += [f"![{picture['caption']}]({picture['file']}.png)\n\n*{picture['caption']}*" for picture in found["pictures"]]
    for title, sentences in (("Where something else is the better choice", "elsewhere"), ("Not measured", "troubles")):
        if found[sentences]:
            parts.append(f"### {title}\n\n" + "\n".join(f"- {sentence}" for sentence in found[sentences]))
    return "\n\n".join(parts) + "\n"

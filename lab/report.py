"""One HTML page with all results of the lab: no scripts, no network access, embedded images."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab import documents, tables
from lab.cache import replace_file
from lab.experiments import EXPERIMENTS

TITLE = "Contextual Memory Trees: the paper's claims, measured"
COLOURS = {True: "yes", False: "no", None: "none"}  # of verdicts: classes of the style below
STYLE = """
:root { color-scheme: light; --ink: #1b1b1b; --soft: #666; --line: #ddd; --blue: #0072B2; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: #fff; margin: 0 auto; max-width: 62rem;
       padding: 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 3rem; border-top: 2px solid var(--ink); padding-top: .6rem; }
nav ol { columns: 2; padding-left: 1.2rem; } a { color: var(--blue); }
.wide { overflow-x: auto; margin: 1.4rem 0 .3rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
td, th[scope=row] { white-space: nowrap; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
th[scope=row], thead th:first-child { text-align: left; font-weight: 400; }
tbody tr:hover { background: #f4f7fa; }
td.none, .note, figcaption, footer, .where { color: var(--soft); } .note, .where { font-size: .85rem; }
.claims td, .claims th { text-align: left; vertical-align: top; white-space: normal; }
.claims th[scope=row] { min-width: 18rem; } .claims th.group { padding-top: .8rem; }
.claims .yes, .claims .no, .claims .none { white-space: nowrap; }
.yes, .no { font-weight: 600; } .yes { color: #00664b; } .no { color: #b34700; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; } figcaption { font-size: .9rem; }
"""


def page(found: Mapping[str, dict[str, Any] | None], out: Path) -> str:
    """Return the page.

    Args:
        found: the document of each experiment by its name; None for an experiment that was not run.
        out: the folder of the plots.
    """
    titles = {name: experiment.title for name, experiment in EXPERIMENTS.items()}
    contents = "".join(f'<li><a href="#{name}">{html.escape(title)}</a></li>' for name, title in titles.items())
    sections = "\n".join(_section(name, titles[name], found.get(name), out) for name in titles)
    present = {name: one for name, one in found.items() if one is not None}
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{html.escape(TITLE)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{html.escape(TITLE)}</h1>
<p>Every table and figure of <em>Contextual Memory Trees</em> (Sun, Beygelzimer, Daumé III, Langford, Mineiro, ICML 2019),
measured beside the systems that it names. The paper’s data are not public in the form it used; each of our sets takes the
place of one of them, and columns headed “paper” give the published figures for that one. So compare orders of magnitude,
not digits.</p>
<nav><ol><li><a href="#claims">What holds, and what does not</a></li><li><a href="#elsewhere">Where something else is the
better choice</a></li>{contents}<li><a href="#circumstances">Machine, versions, seeds</a></li></ol></nav>
<h2 id="claims">What holds, and what does not</h2>
{_all_claims(present)}
<h2 id="elsewhere">Where something else is the better choice</h2>
{_sentences([sentence for one in present.values() for sentence in one["elsewhere"]])}
{sections}
<h2 id="circumstances">Machine, versions, seeds</h2>
{_circumstances(present)}
<footer><p>Made by <code>./mt lab report</code>. Times are CPU times of one thread in a process of its own.
Apache-2.0.</p></footer>
</body>
</html>
"""


def _section(name: str, title: str, found: dict[str, Any] | None, out: Path) -> str:
    head = f'<h2 id="{name}">{html.escape(title)}</h2>'
    if found is None:
        return f'{head}\n<p class="none">Not run; the command is <code>./mt lab run {name}</code>.</p>'
    quick = f"<p><strong>{documents.QUICK_NOTE.strip('*')}</strong></p>"
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in found["about"].split("\n\n"))
    shown = [head, quick if found["quick"] else "", paragraphs, _claims(found["claims"])]
    shown += [tables.to_html(tables.Table.from_json(table)) for table in found["tables"]]
    shown += [_picture(picture, out) for picture in found["pictures"]]
    if found["troubles"]:
        shown += ["<h3>Not measured</h3>", _sentences(found["troubles"])]
    return "\n".join(shown)


def _picture(picture: dict[str, str], out: Path) -> str:
    """Return a plot as an embedded image."""
    caption = html.escape(picture["caption"])
    path = out / f"{picture['file']}.png"
    if not path.exists():
        return f'<p class="none">{html.escape(path.name)} is not there: {caption}</p>'
    inside = base64.b64encode(_reduce_colours(path)).decode("ascii")
    return f'<figure><img src="data:image/png;base64,{inside}" alt="{caption}"/><figcaption>{caption}</figcaption></figure>'


def _reduce_colours(path: Path) -> bytes:
    """Return a plot with 64 colours, which takes a third of the bytes and looks the same."""
    from PIL import Image  # comes with matplotlib

    small = io.BytesIO()
    with Image.open(path) as plot:
        plot.convert("RGB").quantize(64).save(small, "PNG", optimize=True)
    return small.getvalue()


def _all_claims(present: Mapping[str, dict[str, Any]]) -> str:
    """Return all claims with their verdicts, by experiment, without the figures."""
    rows = []
    for name, one in present.items():
        rows.append(f'<tr><th class="group" colspan="3"><a href="#{name}">{html.escape(one["title"])}</a></th></tr>')
        rows += [f"<tr>{_claim(claim)}</tr>" for claim in one["claims"]]
    return _claims_table(documents.CLAIMS[:3], rows) if rows else _sentences([])


def _claims(claims: list[dict[str, Any]]) -> str:
    """Return the claims of an experiment with the figures."""
    rows = [f"<tr>{_claim(claim)}<td>{html.escape(claim['why'])}</td></tr>" for claim in claims]
    return _claims_table(documents.CLAIMS, rows)


def _claim(claim: dict[str, Any]) -> str:
    return (
        f'<th scope="row">{html.escape(claim["text"])}</th><td>{html.escape(claim["who"])}</td>'
        f'<td class="{COLOURS[claim["holds"]]}">{claim["verdict"]}</td>'
    )


def _claims_table(heads: Sequence[str], rows: list[str]) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    body = "\n".join(rows)
    return f'<div class="wide"><table class="claims"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _sentences(sentences: list[str]) -> str:
    if not sentences:
        return '<p class="none">Nothing to report.</p>'
    return "<ul>" + "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def _circumstances(present: Mapping[str, dict[str, Any]]) -> str:
    if not present:
        return '<p class="none">Nothing was run yet.</p>'

    def paragraph(one: dict[str, Any]) -> str:
        text = f"{documents.measured_line(one['circumstances'])} {_seeds(one['runs'])}"
        return f'<p class="where"><strong>{html.escape(one["title"])}.</strong> {html.escape(text)}</p>'

    return "\n".join(map(paragraph, present.values()))


def _seeds(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the seeds of the successful runs in a sentence.

    >>> _seeds([{"seed": seed, "status": "ok"} for seed in (0, 1, 2, 0)])
    'Seeds: 0 to 2, one for systems of linear time.'
    >>> _seeds([{"seed": 0, "status": "ok"}, {"seed": 1, "status": "failed"}])
    'Seed: 0.'
    """
    seeds = sorted({run["seed"] for run in runs if run["status"] == "ok"})
    if len(seeds) < 2:
        return f"Seed: {seeds[0]}." if seeds else "No run succeeded."
    consecutive = seeds == list(range(seeds[0], seeds[-1] + 1))
    text = f"{seeds[0]} to {seeds[-1]}" if consecutive else ", ".join(map(str, seeds))
    return f"Seeds: {text}, one for systems of linear time."


def write(out: Path) -> Path:
    """Build the page from the documents in a folder; return its path."""
    found = {name: documents.load(out, name) for name in EXPERIMENTS}
    out.mkdir(parents=True, exist_ok=True)
    path = out / "report.html"
    with replace_file(path) as draft:
        draft.write_text(page(found, out), encoding="utf8")
    return path

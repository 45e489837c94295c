"""Growth of time, depth and space with the number of memories, beside the curve of the paper's theorem."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, log2

from lab import plots
from lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from lab.experiments.claims import format_figure
from lab.experiments.fitting import exponent
from lab.parts import Part, options
from lab.results import Results
from lab.tables import Column, Table

JOB = "lab.trials.growth:grow"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
ROUTINGS = {"paper": "the paper's routing", "principal": "principal routing"}
BASELINES = {"paper": "cmt-u", "principal": "ours"}
BALANCE = 0.9  # the paper's alpha
MILLION = 1_000_000
LOGARITHMIC = 0.3  # exponents below this are far from linear growth


class Growth(Experiment):
    """One tree from a thousand to a million memories: time, depth and bytes.

    Keys have 128 dimensions and lie in Gaussian clusters of about a hundred; queries are fresh rows of the same clusters,
    one leaf, one of a batch on one thread. Every size is a process of its own. An insertion is the mean over the stream. The
    theorem: if every router sends at least 1/K of its memories to either side, a query takes O((K + c) log n). Its
    curve for time is a constant times log n through the first measurement; for depth it is K ln n with the K that the
    theorem gives for alpha = 0.9 and the measured progressive error of the routers.
    """

    name = "growth"
    title = "Growth"

    def parts(self, plan: Plan) -> Sequence[Part]:
        """Return every size for each routing, small sizes first."""
        sizes = (500, 4_000) if plan.quick else SIZES
        asked = 1_000 if plan.quick else 10_000
        return [
            Part(
                BASELINES[routing],
                "clusters",
                seed,
                JOB,
                options(n=n, routing=routing, asked=asked),
                slow=n > 300_000 and seed > 0,
            )
            for n in sizes
            for routing in ROUTINGS
            for seed in plan.over(linear=False)
        ]

    def findings(self, plan: Plan, results: Results) -> Findings:
        """Return a table for each routing, the plots, and whether time is logarithmic."""
        found = Findings([_table(results, routing) for routing in ROUTINGS])
        found.pictures = [_picture(results)]
        found.claims = [claim for routing in ROUTINGS for claim in _claims(results, routing)]
        return found


def _sizes(results: Results, routing: str) -> list[int]:
    return sorted({dict(part.options)["n"] for part in results.found if dict(part.options)["routing"] == routing})


def bound(router_error: float, balance: float = BALANCE) -> float:
    """Return the theorem's K for a large number of memories: every router sends at least 1/K of them to either side.

    >>> round(bound(0.5), 1)  # the paper's example
    4.2
    """
    return (1 + exp((1 - balance) / balance)) / (1 - router_error)


def _table(results: Results, routing: str) -> Table:
    heads = [
        Column("memories"), Column("seeds"), Column("µs a query"), Column("µs an insertion"), Column("mean depth"),
        Column("depth"), Column("leaf limit"), Column("theorem: K ln n"), Column("bytes a memory"),
        Column("of these beyond the key"), Column("peak MB of the process"),
    ]  # fmt: skip
    table = Table(f"{ROUTINGS[routing][0].upper()}{ROUTINGS[routing][1:]}, 128 dimensions", heads)
    for n in _sizes(results, routing):
        wanted = {"n": n, "routing": routing}
        wrong = results.mean("router_error", **wanted)
        table.add(
            f"{n:,}",
            results.runs(**wanted),
            results.least("query_us", **wanted),
            results.least("insert_us", **wanted),
            *(results.cell(figure, **wanted) for figure in ("average_depth", "depth", "leaf_limit")),
            "–" if wrong is None else format_figure(bound(wrong) * log(n)),
            *(results.cell(figure, **wanted) for figure in ("bytes", "beyond_key")),
            results.cell("peak_bytes", **wanted).times(2**-20),
        )
    return table


def _points(results: Results, routing: str, figure: str) -> list[tuple[float, ...]]:
    cell = results.least if figure.endswith("_us") else results.cell
    found = [(n, cell(figure, n=n, routing=routing)) for n in _sizes(results, routing)]
    return [(float(n), cell.value, cell.sd or 0.0) for n, cell in found if cell.value is not None]


def _deepest(results: Results) -> list[tuple[float, ...]]:
    """Return the theorem's bound on depth for the paper's routing, from the measured errors of its routers."""
    return [(n, bound(wrong) * log(n)) for n, wrong, *_ in _points(results, "paper", "router_error")]


def _picture(results: Results) -> Picture:
    panels = []
    for figure, title, unit in (
        ("query_us", "a query, one leaf", "CPU µs"),
        ("insert_us", "an insertion", "CPU µs"),
        ("average_depth", "mean depth of a memory", "steps from the root"),
        ("bytes", "space", "bytes a memory"),
    ):
        panel = plots.Panel(title, "memories", unit, logx=True, from_zero=True)
        for routing, style in BASELINES.items():
            points = _points(results, routing, figure)
            panel.lines.append(plots.Line(ROUTINGS[routing], points, style))
            if points and figure.endswith("_us"):
                (first, start, *_), last = points[0], points[-1][0]
                curve = [(first, start), (last, start * log(last) / log(first))]
                panel.lines.append(plots.Line("theorem: a constant times log n", curve, style, bare=True))
        if figure == "average_depth":
            panel.lines.append(plots.Line("theorem: at most K ln n", _deepest(results), "cmt-u", bare=True))
        panels.append(panel)
    caption = (
        "From a thousand to a million memories depth grows by a constant with every doubling, as in the theorem; time "
        "grows faster than its dotted curve once the keys no longer fit into the processor's caches."
    )
    return Picture("", caption, plots.lines(panels, columns=2))


def _claims(results: Results, routing: str) -> list[Claim]:
    source = "paper" if routing == "paper" else "ours"
    times, depths = _points(results, routing, "query_us"), _points(results, routing, "average_depth")
    timely = f"With {ROUTINGS[routing]}, the time of a query grows about as log n: with an exponent under {LOGARITHMIC}."
    even = f"With {ROUTINGS[routing]}, depth is logarithmic: at most 1.5 log2 n on average."
    if len(times) < 2:
        return [Claim(source, text, None, "Not measured.") for text in (timely, even)]
    power, ideal = exponent(times), exponent([(n, log(n)) for n, *_ in times])
    figures = (
        f"Exponent {power:.2f}, that of log n itself is {ideal:.2f} here: {_span(times, 'µs')}. The numbers of "
        "steps and candidates follow the theorem, but each costs more once the keys exceed the caches."
    )
    worst = max(depth / log2(n) for n, depth, *_ in depths)
    claims = [
        Claim(source, timely, power < LOGARITHMIC, figures),
        Claim(source, even, worst <= 1.5, f"At most {worst:.2f} times log2 n: {_span(depths, 'steps')}."),
    ]
    return claims + (_targets(results) if routing == "principal" else [])


def _span(points: Sequence[tuple[float, ...]], unit: str) -> str:
    """Return the first and the last point as text."""
    (first, low, *_), (last, high, *_) = points[0], points[-1]
    return f"{format_figure(low)} {unit} at {first:,.0f} memories, {format_figure(high)} {unit} at {last:,.0f}"


def _targets(results: Results) -> list[Claim]:
    """Return our targets for principal routing."""
    limits = {n: limit for n, limit, *_ in _points(results, "principal", "leaf_limit")}
    over = max(depth - log2(n / limits[n]) for n, depth, *_ in _points(results, "principal", "average_depth"))
    deep = "With principal routing, average depth is at most 1.3 above log2(n / leaf limit), a perfectly even tree's."
    claims = [Claim("ours", deep, over <= 1.3, f"At most {over:.2f} above.")]
    most = {"n": MILLION, "routing": "principal"}
    us, peak = results.least("query_us", **most).value, results.mean("peak_bytes", **most)
    if us is not None and peak is not None:
        megabytes = peak / 2**20
        figures = f"{format_figure(us)} µs and {megabytes:,.0f} MB."
        text = "Among a million memories a query at one leaf takes at most 6 µs, and the process at most 2 GB."
        claims.append(Claim("ours", text, us <= 6 and megabytes <= 2048, figures))
    return claims

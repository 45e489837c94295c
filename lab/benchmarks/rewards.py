"""Learning from rewards only: `MemoryTreeClassifier(supervision="reward")`, and two controls.

For each memory that a query returned, the classifier receives whether its label was right, never the right label; it
predicts the label of the best memory. Controls, from the same seeds: "shuffled" permutes the rewards of every query among
its memories, so that they are as many but carry no information; "none" gives no rewards (supervision="none"). Differences
are taken seed by seed. Fixed splits, 2,000 test rows, CPU time on one thread.
"""

from statistics import mean

from lab import process
from lab.benchmarks.report import Job, Report, spread
from lab.tables import Table

GOALS = {"omniglot-15": 0.50, "clinc150": 0.13, "wikipara-3": 0.54}
KINDS: dict[str, dict] = {
    "rewards": {"supervision": "reward"},
    "shuffled": {"supervision": "reward", "shuffled": True},
    "none": {"supervision": "none"},
}


def run(job: Job) -> Report:
    """Run the benchmark."""
    seeds = job.seeds()
    report = Report("Learning from rewards only", __doc__)
    columns = ["data set", "rewards", "error", "± over seeds", "less with rewards", "± over seeds", "query µs", "fit CPU s"]
    table = Table(f"Rewards and controls, {len(seeds)} seeds", columns)
    job.step("starting", len(GOALS) * len(KINDS) * len(seeds))
    for name, goal in GOALS.items():
        train, labels, test, answers = job.load(name).arrays
        runs = report.runs[name] = {kind: [] for kind in KINDS}
        with process.SharedArrays(train=train, labels=labels, test=test, answers=answers) as folder:
            for seed in seeds:
                for kind, options in KINDS.items():
                    job.step(f"{name}, seed {seed}, {kind}")
                    spec = {"folder": folder, "seed": seed, "repeats": 3, **options}
                    found = process.call("lab.benchmarks.measures:measure_classifier", spec)
                    runs[kind].append({figure: found[figure] for figure in ("error", "query_us", "fit_s")})
        errors = {kind: [one["error"] for one in found] for kind, found in runs.items()}
        for kind, found in runs.items():
            gains = [other - own for own, other in zip(errors["rewards"], errors[kind], strict=True)]
            gain = [None, None] if kind == "rewards" else [mean(gains), spread(gains)]
            times = [min(one[figure] for one in found) for figure in ("query_us", "fit_s")]
            table.add(name, kind, mean(errors[kind]), spread(errors[kind]), *gain, *times)
        report.at_most(f"{name}: error, rewards only", goal, mean(errors["rewards"]))
    report.tables.append(table)
    return report

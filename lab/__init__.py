"""The lab: data sets, baselines, and experiments that test the paper's claims; `./mt lab`. Benchmarks are in `lab.benchmarks`."""

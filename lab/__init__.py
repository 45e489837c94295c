"""The lab: data sets, baselines, and experiments that test the paper's claims.

Run by `./mt lab`; its benchmarks by `./mt bench`.
"""

"""Jobs of single experiments, run in child processes: the ablations, the table of desiderata, and growth.

Each is a function (baseline class, source of the data, options) -> figures, called by `lab.process`.
"""

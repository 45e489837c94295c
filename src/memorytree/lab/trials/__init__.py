"""Jobs of the lab's own: what a child does for the ablations, the table of desiderata, and growth.

Each is a function (peer class, source of the data, seed, options) -> figures, as `memorytree.lab.process` wants it.
"""

"""Speed and accuracy beside other systems: `./mt bench`, or `python -m benchmarks` with the `bench` extra installed.

Every benchmark runs all systems it compares back to back, in one run on one machine, and reports the ratios. Times are
CPU time, the least of several repetitions. A system that is not installed is named as missing in the result.
"""

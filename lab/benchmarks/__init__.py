"""Benchmarks of speed and accuracy beside other systems: `./mt bench`.

Every benchmark runs all systems that it compares in one run on one machine and reports the ratios. Times are CPU times, the
least of several repetitions. A system that is not installed is listed as missing in the result.
"""

"""Numba kernels of the estimators: scores of classes and labels, and how their weights are learned."""

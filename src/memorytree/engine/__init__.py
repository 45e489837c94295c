"""The engine: flat arrays and compiled kernels. It knows numbers, never Python objects, files or threads."""

"""What learns from rewards in Python: parameters, their updates and their state. The kernels are in `memorytree.engine`."""

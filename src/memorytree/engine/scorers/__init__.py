"""Scorers: how the distance between a query and a stored key is computed."""

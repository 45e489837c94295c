"""Routers: how a tree decides which side a key belongs to."""

"""The neighbour graph of dense keys: codes, candidate lists, search, links, and the effort of a search."""

from memorytree.engine.graph import copies, links, tuning

__all__ = ["copies", "links", "tuning"]  # register the bodies of dispatched functions

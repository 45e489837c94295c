"""The neighbour graph of dense keys: codes, candidate lists, search, links, and the effort of a search."""

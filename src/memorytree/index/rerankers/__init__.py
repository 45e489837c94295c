"""Rerankers: what can rank the candidates of an index."""

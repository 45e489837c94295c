"""Indexes: objects that store keys by id and find the candidates for a query. `base.Index` is the interface of all of them."""

"""Term lists: for each term the memories in which it weighs most, and the queries that read them."""

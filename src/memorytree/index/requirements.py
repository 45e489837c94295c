"""What a state must fulfil."""


def require(holds: object, what: str) -> None:
    """Raise ValueError unless a condition holds."""
    if not holds:
        raise ValueError(f"contradictory state: {what}")

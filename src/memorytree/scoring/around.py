"""A core around another one, which finds the candidates that it ranks."""

from __future__ import annotations

from typing import Any


class CoreAround:
    """What it does not do itself is the other core's affair."""

    least_beam = 1  # candidates are ranked by how well they fit, so that must be known

    def __init__(self, base: Any):
        self.base = base
        self.settings, self.routing = base.settings, base.routing

    def __len__(self) -> int:
        return len(self.base)

    def aside(self) -> Any:
        """A twin to work on while this one is read."""
        return self.copy()

    def __getattr__(self, name: str) -> Any:
        """Ask the other core."""
        if name == "base":  # not there yet, while a copy is being made
            raise AttributeError(name)
        return getattr(self.base, name)

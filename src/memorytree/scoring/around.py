"""A core around another one, which finds the candidates that it ranks."""

from __future__ import annotations

from typing import Any


class CoreAround:
    """What it does not do itself is the other core's affair."""

    def __init__(self, base: Any):
        self.base = base
        self.settings, self.routing = base.settings, base.routing

    def __len__(self) -> int:
        return len(self.base)

    def __getattr__(self, name: str) -> Any:
        """Ask the other core."""
        if name == "base":  # not there yet, while a copy is being made
            raise AttributeError(name)
        return getattr(self.base, name)

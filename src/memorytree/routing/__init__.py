"""Which few memories could fit? Each file is one answer, behind the same small interface (`engine/declared.py`)."""

from memorytree.routing.paper import Paper, paper
from memorytree.routing.principal import Principal, principal

__all__ = ["Paper", "Principal", "paper", "principal"]

"""Which few memories could fit? Each file is one answer, behind the same small interface (`engine/dispatch.py`); term lists
are no tree, and have a core of their own."""

from memorytree.engine.routers.paper import Paper, paper
from memorytree.engine.routers.principal import Principal, principal
from memorytree.routing.terms import Terms, TermsCore, terms

__all__ = ["Paper", "Principal", "Terms", "TermsCore", "paper", "principal", "terms"]

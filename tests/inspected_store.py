"""A store whose parts tests can read."""

from memorytree import MemoryStore, MemoryTree
from memorytree.store.session import Session


class InspectedStore(MemoryStore):
    """A store with its session and its tree."""

    @property
    def session(self) -> Session:
        """The open files."""
        return self._session

    @property
    def tree(self) -> MemoryTree:
        """The tree in memory; its values are places in the records."""
        return self._session.state().tree

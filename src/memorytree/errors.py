"""All exceptions that memorytree raises on purpose. Each also derives from the built-in exception that fits best."""


class MemoryTreeError(Exception):
    """Base class of all exceptions of memorytree.

    Example:
        >>> from memorytree import MemoryTree
        >>> try:
        ...     MemoryTree(seed=0).query([])
        ... except MemoryTreeError as error:
        ...     print(type(error).__name__)
        InvalidKey
    """


class InvalidKey(MemoryTreeError, ValueError):
    """A key that the tree cannot hold: wrong dimension or type, empty, NaN or infinite."""


class InvalidReward(MemoryTreeError, ValueError):
    """A reward outside [0, 1], for a memory that is not among the hits, or a wrong number of rewards."""


class InvalidOption(MemoryTreeError, ValueError):
    """An argument or option that is not allowed; the message says what is."""


class InvalidReceipt(MemoryTreeError, ValueError):
    """A receipt that is malformed, was changed, or comes from another tree or store."""


class StaleReceipt(InvalidReceipt):
    """A reward for a memory that has been removed, or replaced by another one with its id, since the query."""


class UnknownReward(MemoryTreeError, KeyError):
    """No reward has this id, or it does not count any more: it was withdrawn or replaced."""

    def __str__(self) -> str:  # KeyError shows the repr of the message
        return str(self.args[0]) if self.args else ""


class UnknownId(MemoryTreeError, KeyError):
    """No memory has this id."""

    def __str__(self) -> str:  # KeyError shows the repr of the message
        return str(self.args[0]) if self.args else ""


class UnsupportedValue(MemoryTreeError, TypeError):
    """A value of a type that cannot be written to a file without `encode=`."""


class DamagedFile(MemoryTreeError, OSError):
    """A file that is not a saved tree, or that was truncated or changed."""


class StoreError(MemoryTreeError, OSError):
    """A store cannot be read or written: a full disk, an I/O error, a directory that is not a store."""


class DamagedStore(StoreError):
    """The files of a store do not match their checksums; `memorytree.store.repair` recovers what is intact."""


class StoreLocked(StoreError):
    """Another process has the store open for writing; the message names it."""


class StoreClosed(MemoryTreeError, ValueError):
    """The store was closed before this call."""


class ReadOnlyStore(MemoryTreeError, PermissionError):
    """A change to a store that was opened for reading."""


class DataMissing(MemoryTreeError, FileNotFoundError):
    """A data set is missing; the message names the file, where it is expected and where to get it."""


class DamagedData(MemoryTreeError, ValueError):
    """A file of a data set has the wrong format; the message names the file and the line."""

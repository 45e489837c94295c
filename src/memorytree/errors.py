"""Every error memorytree raises on purpose. Each also is the built-in error that a Python programmer would expect."""


class MemoryTreeError(Exception):
    """The common ancestor."""


class InvalidKey(MemoryTreeError, ValueError):
    """A key that this tree cannot hold: wrong dimension or type, empty, NaN, infinite."""


class InvalidReward(MemoryTreeError, ValueError):
    """A reward outside [0, 1], or not one for each hit."""


class InvalidOption(MemoryTreeError, ValueError):
    """An argument or setting that makes no sense."""


class InvalidReceipt(MemoryTreeError, ValueError):
    """Something that is not the receipt of a query to this tree."""


class UnknownId(MemoryTreeError, KeyError):
    """No memory has this id."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class UnsupportedValue(MemoryTreeError, TypeError):
    """A value that cannot be written to a file without `encode=`."""


class DamagedFile(MemoryTreeError, OSError):
    """A file that is not a saved tree, or no longer a whole one."""


class StoreError(MemoryTreeError, OSError):
    """A store that could not be read or written: a full disk, an I/O error, a directory that is no store."""


class DamagedStore(StoreError):
    """A store whose files contradict their checksums; `repair` saves what can be saved."""


class StoreLocked(StoreError):
    """Another writer has the store open; the message names it."""


class StoreClosed(MemoryTreeError, ValueError):
    """A store that was closed before it was used."""


class ReadOnlyStore(MemoryTreeError, PermissionError):
    """A change asked of a store that was opened for reading."""


class ConflictingReward(MemoryTreeError, ValueError):
    """A second, different reward for the same memory of the same receipt."""


class DataMissing(MemoryTreeError, FileNotFoundError):
    """A data set is not where it should be; the message names the file, where it is expected and where it comes from."""


class DamagedData(MemoryTreeError, ValueError):
    """A file of a data set that is not in the format it should be in; the message names the file and the line."""

"""One connection to an SQLite database: its errors, its transactions, and what makes single statements quick."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memorytree.errors import DamagedStore, StoreError

PAGE_BYTES = 4096
# SQLite writes its log from the start again after a thousand pages and some. Once so many commits have waited for the disk,
# the log is made that long in one go: a commit that need not lengthen a file waits half as long.
LOG_BYTES = 1200 * PAGE_BYTES
COMMITS_BEFORE_LONG_LOG = 64
# While memories come by themselves, an unfinished query keeps a read transaction open from one commit to the next, which
# saves SQLite four of the six locks that it takes each time. Meanwhile the log cannot begin anew, so it ends after so many
# pages, and where readers have kept the log from beginning anew there is none.
HELD_PAGES = 64


class SqliteErrors:
    """Inside of this, errors of SQLite become ours."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self) -> None:
        """Nothing to do yet."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Raise our error for one of SQLite's."""
        if isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError):
            raise self.ours(error) from error

    def ours(self, error: Exception) -> StoreError:
        """Our error for one of SQLite's, or for text that is none."""
        name = getattr(error, "sqlite_errorname", "")
        if isinstance(error, UnicodeDecodeError) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return DamagedStore(f"{self._path} is damaged: {error}; `repair` saves what can be saved")
        return StoreError(f"{self._path}: {error} ({name or 'SQLite'}); nothing was changed")


class Connection:
    """One connection, used by one thread at a time: whoever calls sees to that."""

    def __init__(self, path: Path, *, durability: str = "full", read_only: bool = False):
        self.path = path
        self._errors = SqliteErrors(path)
        self._commits_to_wait = 0 if read_only or durability != "full" else COMMITS_BEFORE_LONG_LOG
        with self._errors:
            uri = f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
            self._still = _as_it_lies(path) if read_only else None
            if self._still:
                uri += "&immutable=1"  # SQLite finds no place for its locks then, and needs none
            self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=60)
            self._appending = self._connection.cursor()
            self._held: sqlite3.Cursor | None = None  # a query that was not read to its end
            self._held_for = 0  # so many more pages
            try:
                self._prepare(durability, read_only)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, durability: str, read_only: bool) -> None:
        run = self._connection.execute
        run("PRAGMA cell_size_check = ON")
        run("PRAGMA trusted_schema = OFF")
        if not read_only:
            run(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new database; an old one keeps its own
            run("PRAGMA journal_mode = WAL")
            # In WAL mode FULL waits for the disk at every commit; NORMAL leaves the last commits to the system's cache.
            run(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
            run("PRAGMA temp_store = MEMORY")

    def close(self) -> None:
        """Let go of the file."""
        self._let_go()
        self._connection.close()

    # ---- writing

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[Any]:
        """Do all or nothing. Whatever interrupts it, no transaction stays open behind it."""
        with self._errors:
            self._check_idle()
            self._check_still()
            self._let_go()
            run = self._connection.execute
            try:
                run(f"BEGIN {kind}")
                yield run
                run("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    run("ROLLBACK")
                raise

    def _check_idle(self) -> None:
        """Raise if a transaction is open: what is written inside it would not last before its end."""
        if self._connection.in_transaction:
            raise StoreError(f"{self.path} is being read or written by the caller; nothing was changed")

    def _check_still(self) -> None:
        """Raise if a database that could not change has changed: it was written to from elsewhere."""
        if self._still and self._still != _as_it_lies(self.path):
            raise StoreError(f"{self.path} was opened where nothing can be written, but has changed since: open it again")

    def sync(self) -> None:
        """Force all that was committed to the disk, whatever the durability."""
        with self._errors:
            self._let_go()
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def vacuum(self) -> None:
        """Write the file anew without gaps."""
        with self._errors:
            self._let_go()
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def run_alone(self, statement: str, row: Sequence[Any], size: int) -> None:
        """Insert one row of about so many bytes by a statement that is a transaction of its own."""
        try:
            self._check_idle()
            if self._held_for <= 0 or self._held is None:
                self._hold_or_let_go()
            self._held_for -= 1 + size // PAGE_BYTES
            self._appending.execute(statement, row)
        except sqlite3.DatabaseError as error:
            was_held = self._held is not None
            self._let_go()  # or SQLite would go on failing when the fault is gone
            if was_held and getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                # A reader that finds the log's head half-written locks it for a moment. Whoever holds a read transaction is
                # not made to wait for that, but refused.
                return self.run_alone(statement, row, size)
            raise self._errors.ours(error) from error
        if self._commits_to_wait:
            self.count_commit()

    def _hold_or_let_go(self) -> None:
        """Keep a read transaction open, but for one memory after so many pages."""
        if self._held_for > 0 and os.path.getsize(f"{self.path}-wal") <= LOG_BYTES:
            self._held = self._connection.execute("SELECT name FROM sqlite_master")
        else:
            self._let_go()
            self._held_for = HELD_PAGES

    def _let_go(self) -> None:
        """End the read transaction that was kept open: neither could the log begin anew, nor the file be closed."""
        if self._held is not None:
            self._held.close()
            self._held, self._held_for = None, 0

    def count_commit(self) -> None:
        """After some commits the log is made long."""
        if self._commits_to_wait:
            self._commits_to_wait -= 1
            if not self._commits_to_wait:
                self._lengthen_log()

    def _lengthen_log(self) -> None:
        """Write zeros behind the log: for SQLite, no entries. A full disk leaves it as it was."""
        with contextlib.suppress(OSError), open(f"{self.path}-wal", "r+b", 0) as log:
            end = log.seek(0, os.SEEK_END)
            try:
                # Page by page: of one long write Linux would make large pieces of its cache, and a commit that changes a
                # little of one waits a tenth longer.
                for start in range(end, LOG_BYTES, PAGE_BYTES):
                    log.write(bytes(min(PAGE_BYTES, LOG_BYTES - start)))
                os.fsync(log.fileno())
            except OSError:
                os.truncate(log.fileno(), end)

    # ---- reading

    def rows(self, query: str, *arguments: Any) -> list[tuple]:
        """All rows of a query."""
        with self._errors:
            return self._connection.execute(query, arguments).fetchall()

    def stream(self, query: str) -> Iterator[tuple]:
        """The rows of a query one by one."""
        with self._errors:
            yield from self._connection.execute(query)

    @contextmanager
    def as_of_now(self) -> Iterator[None]:
        """Read everything inside as it is at one moment, whatever a writer does meanwhile."""
        with self.transaction("DEFERRED"):
            yield

    def copy_to(self, path: Path) -> None:
        """Write a copy of the database as it is now."""
        with SqliteErrors(path):
            copy = sqlite3.connect(path)
            try:
                self._connection.backup(copy)
            finally:
                copy.close()

    def version(self) -> int:
        """A number that changes when another connection has written."""
        with self._errors:
            self._check_still()
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


def _as_it_lies(path: Path) -> tuple[int, int] | None:
    """Length and date of a database that lies where nothing can be written, if nobody has left or keeps a log."""
    if not os.statvfs(path.parent).f_flag & os.ST_RDONLY or Path(f"{path}-wal").exists():
        return None
    there = path.stat()
    return there.st_size, there.st_mtime_ns

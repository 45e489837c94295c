"""The cache of finished parts, and files that are replaced as a whole."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.measuring import PACKAGES, machine, versions
from lab.parts import Part


class ResultCache:
    """A folder with one JSON file for each finished part."""

    def __init__(self, folder: Path, quick: bool):
        self.folder = folder
        self.quick = quick

    def path(self, part: Part) -> Path:
        """The file of a part: a readable name, and a digest of everything that determines the part."""
        text = json.dumps(part.identity(self.quick), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        job = part.job.rpartition(":")[2]
        return self.folder / job / f"{_file_name(part.baseline)}.{_file_name(part.dataset)}.{part.seed}.{digest}.json"

    def get(self, part: Part) -> dict[str, Any] | None:
        """Return the cached result of a part, or None if there is none or its file cannot be read."""
        try:
            cached = json.loads(self.path(part).read_text(encoding="utf8"))
        except (OSError, ValueError):
            return None
        return cached if cached.get("part") == part.identity(self.quick) else None

    def put(self, part: Part, result: Mapping[str, Any], wall_s: float) -> dict[str, Any]:
        """Store the result of a part with the time, the machine and the package versions."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        # Machine and versions are not part of the identity: a part measured on another machine is found too.
        where = {"machine": machine(), "versions": {**versions(PACKAGES), **result.get("versions", {})}}
        cached = {"part": part.identity(self.quick), "finished": now, "wall_s": round(wall_s, 3), **result, **where}
        path = self.path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as draft:
            draft.write_text(json.dumps(cached, indent=1) + "\n", encoding="utf8")
        return cached


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; what is written there replaces the file in one step, so that no partial file is ever visible.

    Raises:
        OSError: with the path, which the error of a full disk does not contain.
    """
    draft = path.with_name(f"{path.name}.part")
    try:
        yield draft
        os.replace(draft, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_+-]+", "_", name)[-60:]

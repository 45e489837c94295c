"""Trees in files: one zip of plain arrays and msgpack, written whole or not at all. No pickle is written or read."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from memorytree.checks import check_arrays
from memorytree.cores import make
from memorytree.engine import state as engine_state
from memorytree.engine.core import Core
from memorytree.engine.state import NONE, USED
from memorytree.errors import DamagedFile, InvalidOption
from memorytree.keys import DenseKeys, NamedKeys, SparseKeys
from memorytree.links import Links
from memorytree.packing import pack, pack_all, unpack
from memorytree.routing import Paper, Principal, Terms, TermsCore
from memorytree.routing.terms import check_lists
from memorytree.scoring import Linear, Metric, Values
from memorytree.scoring.valued import ValuedCore

FORMAT = 3
OWN = {"name": "own"}  # stands for a scorer of the user's own, which no file can hold
GROWING = ("id_keys", "id_rows")  # the other arrays without a counter have one length for life
KINDS = {"dense": DenseKeys, "sparse": SparseKeys, "named": NamedKeys}
KINDS_OF_OPTION: dict[str, Any] = {
    "paper": Paper,
    "principal": Principal,
    "terms": Terms,
    "linear": Linear,
    "metric": Metric,
    "values": Values,
}


def state_of(tree: Any) -> dict[str, Any]:
    """Everything a tree is, as arrays and plain data; the values are the caller's own objects."""
    options = {name: _plain(option) for name, option in tree._options.items()}
    labels = [label.item() if isinstance(label, np.integer) else label for label in tree._labels]
    state = {"format": FORMAT, "options": options, "values": dict(tree._values), "labels": labels}
    if tree._core is None:
        return state
    kind = next(name for name, kind in KINDS.items() if type(tree._keys) is kind)
    arrays: dict[str, np.ndarray] = {}
    for part, core in tree._core.parts.items():
        inside = {name: array.copy() for name, array in core.arrays_in_use().items()}
        _blank_unused(inside)
        arrays |= {f"{part}.{name}": array for name, array in inside.items()}
    arrays |= {f"lore.{name}": array.copy() for name, array in tree._core.lore().items()}
    arrays["links.pairs"] = tree._links.pairs()
    if tree._features:
        # Rows of one length lie together: the ids they belong to, then the numbers.
        for width in {len(row) for row in tree._features.values()}:
            ids = [id for id, row in tree._features.items() if len(row) == width]
            arrays[f"features.{width}"] = np.stack([tree._features[id] for id in ids])
            arrays[f"described.{width}"] = np.array(ids, np.int64)
    names: Any = tree._keys.vocabulary()
    state |= {"kind": kind, "dimension": tree._keys.dimension, "vocabulary": None if names is None else list(names)}
    return state | {"routing": _plain(tree._core.routing), "arrays": arrays}


def plain_options(tree: Any) -> dict[str, Any]:
    """The options of a tree as plain data; a scorer of the user's own is only mentioned."""
    options = {name: _plain(option) for name, option in tree._options.items()}
    if not isinstance(options["scorer"], str | dict):
        options["scorer"] = OWN
    return options


def _plain(option: Any) -> Any:
    """An option as plain data: a routing or a scorer by its name and settings."""
    if isinstance(option, tuple(KINDS_OF_OPTION.values())):
        settings: Any = option
        return {"name": type(option).__name__.lower(), "settings": list(settings)}
    return option


def _made(plain: Any) -> Any:
    """The option that `_plain` wrote."""
    return KINDS_OF_OPTION[plain["name"]](*plain["settings"]) if isinstance(plain, dict) else plain


def _blank_unused(arrays: dict[str, np.ndarray]) -> None:
    """Zero what is not in use: what removed memories or other programs left there is nobody's business, and the same tree
    gives the same file."""
    nodes, slots = arrays["nodes"], arrays["rows"][:, engine_state.SLOT]
    nodes[:, engine_state.MEAN + 1 :] = 0
    nodes[nodes[:, engine_state.LEFT] == NONE, engine_state.MEAN] = 0
    free_slot = np.ones(len(arrays["slots"]), bool)
    free_slot[slots] = False
    chained = _chained(arrays["free"], arrays["slots"])
    arrays["slots"][free_slot & ~chained] = 0
    arrays["id_rows"][arrays["id_keys"] == NONE] = 0
    for name in ("keys", "spans"):
        if name in arrays:
            arrays[name][free_slot] = 0
    leaf = nodes[:, engine_state.LEFT] == NONE
    for name in ("routers", "squares", "offsets"):
        if name in arrays and len(arrays[name]) == len(nodes):
            arrays[name][leaf] = 0
    if "spans" in arrays:
        edges = np.zeros(len(arrays["key_weights"]) + 1, np.int64)
        starts, lengths = arrays["spans"][slots].T
        np.add.at(edges, starts, 1)
        np.add.at(edges, starts + lengths, -1)
        gone = np.cumsum(edges)[:-1] == 0
        arrays["key_features"][gone] = 0
        arrays["key_weights"][gone] = 0
        empty = arrays["table_words"][:, 0] == NONE
        arrays["table_words"][empty, 1] = 0
        arrays["table_squares"][empty] = 0


def _chained(heads: np.ndarray, links: np.ndarray) -> np.ndarray:
    """The slots that hold a link of a chain of free extents."""
    marked = np.zeros(len(links), bool)
    for start in heads.tolist():
        while start != NONE:
            marked[start] = True
            start = int(links[start])
    return marked


def restore(tree: Any, state: dict[str, Any], *, is_sealed: bool = False) -> None:
    """Make an object the tree that `state_of` described.

    What is sealed is known to be what was written; that lists agree with keys then need not be shown, which takes longest.
    """
    settings = {name: _made(option) for name, option in state["options"].items()}
    trees = settings.pop("trees")
    tree.__init__(*[trees] if trees else [], **settings)
    tree._values = state["values"]
    tree._labels = {label: number for number, label in enumerate(state["labels"])}
    if "arrays" not in state:
        return
    vocabulary = state["vocabulary"]
    keys = NamedKeys(vocabulary) if state["kind"] == "named" else KINDS[state["kind"]](state["dimension"])
    tree._links = Links(state["arrays"]["links.pairs"].tolist())
    for width, rows in _under("features", state["arrays"]).items():
        tree._features |= dict(zip(state["arrays"][f"described.{width}"].tolist(), rows, strict=True))
    core = make(keys.sparse, keys.dimension, tree._options, tree._features, _made(state["routing"]))
    core.recall(_under("lore", state["arrays"]))
    for name, part in core.parts.items():
        part.adopt(_whole(part, _under(name, state["arrays"])))
        if set(tree._values) != set(part.arrays()["row_ids"][: len(part)].tolist()):
            raise ValueError("values and memories do not have the same ids")
    by_keys = core.base if isinstance(core, ValuedCore) else core
    if isinstance(by_keys, TermsCore) and not is_sealed:
        check_lists(by_keys)
    tree._keys, tree._core = keys, core


def _under(part: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a part, by their own names."""
    return {name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")}


def _whole(core: Core, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a tree, checked, with room to grow."""
    routing = core.routing
    blank = engine_state.empty(core.sparse, core.dimension, core.settings, routing)
    counters = stored["counters"]
    if counters.shape != blank["counters"].shape:
        raise ValueError("the counters are not whole")
    arrays = {}
    for name, template in blank.items():
        array = stored[name]
        length = int(counters[USED[name]]) if name in USED else len(array if name in GROWING else template)
        if name == "squares" and not routing.learns:
            length = len(template)
        if len(array) != length:
            raise ValueError(f"{name} holds {len(array)} rows instead of {length}")
        arrays[name] = _padded(array, template)
    check_arrays(arrays, core.sparse, routing.learns)
    return arrays


def _padded(array: np.ndarray, blank: np.ndarray) -> np.ndarray:
    """An array with at least the room it has in an empty tree, writeable and of the right type."""
    if array.dtype != blank.dtype or array.shape[1:] != blank.shape[1:]:
        raise ValueError(f"an array of {array.dtype} {array.shape} where {blank.dtype} {blank.shape} was expected")
    if len(array) < len(blank):
        return np.concatenate([array, blank[len(array) :]])
    return np.require(array, requirements=["C", "W"])


def save(state: dict[str, Any], path: str | os.PathLike, encode: Callable[[Any], Any] | None) -> None:
    """Write what `state_of` told of a tree to a file: to a new one beside it, which then takes its name."""
    if not isinstance(state["options"]["scorer"], str | dict):
        state["options"]["scorer"] = OWN
    ids = np.array(list(state["values"]), np.int64)
    values = pack_all(state.pop("values").values(), encode)
    arrays = state.pop("arrays", {})
    state["members"] = sorted(arrays)
    # Features named by huge ints would not fit msgpack: they are refused here, before anything is written.
    manifest = pack([state])
    members = {"manifest": _bytes(manifest), "values": _bytes(values), "ids": ids}
    members |= {f"array_{name}": array for name, array in arrays.items()}
    target = Path(path)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            np.savez(file, allow_pickle=False, **members)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_directory(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def load(cls: Any, path: str | os.PathLike, decode: Callable[[Any], Any] | None, scorer: Any = None) -> Any:
    """Read a tree that `save` wrote."""
    from memorytree.forest import MemoryForest  # which imports this file by way of the tree

    try:
        with zipfile.ZipFile(path) as file:
            # Reading a member to its end is what compares its checksum.
            arrays = {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in file.namelist()}
        arrays = {name.removesuffix(".npy"): array for name, array in arrays.items()}
        [state] = unpack(arrays.pop("manifest").tobytes())
        if state["format"] != FORMAT:
            raise DamagedFile(f"{path} has format {state['format']}, this version reads {FORMAT}")
        if bool(state["options"]["trees"]) != issubclass(cls, MemoryForest):
            raise DamagedFile(f"{path} holds a {'forest' if state['options']['trees'] else 'tree'}, not a {cls.__name__}")
        values = unpack(arrays.pop("values").tobytes())
        ids = arrays.pop("ids").tolist()
        state["arrays"] = {name.removeprefix("array_"): array for name, array in arrays.items()}
        if sorted(state["arrays"]) != state.pop("members") or len(values) != len(ids):
            raise ValueError("a part is missing")
        if not state["arrays"]:
            del state["arrays"]
    except (FileNotFoundError, PermissionError, IsADirectoryError, DamagedFile):
        raise
    except Exception as error:
        raise DamagedFile(f"{path} is not a whole saved tree: {error}") from error
    if state["options"]["scorer"] == OWN:
        if scorer is None:
            raise InvalidOption(f"{path} was saved with a scorer of its own: load it with scorer=")
        state["options"]["scorer"] = scorer
    elif scorer is not None:
        raise InvalidOption(f"{path} has the scorer {_made(state['options']['scorer'])!r}; scorer= is for one of your own")
    # The caller's own function: its errors are the caller's.
    state["values"] = dict(zip(ids, map(decode, values) if decode else values, strict=True))
    tree = cls.__new__(cls)
    try:
        restore(tree, state)
    except Exception as error:
        raise DamagedFile(f"{path} is not a whole saved tree: {error}") from error
    return tree


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def sync_directory(directory: Path) -> None:
    """Make a rename last; not every platform can open a directory."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

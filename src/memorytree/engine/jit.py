"""Decorators that compile the engine with Numba.

`kernel` compiles an entry point that Python calls; `helper` and `fast_helper` compile functions that only kernels call. All
release the GIL and use NumPy's error model: a division by zero gives an infinity instead of an exception, so that loops can
be vectorised.

`body_for` registers one implementation of a function declared in `engine/dispatch.py`. An algorithm calls, for example,
`linear(tree, node, x)`; at compile time Numba picks the implementation by the kinds of the tree (dense or sparse keys,
search by tree or by graph, routing, scorer). Each algorithm is written once and has no branches on the kind at run time.

`blank`, `copy_run` and `prefetch` are array operations for use in kernels, HANDLE_TYPE is the attribute `_numba_type_` of
handles of trees; `engine/numba_private.py` defines them.
"""

from collections.abc import Callable

from numba import njit
from numba.extending import overload

from memorytree.engine.numba_private import (
    BYTES_AT_ONCE,
    HANDLE_TYPE,
    HELPER_OPTIONS,
    blank,
    byte_distance,
    cache_on_disk,
    copy_run,
    prefetch,
    shift_up,
)

__all__ = [
    "BYTES_AT_ONCE",
    "HANDLE_TYPE",
    "OPTIONS",
    "blank",
    "body_for",
    "byte_distance",
    "copy_run",
    "fast_helper",
    "helper",
    "kernel",
    "prefetch",
    "shift_up",
]

OPTIONS = {"error_model": "numpy", "nogil": True}
# Sums may be reordered and multiply-adds fused, as keys and routers are always compared by one shared function. The flags
# that assume the absence of NaN or infinity are not set.
FAST_MATH = {"reassoc", "contract", "nsz"}


def kernel(function: Callable) -> Callable:
    """Compile an entry point; the machine code is cached on disk."""
    return cache_on_disk(njit(**OPTIONS)(function))


def helper(function: Callable) -> Callable:
    """Compile a function that only compiled code calls; its code is cached as part of the kernels that call it."""
    return njit(**OPTIONS, **HELPER_OPTIONS)(function)


def fast_helper(function: Callable) -> Callable:
    """Compile a helper in which sums may be reordered and multiply-adds fused."""
    return njit(fastmath=FAST_MATH, **OPTIONS, **HELPER_OPTIONS)(function)


def body_for(declared: Callable, *kinds: str) -> Callable[[Callable], Callable]:
    """Register the decorated helper as the body of `declared` for trees that are of all these kinds.

    The first argument of a declared function is always the tree, whose Numba type has the attribute `kinds`.
    """

    def register(body: Callable) -> Callable:
        def choose(tree, *_):
            return body if set(kinds) <= set(tree.kinds) else None

        overload(declared, strict=False, jit_options={**OPTIONS, **HELPER_OPTIONS})(choose)
        return body

    return register

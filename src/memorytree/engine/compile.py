"""How this engine uses Numba: two decorators and one seam.

`kernel` is for entry points called from Python, `helper` for functions that only kernels call. Both release the GIL
and let floating point divide by zero quietly, which is what allows loops to be vectorised.

`body_for` is the seam between the algorithms and what varies under them. An algorithm calls a *declared* function such as
`margin(tree, node, x)`; which compiled body it gets is settled at compile time by the kind of the tree (dense or sparse
keys, paper or principal routing), so that an algorithm is written once and nobody pays for a kind they do not use.
"""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.extending import overload

OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
# Reordering sums and fusing multiply-adds is safe as long as one shared function does it; anything that assumes the
# absence of NaN or infinity is not.
FAST = {"reassoc", "contract", "nsz"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile an entry point; the machine code is kept on disk."""
    return njit(cache=True, **OPTIONS)(function)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only compiled code calls."""
    return njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)


def fast_helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a helper whose sums may be reordered."""
    return njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath=FAST, **OPTIONS)(function)


def body_for(declared: Callable[..., Any], kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give `declared` the decorated function as its body for trees of this kind.

    The first argument of a declared function is always the tree; its Numba type knows its kinds.
    """

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        def choose(tree: Any, *_: Any) -> Any:
            return body if kind in tree.kinds else None

        overload(declared, strict=False, jit_options=OPTIONS)(choose)
        return body

    return register

"""How this engine uses Numba: two decorators and one seam.

`kernel` is for entry points called from Python, `helper` for functions that only kernels call. Both release the GIL
and let floating point divide by zero quietly, which is what allows loops to be vectorised.

`body_for` is the seam between the algorithms and what varies under them. An algorithm calls a *declared* function such as
`margin(tree, node, x)`; which compiled body it gets is settled at compile time by the kinds of the tree (dense or sparse
keys, its routing, its scorer), so that an algorithm is written once and nobody pays for a kind they do not use.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core import ir as numba_ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import intrinsic, overload
from numba.np.arrayobj import _empty_nd_impl

OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
# Reordering sums and fusing multiply-adds is safe as long as one shared function does it; anything that assumes the
# absence of NaN or infinity is not.
FAST = {"reassoc", "contract", "nsz"}
# Arrays from this size on are worth large pages. A page is 4096 bytes or a few times that; this is a multiple of all.
LARGE_BYTES, PAGE_BYTES = 2**22, 2**16
MADV_HUGEPAGE = 14  # of Linux
# What Numba calls to count references, each time with a locked instruction.
COUNTING = ("NRT_incref", "NRT_decref")


# How a function comes by arrays that somebody else holds: whatever else brings one gives it into the function's own care.
BORROWING = ("build_tuple", "cast", "exhaust_iter", "getattr", "getiter", "iternext", "pair_first", "phi", "static_getitem")


def _called(instruction: ir.Instruction) -> str:
    """The name of the function that an instruction calls; nothing if it is no call."""
    return str(getattr(getattr(instruction, "callee", None), "name", ""))


def _statements(state: Any) -> list[Any]:
    """The statements of a function that is being compiled."""
    return [statement for block in state.func_ir.blocks.values() for statement in block.body]


def _owns_arrays(state: Any) -> bool:
    """Whether a function that is being compiled makes arrays, gets them from what it calls, or gives them away."""
    models = state.targetctx.data_model_manager

    def holds_arrays(kind: Any) -> bool:
        return bool(models[kind].contains_nrt_meminfo())

    def borrows(value: Any) -> bool:
        if not isinstance(value, numba_ir.Expr):
            return True
        if value.op != "getitem":
            return value.op in BORROWING
        index = state.typemap[value.index.name]
        return not any(isinstance(part, types.Array) for part in (index if isinstance(index, types.BaseTuple) else [index]))

    return holds_arrays(state.return_type) or any(
        holds_arrays(state.typemap[statement.target.name]) and not borrows(statement.value)
        for statement in _statements(state)
        if isinstance(statement, numba_ir.Assign)
    )


def _replaces_arrays(state: Any, called: list[Any]) -> bool:
    """Whether a function that is being compiled, or anything that it calls, puts another array in the place of one."""
    return (
        any(isinstance(statement, numba_ir.SetAttr) for statement in _statements(state))
        or any(part.replaces for part in called if isinstance(part, _Part))
        # Who is no helper may do as he likes.
        or any(
            isinstance(kind, types.Dispatcher) and kind.dispatcher._compiler.pipeline_class is not _HelperCompiler
            for kind in state.typemap.values()
        )
    )


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a helper: something to link into kernels, which is where it is optimised and made into machine code.

    Numba would do both for every helper on its own as well, and for all that it calls once more: a fifth of the time that a
    user waits for the first answer. Nothing ever calls a helper from outside, so it needs no address.

    A helper that owns no arrays, and under which none is replaced, counts no references: whoever called it holds all that it
    sees. Numba cannot know that, and counts every array up on the way in and down on the way out wherever there is more than
    one way through a function; that was a third of a query.
    """

    def __init__(self, state: Any):
        super().__init__(state.targetctx.codegen(), state.func_id.func_qualname)
        self._state = state  # of the compiler
        self.replaces = False  # whether it, or anything that it calls, puts another array in the place of one

    def add_ir_module(self, module: ir.Module) -> None:
        """Take what Numba has made of the helper."""
        state, self._state = self._state, None
        self.replaces = _replaces_arrays(state, self._linking_libraries)
        if not self.replaces and not _owns_arrays(state):
            for function in module.functions:
                for block in function.blocks:
                    block.instructions[:] = [each for each in block.instructions if _called(each) not in COUNTING]
        super().add_ir_module(module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """No Python object is reachable from a helper."""


class _HelperCompiler(Compiler):  # type: ignore[misc]
    """Compile into a part."""

    def define_pipelines(self) -> Any:
        if self.state.library is None:
            self.state.library = _Part(self.state)
        return super().define_pipelines()


HELPER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _HelperCompiler, **OPTIONS}


def _date_of_sources(*rooms: str) -> tuple[tuple[str, int, int], ...]:
    """Name, date and size of every source file of some packages."""
    files = sorted(file for room in rooms for file in (Path(__file__).parents[1] / room).glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


_ENGINE = _date_of_sources("engine", "routing", "scoring")
_ESTIMATORS = _ENGINE + _date_of_sources("estimators/kernels")


def _kept_on_disk(dispatcher: Any) -> Any:
    """Invalidate cached machine code when any source that it can be made of changes.

    Numba itself looks only at the file of the outermost function, and would go on running old helpers inside a kernel, over
    arrays whose layout may have changed.
    """
    dispatcher.enable_caching()
    file = dispatcher._cache._cache_file
    sources = _ESTIMATORS if ".estimators.kernels." in dispatcher.py_func.__module__ else _ENGINE
    file._source_stamp = (file._source_stamp, sources)
    return dispatcher


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile an entry point; the machine code is kept on disk."""
    return _kept_on_disk(njit(**OPTIONS)(function))


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only compiled code calls; it is kept as part of the kernels that do."""
    return njit(**HELPER)(function)


def fast_helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a helper whose sums may be reordered."""
    return njit(fastmath=FAST, **HELPER)(function)


def body_for(declared: Callable[..., Any], *kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give `declared` the decorated function as its body for trees that are of all these kinds.

    The first argument of a declared function is always the tree; its Numba type knows its kinds.
    """

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        def choose(tree: Any, *_: Any) -> Any:
            return body if set(kinds) <= set(tree.kinds) else None

        overload(declared, strict=False, jit_options=HELPER)(choose)
        return body

    return register


def _ask_for_large_pages(builder, array):  # type: ignore[no-untyped-def]
    """Tell the system that the memory of an array is worth large pages, if it is large; from its first whole page on."""
    whole, byte, word = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(32)
    size = builder.mul(array.nitems, array.itemsize)
    with builder.if_then(builder.icmp_unsigned(">=", size, whole(LARGE_BYTES)), likely=False):
        start = builder.ptrtoint(array.data, whole)
        page = builder.and_(builder.add(start, whole(PAGE_BYTES - 1)), whole(-PAGE_BYTES))
        length = builder.sub(size, builder.sub(page, start))
        kind = ir.FunctionType(word, [byte, whole, word])
        advise = cgutils.get_or_insert_function(builder.module, kind, "madvise")
        builder.call(advise, [builder.inttoptr(page, byte), length, word(MADV_HUGEPAGE)])


@intrinsic
def blank(typing_context, shape, dtype):  # type: ignore[no-untyped-def]
    """np.empty(shape, dtype) for a number or a pair of numbers.

    Numba makes a function of np.empty anew for each type of array and of shape, and for each all the way to machine code: a
    twentieth of the time to the first answer. Large arrays lie on large pages, as NumPy's own do: a query of a large tree
    reads from many places, and spends a fifth of its time less on finding where these are.
    """
    axes = len(shape) if isinstance(shape, types.BaseTuple) else 1
    made = types.Array(dtype.dtype, axes, "C")

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        sizes = cgutils.unpack_tuple(builder, arguments[0]) if axes > 1 else arguments[:1]
        array = _empty_nd_impl(context, builder, made, sizes)
        if sys.platform == "linux":
            _ask_for_large_pages(builder, array)
        return array._getvalue()

    return made(types.UniTuple(types.int64, axes) if axes > 1 else types.int64, dtype), emit


@intrinsic
def copy_run(typing_context, target, at, source, start, count):  # type: ignore[no-untyped-def]
    """target.flat[at : at + count] = source.flat[start : start + count], for C-contiguous arrays of one type, as one memcpy.

    The loop one would write instead runs as fast, but is unrolled and vectorised anew in every kernel that grows an array,
    which takes long to compile.
    """
    if target.dtype != source.dtype or target.layout != "C" or source.layout != "C":
        return None

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        to, at, origin, start, count = arguments
        size = context.get_abi_sizeof(context.get_data_type(target.dtype))
        to = context.make_array(target)(context, builder, to).data
        origin = context.make_array(source)(context, builder, origin).data
        cgutils.raw_memcpy(builder, builder.gep(to, [at]), builder.gep(origin, [start]), count, size)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), emit


@intrinsic
def prefetch(typing_context, array, at):  # type: ignore[no-untyped-def]
    """Ask for the cache line of array.flat[at] (C-contiguous), which is going to be read soon.

    Where many places are known before the first is read, they are fetched side by side instead of one after the other.
    """
    if array.layout != "C":
        return None

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(array)(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        read, keep, is_data = (ir.Constant(word, number) for number in (0, 3, 1))
        builder.call(function, [place, read, keep, is_data])
        return context.get_dummy_value()

    return types.void(array, types.int64), emit

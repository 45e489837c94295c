"""Every use of Numba's and LLVM's private interfaces, each with a fallback in plain Numba.

With the environment variable MEMORYTREE_PLAIN_NUMBA=1 the fallbacks are used. The results are the same; compilation and
queries take longer, and kernels are compiled anew in every process.

| private use | saves (`docs/internals/numba.md`) | fallback |
|---|---|---|
| helpers are linked into kernels, never compiled alone | a third of the time to the first answer | plain helpers |
| no reference counts in helpers that only read arrays | a sixth to a quarter of a query | counts stay |
| `blank` and `copy_run` as intrinsics | compile time of every kernel that allocates | `np.empty` and a loop |
| `shift_up` and `byte_distance` as intrinsics | a third of a query of a graph, a fifth of an insertion | loops |
| large pages for large arrays | a tenth of a query of 400,000 keys | none |
| `prefetch` | a third of a query of term lists, a tenth of one of a graph | no operation |
| handles of trees read their type from a slot | a twelfth of a single query | a property |
| cached kernels depend on all sources of the engine | correctness | no cache on disk |
"""

import os
import sys
from pathlib import Path

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core import ir as numba_ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.experimental import structref
from numba.extending import intrinsic
from numba.np.arrayobj import _empty_nd_impl

PLAIN = os.environ.get("MEMORYTREE_PLAIN_NUMBA", "") not in ("", "0")

# Arrays from this size on get large pages. PAGE_BYTES is a multiple of the page size of every common system.
BYTES_AT_ONCE = 32  # of codes
LARGE_BYTES, PAGE_BYTES = 2**22, 2**16
MADV_HUGEPAGE = 14  # of Linux
# The functions that Numba calls to count references; each executes a locked instruction.
COUNTING = ("NRT_incref", "NRT_decref")
# Operations that give a function an array without transferring ownership to it.
BORROWING = ("build_tuple", "cast", "exhaust_iter", "getattr", "getiter", "iternext", "pair_first", "phi", "static_getitem")


# ---- helpers as link-only libraries without reference counts


def _called(instruction):
    """Return the name of the function that an LLVM instruction calls; empty if it is no call."""
    return str(getattr(getattr(instruction, "callee", None), "name", ""))


def _statements(state):
    """Return the statements of the function that is being compiled."""
    return [statement for block in state.func_ir.blocks.values() for statement in block.body]


def _owns_arrays(state):
    """Return whether the function that is being compiled creates arrays, receives them from calls, or returns them."""
    models = state.targetctx.data_model_manager

    def holds_arrays(kind):
        return models[kind].contains_nrt_meminfo()

    def borrows(value):
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


def _replaces_arrays(state, called):
    """Return whether the function that is being compiled, or one that it calls, assigns to a field of a tree."""
    return (
        any(isinstance(statement, numba_ir.SetAttr) for statement in _statements(state))
        or any(library.replaces for library in called if isinstance(library, HelperLibrary))
        # Non-helper dispatchers may replace arrays; assume they do.
        or any(
            isinstance(kind, types.Dispatcher) and kind.dispatcher._compiler.pipeline_class is not _HelperCompiler
            for kind in state.typemap.values()
        )
    )


class HelperLibrary(JITCodeLibrary):
    """The code of a helper, which is only linked into kernels and optimised there.

    Numba would optimise and assemble every helper on its own too, with everything that it calls, which takes a third of the
    time to the first answer. No code outside kernels calls a helper, so it needs no address.

    Reference counts are removed from a helper that owns no arrays and below which no array is replaced: its caller holds a
    reference to every array that it reads. Numba cannot prove this and counts references wherever a function has more than
    one path.
    """

    def __init__(self, state):
        super().__init__(state.targetctx.codegen(), state.func_id.func_qualname)
        self._state = state  # of the compiler
        self.replaces = False  # whether the helper, or one that it calls, assigns to a field of a tree

    def add_ir_module(self, module):
        """Add the LLVM code of the helper, without reference counts where they are not needed."""
        state, self._state = self._state, None
        self.replaces = _replaces_arrays(state, self._linking_libraries)
        if not self.replaces and not _owns_arrays(state):
            for function in module.functions:
                for block in function.blocks:
                    block.instructions[:] = [each for each in block.instructions if _called(each) not in COUNTING]
        super().add_ir_module(module)

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        """Return no address: helpers are never called from outside."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self):
        """Return an object with `set_env`, which Numba calls on the code generator of a library."""
        return self

    def set_env(self, name, env):
        """Do nothing: no Python object is reachable from a helper."""


class _HelperCompiler(Compiler):
    """Compile into a `HelperLibrary`."""

    def define_pipelines(self):
        if self.state.library is None:
            self.state.library = HelperLibrary(self.state)
        return super().define_pipelines()


HELPER_OPTIONS = (
    {} if PLAIN else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _HelperCompiler}
)  # fmt: skip


# ---- the cache on disk


def _source_stamp(*packages):
    """Return the path, time and size of every source file of some packages."""
    root = Path(__file__).parents[1]
    files = sorted(file for package in packages for file in (root / package).rglob("*.py"))
    return tuple((str(file.relative_to(root)), file.stat().st_mtime_ns, file.stat().st_size) for file in files)


_ENGINE = _source_stamp("engine")
_ESTIMATORS = _ENGINE + _source_stamp("estimators/kernels")


def cache_on_disk(dispatcher):
    """Cache the machine code of a kernel on disk until any source that it may be made of changes.

    Numba itself only compares the file of the outermost function, and would reuse kernels with outdated helpers inside.
    Without its private interface that cannot be prevented, so plain kernels are not cached.
    """
    if PLAIN:
        return dispatcher
    dispatcher.enable_caching()
    file = dispatcher._cache._cache_file
    sources = _ESTIMATORS if ".estimators.kernels." in dispatcher.py_func.__module__ else _ENGINE
    file._source_stamp = (file._source_stamp, sources)
    return dispatcher


# ---- handles of trees

# Numba reads this attribute of a handle at every call of a kernel; a slot is read faster than the property around it.
HANDLE_TYPE = structref.StructRefProxy._numba_type_ if PLAIN else structref.StructRefProxy._type


# ---- array operations


def _advise_large_pages(builder, array):
    """Emit a call of madvise for the memory of an array if it is large, from its first whole page on."""
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
def _blank(typing_context, shape, dtype):
    """np.empty(shape, dtype), on large pages where the array is large.

    Numba compiles np.empty anew, down to machine code, for each type of array and of shape. Large pages are what NumPy uses
    for its own large arrays; random reads of a large tree then miss the translation buffer less often.
    """
    axes = len(shape) if isinstance(shape, types.BaseTuple) else 1
    made = types.Array(dtype.dtype, axes, "C")

    def emit(context, builder, signature, arguments):
        sizes = cgutils.unpack_tuple(builder, arguments[0]) if axes > 1 else arguments[:1]
        array = _empty_nd_impl(context, builder, made, sizes)
        if sys.platform == "linux":
            _advise_large_pages(builder, array)
        return array._getvalue()

    return made(types.UniTuple(types.int64, axes) if axes > 1 else types.int64, dtype), emit


@intrinsic
def _copy_run(typing_context, target, at, source, start, count):
    """target.flat[at : at + count] = source.flat[start : start + count] as one memcpy.

    A loop is as fast but is unrolled and vectorised in every kernel that grows an array, which costs compile time.
    """
    if target.dtype != source.dtype or target.layout != "C" or source.layout != "C":
        return None

    def emit(context, builder, signature, arguments):
        to, at, origin, start, count = arguments
        size = context.get_abi_sizeof(context.get_data_type(target.dtype))
        to = context.make_array(target)(context, builder, to).data
        origin = context.make_array(source)(context, builder, origin).data
        cgutils.raw_memcpy(builder, builder.gep(to, [at]), builder.gep(origin, [start]), count, size)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), emit


@intrinsic
def _shift_up(typing_context, array, first, last):
    """array[first + 1 : last + 1] = array[first : last] as one memmove (one-dimensional, C-contiguous)."""
    if array.layout != "C":
        return None

    def emit(context, builder, signature, arguments):
        array, first, last = arguments
        whole, byte, bit = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(1)
        data = context.make_array(signature.args[0])(context, builder, array).data
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        source = builder.gep(data, [first])
        target = builder.gep(source, [whole(1)])
        count = builder.mul(builder.sub(last, first), whole(size))
        kind = ir.FunctionType(ir.VoidType(), [byte, byte, whole, bit])
        move = cgutils.get_or_insert_function(builder.module, kind, "llvm.memmove.p0i8.p0i8.i64")
        builder.call(move, [builder.bitcast(target, byte), builder.bitcast(source, byte), count, bit(0)])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), emit


@intrinsic
def _prefetch(typing_context, array, at):
    """Start loading the cache line of array.flat[at] (C-contiguous)."""
    if array.layout != "C":
        return None

    def emit(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        read, keep, is_data = (ir.Constant(word, number) for number in (0, 3, 1))
        builder.call(function, [place, read, keep, is_data])
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


@intrinsic
def _byte_distance(typing_context, matrix, row, others, other):
    """The squared distance (int32) of a row of an int8 matrix and one of an int8 or int16 matrix; they are 32 * i wide.

    From a loop LLVM makes half as fast code, because it does not see that differences of bytes fit into 16 bits.
    """
    if matrix.layout != "C" or others.layout != "C":
        return None

    def emit(context, builder, signature, arguments):
        word, whole = ir.IntType(32), ir.IntType(64)
        shorts, words = (ir.VectorType(ir.IntType(bits), BYTES_AT_ONCE) for bits in (16, 32))
        sums = ir.VectorType(word, BYTES_AT_ONCE // 2)
        pairs = []
        for kind, array, at in zip(signature.args[::2], arguments[::2], arguments[1::2], strict=True):
            array = context.make_array(kind)(context, builder, array)
            width = cgutils.unpack_tuple(builder, array.shape)[1]
            several = ir.VectorType(ir.IntType(kind.dtype.bitwidth), BYTES_AT_ONCE)
            pairs.append((builder.gep(array.data, [builder.mul(at, width)]), several.as_pointer()))

        def load(start, several, at):
            numbers = builder.load(builder.bitcast(builder.gep(start, [at]), several), align=1)
            return numbers if numbers.type == shorts else builder.sext(numbers, shorts)

        even, odd = (ir.Constant(sums, list(range(first, BYTES_AT_ONCE, 2))) for first in (0, 1))
        total = cgutils.alloca_once_value(builder, ir.Constant(sums, None))
        with cgutils.for_range(builder, builder.udiv(width, whole(BYTES_AT_ONCE))) as loop:
            at = builder.mul(loop.index, whole(BYTES_AT_ONCE))
            difference = builder.sext(builder.sub(*(load(*pair, at) for pair in pairs)), words)
            square = builder.mul(difference, difference)
            # Sums of neighbouring products of 16 bits are one instruction on x86.
            halves = [builder.shuffle_vector(square, ir.Constant(words, ir.Undefined), places) for places in (even, odd)]
            builder.store(builder.add(builder.load(total), builder.add(*halves)), total)
        name = f"llvm.vector.reduce.add.v{BYTES_AT_ONCE // 2}i32"
        reduce = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [sums]), name)
        return builder.call(reduce, [builder.load(total)])

    return types.int32(matrix, types.int64, others, types.int64), emit


@njit(nogil=True)
def _plain_byte_distance(matrix, row, others, other):
    """The squared distance (int32) of a row of an int8 matrix and one of an int8 or int16 matrix."""
    total = np.int32(0)
    for j in range(matrix.shape[1]):
        difference = np.int32(matrix[row, j]) - np.int32(others[other, j])
        total = np.int32(total + np.int32(difference * difference))
    return total


@njit(nogil=True)
def _plain_blank(shape, dtype):
    """np.empty(shape, dtype)."""
    return np.empty(shape, dtype)


@njit(nogil=True)
def _plain_copy_run(target, at, source, start, count):
    """target.flat[at : at + count] = source.flat[start : start + count]."""
    to, origin = target.reshape(target.size), source.reshape(source.size)
    for i in range(count):
        to[at + i] = origin[start + i]


@njit(nogil=True)
def _plain_shift_up(array, first, last):
    """array[first + 1 : last + 1] = array[first : last]."""
    for place in range(last, first, -1):
        array[place] = array[place - 1]


@njit(nogil=True)
def _plain_prefetch(array, at):
    """Do nothing: prefetching only saves time."""


# blank(shape, dtype): an uninitialised C-contiguous array; `shape` is an integer or a pair.
# copy_run(target, at, source, start, count): copy elements between C-contiguous arrays of one dtype, as if they were flat.
# byte_distance(matrix, row, others, other): the squared distance of rows of int8 matrices, BYTES_AT_ONCE * i wide.
# shift_up(array, first, last): move elements of a one-dimensional C-contiguous array one place up.
# prefetch(array, at): hint that element `at` of a C-contiguous array, taken as flat, is read soon.
blank, copy_run, shift_up, byte_distance, prefetch = (
    (_plain_blank, _plain_copy_run, _plain_shift_up, _plain_byte_distance, _plain_prefetch)
    if PLAIN
    else (_blank, _copy_run, _shift_up, _byte_distance, _prefetch)
)  # fmt: skip

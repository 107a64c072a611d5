"""Loads, stores and copies at plain addresses, of any alignment: what Arrow buffers are made of.

Callers keep the memory alive and in bounds; nothing here checks.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE = ir.IntType(8).as_pointer()


def _copier(kind: ir.Type) -> Any:
    def copy(typing_context, target, source):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            to, start = (builder.inttoptr(one, kind.as_pointer()) for one in arguments)
            builder.store(builder.load(start, align=1), to, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(copy)


copy1 = _copier(ir.IntType(8))
copy2 = _copier(ir.IntType(16))
copy4 = _copier(ir.IntType(32))
copy8 = _copier(ir.IntType(64))
copy16 = _copier(ir.VectorType(ir.IntType(64), 2))


def _loader(kind: ir.Type, result: types.Type) -> Any:
    def load(typing_context, source):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=1)

        return result(types.int64), generate

    return intrinsic(load)


load_i32 = _loader(ir.IntType(32), types.int32)
load_i64 = _loader(ir.IntType(64), types.int64)


def _storer(kind: ir.Type, value: types.Type) -> Any:
    def store(typing_context, target, number):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            to = builder.inttoptr(arguments[0], kind.as_pointer())
            builder.store(arguments[1], to, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, value), generate

    return intrinsic(store)


store_i32 = _storer(ir.IntType(32), types.int32)
store_i64 = _storer(ir.IntType(64), types.int64)


def _move(typing_context, target, source, size):  # type: ignore[no-untyped-def]
    """`size` bytes from `source` to `target`; they may overlap."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        to, start = (builder.inttoptr(one, _BYTE) for one in arguments[:2])
        function = builder.module.declare_intrinsic("llvm.memmove", [_BYTE, _BYTE, ir.IntType(64)])
        builder.call(function, [to, start, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


# An intrinsic's own type would ask for the typing context, which numba adds.
move: Any = intrinsic(_move)

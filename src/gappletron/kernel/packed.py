"""Arguments of compiled functions that stay the same from call to call, passed as one number.

Numba looks at every array of nested tuples in every call, which costs more than a round. :func:`packed` writes the
native value of a tuple to memory once; compiled code gets its address and reads it with :func:`unpacked`.
"""

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from gappletron.base.errors import UserError
from gappletron.base.signals import held_back
from gappletron.kernel.compiling import is_interpreted, look_up
from gappletron.kernel.pieces import CompiledPiece, compiled_by


class Packed(int):
    """A packed tuple: the address of its copy. It keeps the tuple, and so its arrays, alive."""

    _packed_arguments: tuple[Any, ...]
    _packed_kind: "Kind"
    _memory: Any

    def __reduce__(self) -> Any:
        raise TypeError("packed arguments are an address in this process: they cannot be copied or pickled")


class Kind:
    """What all packed tuples of the same types share: their type, their format for :mod:`struct`, and their bytes."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        inner = numba.typeof(arguments)
        self.type, self.form, self.nbytes = PackedType(inner), f"@{_find_format(inner)}", _measure(inner)
        if struct.calcsize(self.form) != self.nbytes:
            raise NotImplementedError(f"{inner} takes {self.nbytes} bytes, and not {struct.calcsize(self.form)}")


def packed(*arguments: Any) -> Packed:
    """Pack these arguments into one; their arrays must not be replaced while it is in use.

    Compiled and interpreted code take the same packed arguments.
    """
    if is_interpreted():
        value = Packed(0)
    else:
        kind = look_up(Kind, arguments, lambda: Kind(arguments))
        memory = bytearray(kind.nbytes + 64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        value = Packed(address + -address % 64)
        value._memory, value._packed_kind = memory, kind
        numbers: list[Any] = []
        _flatten(arguments, numbers)
        struct.pack_into(kind.form, memory, value - address, *numbers)
    value._packed_arguments = arguments
    return value


def _flatten(value: Any, numbers: list[Any]) -> None:
    """Append the numbers of which the native value consists.

    Those of an array are the first seven or more: two for counting references, which our code does not, the number of
    entries and their size, the address, the shape and the strides.
    """
    if isinstance(value, tuple):
        for part in value:
            _flatten(part, numbers)
    elif isinstance(value, np.ndarray):
        address = value.__array_interface__["data"][0]
        numbers += (0, 0, value.size, value.itemsize, address, *value.shape, *value.strides)
    else:
        numbers.append(value)


# How the numbers of native values are stored, as the characters of :mod:`struct`.
CHARACTERS = {types.int64: "q", types.float64: "d", types.boolean: "?"}


def _find_format(kind: Any) -> str:
    if isinstance(kind, types.Array):
        return f"{5 + 2 * kind.ndim}q"
    if isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        inner = "".join(map(_find_format, kind))
        return f"0q{inner}0q" if set(inner) - {"?"} else inner  # begins and ends at a multiple of 8
    if kind not in CHARACTERS:
        raise UserError(
            f"a value of type {kind} cannot be given to compiled code: use float, int, bool, arrays, tuples"
        )
    return CHARACTERS[kind]


def _measure(kind: Any) -> int:
    """Return the bytes of a native value.

    LLVM is asked under a lock of its own. Signals wait meanwhile: a handler that raised there would leave it locked,
    and every other thread would wait for ever.
    """
    context = cpu_target.target_context
    with held_back():
        return int(context.get_abi_sizeof(context.get_value_type(kind)))


def unpacked(value: Packed) -> tuple[Any, ...]:
    """Return the arguments that were packed."""
    return value._packed_arguments


class PackedType(types.Type):
    """A :class:`Packed` as Numba sees it; `inner` is the type of the tuple."""

    bitwidth = 64

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        super().__init__(name=f"Packed({inner})")

    @property
    def key(self) -> Any:
        """What tells two of these types apart: not the name, in which a class and one redefined look the same."""
        return self.inner


register_model(PackedType)(models.IntegerModel)


@typeof_impl.register(Packed)
def _typeof_packed(value: Packed, context: Any) -> PackedType:
    return value._packed_kind.type


@unbox(PackedType)
def _unbox_packed(kind: Any, value: Any, context: Any) -> Any:
    return NativeValue(context.pyapi.long_as_longlong(value))


class Reference(types.Type):
    """The address of a named tuple, of type `inner`, inside of a packed one: its fields are read where they are used.

    As a value it would be hundreds of numbers, an array is seven, that every function which takes a state or a plan has
    as arguments: a quarter of the time of compilation.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        super().__init__(name=f"Reference({inner})")

    @property
    def key(self) -> Any:
        """As that of :class:`PackedType`."""
        return self.inner


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(kind.inner).get_value_type().as_pointer())


def _kind_inside(kind: Any) -> Any:
    """The type of a part of a packed tuple: pieces, numbers and arrays are values, other named tuples references."""
    is_reference = isinstance(kind, types.NamedTuple) and not isinstance(kind, CompiledPiece)  # type: ignore[attr-defined]
    return Reference(kind) if is_reference else kind


def _read_inside(builder: Any, kind: Any, pointer: Any) -> Any:
    """The part at this address."""
    if isinstance(_kind_inside(kind), Reference):
        return pointer
    read, add = builder.load(pointer), builder.module.add_metadata
    packed_kind = add(["packed", add(["gappletron"]), ir.IntType(64)(0)])
    # The last number says that no code ever writes there: LLVM need not read an address again after every store.
    read.set_metadata("tbaa", add([packed_kind, packed_kind, ir.IntType(64)(0), ir.IntType(64)(1)]))
    return read


@infer_getattr
class _ReferenceAttributes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:
        inner = reference.inner
        return _kind_inside(inner[inner.fields.index(name)]) if name in inner.fields else None


@lower_getattr_generic(Reference)
def _lower_attribute(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    place = reference.inner.fields.index(name)
    return _read_inside(builder, reference.inner[place], cgutils.gep_inbounds(builder, value, 0, place))


@intrinsic
def _load_packed(typing_context: Any, value: Any) -> Any:
    parts = value.inner.types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_value_type(value.inner).as_pointer())
        places = (cgutils.gep_inbounds(builder, pointer, 0, place) for place in range(len(parts)))
        read = [_read_inside(builder, kind, place) for kind, place in zip(parts, places, strict=True)]
        return context.make_tuple(builder, signature.return_type, read)

    return types.Tuple([_kind_inside(kind) for kind in parts])(value), code  # type: ignore[attr-defined]


@compiled_by(unpacked)
def _compiled_unpacked(value: Any) -> Callable[..., Any]:
    return lambda value: _load_packed(value)

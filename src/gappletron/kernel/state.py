"""Declared state: what a learner remembers, as data that the engine allocates, measures, saves, compares and resizes.

A piece declares its state as a mapping from names to fields, which may be nested::

    {"weights": Field("features", "classes"), "total": Field(1)}

Compiled methods see it as named tuples of arrays (``state.weights[j, k]``). The axis ``classes`` is padded where it
comes last, so a matrix with that axis has more columns than classes: loop over the classes, not over ``shape[1]``. The
padding holds the fill value and is never read as a result.
"""

import functools
import keyword
import math
import mmap
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gappletron.base.checks import check_memory
from gappletron.base.errors import UserError
from gappletron.kernel.lanes import row_width

AXES = ("features", "classes", "actions")
ALIGNMENT = 64  # bytes: a row of 8 numbers then lies in one cache line
MAPPED = 2**18  # arrays of so many bytes are mappings of their own


class Field:
    """An array that is part of a learner's state.

    :param axes: names of axes (``"features"``, ``"classes"``, ``"actions"``) or fixed lengths; without any, ``1``.
    :param dtype: of the numbers.
    :param fill: the value of every entry at the start, and of entries that are added when an axis grows.
    :param diagonal: for a square array, whose axes repeat in the same order: the value on its diagonal.
    :param least: no entry is ever less (with `diagonal`: no entry of the diagonal).
    :param above: every entry is always greater (with `diagonal`: every entry of the diagonal).

    The last two are checked when a state is saved or loaded, and so is that every entry is finite.

    >>> Field("features", "classes", fill=0.5)
    Field('features', 'classes', fill=0.5)
    """

    def __init__(
        self,
        *axes: str | int,
        dtype: DTypeLike = np.float64,
        fill: float = 0.0,
        diagonal: float | None = None,
        least: float | None = None,
        above: float | None = None,
    ) -> None:
        for axis in axes:
            if axis not in AXES and not (type(axis) is int and axis > 0):
                raise UserError(f"a field has no axis {axis!r}: use 'features', 'classes', 'actions' or a length")
        self.axes = axes or (1,)
        self.dtype, self.fill, self.diagonal = np.dtype(dtype), fill, diagonal
        self.least, self.above = least, above
        half = len(self.axes) // 2
        if diagonal is not None and self.axes[:half] != self.axes[half:]:
            raise UserError(f"a field with the axes {self.axes} has no diagonal: repeat its axes in the same order")

    def __repr__(self) -> str:
        defaults = {"fill": 0.0, "diagonal": None, "least": None, "above": None}
        options = [f"{name}={value!r}" for name in defaults if (value := getattr(self, name)) != defaults[name]]
        return f"{type(self).__name__}({', '.join([*map(repr, self.axes), *options])})"

    def problem(self, values: NDArray[Any]) -> str | None:
        """Return what is wrong with an entry, as the end of a sentence; None where all are allowed.

        >>> Field(least=0).problem(np.array([-2.0])), Field(least=0).problem(np.array([2.0]))
        ('has an entry below 0', None)
        """
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            return "is not finite"
        if self.diagonal is not None:
            letters = "abcdef"[: values.ndim // 2]
            values = np.einsum(f"{letters}{letters}->{letters}", values)  # a view
        if self.least is not None and (values < self.least).any():
            return f"has an entry below {self.least:g}"
        if self.above is not None and (values <= self.above).any():
            return f"has an entry that is not above {self.above:g}"
        return None


class Scratch(Field):
    """An array that a compiled method needs within one round: zero at the start, neither saved nor compared.

    >>> Scratch("classes")
    Scratch('classes')
    """


class Sizes(NamedTuple):
    """The lengths of the named axes.

    >>> Sizes(features=120, classes=9, actions=10).extra
    1
    """

    features: int
    classes: int
    actions: int

    @property
    def extra(self) -> int:
        """The number of actions that are not classes."""
        return self.actions - self.classes

    def shape(self, field: Field) -> tuple[int, ...]:
        """Return the shape of a field, without padding."""
        return tuple(axis if isinstance(axis, int) else getattr(self, axis) for axis in field.axes)

    def padded_shape(self, field: Field) -> tuple[int, ...]:
        """Return the shape of a field as it is allocated: a last axis of classes is a whole number of vectors."""
        shape = self.shape(field)
        if field.axes[-1] == "classes":
            return (*shape[:-1], row_width(self.classes))
        return shape


# What a piece declares: fields by name, and the layouts of the pieces in it.
Layout: TypeAlias = Mapping[str, Field | Mapping[str, Any]]


@functools.cache
def _tuple_class(name: str) -> type[Any]:
    """Return the class of a state's tuple, by its name, which spells the fields: ``State__weights__total``."""
    made = namedtuple(name, name.split("__")[1:])  # type: ignore[misc]
    made.__module__ = __name__
    return globals().setdefault(name, made)  # one class, also where two threads come here first


def __getattr__(name: str) -> Any:
    # Compiled code that is cached on disk names these classes; this finds them, in any process.
    if name.startswith("State__"):
        return _tuple_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Compiled code has no type for an empty tuple of arrays.
UNUSED: Layout = {"unused": Scratch()}


def _flatten(layout: Any, path: str = "") -> Iterator[tuple[str, Field]]:
    """Check a layout, and yield its fields with their names, as in ``optimizer.weights``."""
    if not isinstance(layout, Mapping):
        raise UserError(f"the state declares {path[:-1]} = {layout!r}: declare a Field, a Scratch or a mapping of them")
    for name, field in (layout or UNUSED).items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or "__" in f"_{name}":
            raise UserError(
                f"the state declares {path}{name}: a name is an identifier without leading or double underscores"
            )
        if isinstance(field, Field):
            yield f"{path}{name}", field
        else:
            yield from _flatten(field, f"{path}{name}.")


def _nest(layout: Layout, value: Callable[[str], Any], path: str = "") -> Any:
    layout = layout or UNUSED
    parts = [
        value(path + name) if isinstance(field, Field) else _nest(field, value, f"{path}{name}.")
        for name, field in layout.items()
    ]
    return _tuple_class("__".join(["State", *layout]))(*parts)


def _allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an aligned array of zeros; its pages are only taken when they are written.

    A large one is a mapping of its own, which goes back to the system when it is freed. The allocator of C would keep
    the room of the arrays that a growing state leaves behind.
    """
    size = math.prod(shape) * dtype.itemsize
    if size >= MAPPED:
        return np.frombuffer(mmap.mmap(-1, size, access=mmap.ACCESS_COPY), dtype).reshape(shape)
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def _fill(field: Field, sizes: Sizes) -> NDArray[Any]:
    array = _allocate(sizes.padded_shape(field), field.dtype)
    if field.fill:
        array.fill(field.fill)
    if field.diagonal is not None:
        half = sizes.shape(field)[: len(field.axes) // 2]
        places = tuple(grid.ravel() for grid in np.indices(half))
        array[places + places] = field.diagonal
    return array


def freeze(table: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make the arrays of a tuple read-only, and return it.

    >>> freeze((2, np.zeros(3)))[1].flags.writeable
    False
    """
    for part in table:
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
    return table


class State:
    """The arrays of a layout for some sizes.

    >>> state = State({"weights": Field("features", "classes"), "rounds": Field(dtype="int64")}, Sizes(5, 3, 3))
    >>> state.arrays["weights"].shape, state.tuple.weights.shape, state.nbytes
    ((5, 3), (5, 4), 168)
    >>> state.resized(Sizes(8, 3, 3)).arrays["weights"].shape
    (8, 3)
    """

    def __init__(self, layout: Layout, sizes: Sizes) -> None:
        self.layout, self.sizes = layout, sizes
        self._fields = dict(_flatten(layout))
        check_memory(
            measure(layout, sizes),
            f"the state for {sizes.features} features x {sizes.classes} classes",
            "hash the features into fewer, or choose a learner without a full matrix",
        )
        self._padded = {name: _fill(field, sizes) for name, field in self._fields.items()}
        self._tuples: dict[int, Any] = {}

    @property
    def tuple(self) -> Any:
        """The state as compiled code sees it: nested named tuples of (padded) arrays."""
        return self.view(self.sizes.classes)

    def view(self, classes: int) -> Any:
        """Return the state for a round that was played when there were only so many classes."""
        if classes not in self._tuples:
            if classes != self.sizes.classes and any(
                "actions" in field.axes for field in self._fields.values() if not isinstance(field, Scratch)
            ):
                raise UserError(
                    "the learner keeps numbers per action, which a new class has moved: a turn from before it was "
                    "added cannot be learned from"
                )
            sizes = self.sizes._replace(classes=classes, actions=classes + self.sizes.extra)
            self._tuples[classes] = _nest(self.layout, lambda name: self._cut(name, sizes))
        return self._tuples[classes]

    def _cut(self, name: str, sizes: Sizes) -> NDArray[Any]:
        """Return an array for these sizes; a vector with one entry per class has no padding that a loop could see."""
        field, array = self._fields[name], self._padded[name]
        if isinstance(field, Scratch) and sizes != self.sizes:
            array = _fill(field, sizes._replace(classes=self.sizes.classes))  # its padding must be 0
        return array[: sizes.classes] if field.axes == ("classes",) else array

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is remembered, by name, without scratch and without padding: views of the state itself."""
        return self.cut(self.sizes)

    def cut(self, sizes: Sizes) -> dict[str, NDArray[Any]]:
        """Return as :attr:`arrays` what is remembered of the first features, classes and actions."""
        return {
            name: self._padded[name][tuple(map(slice, sizes.shape(field)))]
            for name, field in self._fields.items()
            if not isinstance(field, Scratch)
        }

    @property
    def nbytes(self) -> int:
        """The memory of all arrays."""
        return sum(array.nbytes for array in self._padded.values())

    def resized(self, sizes: Sizes) -> Self:
        """Return a state of other sizes: what was there stays, what is new is filled. Extra actions stay last."""
        before, fields = self.sizes, self._fields
        state = type(self)(self.layout, sizes)
        places = {
            "features": np.arange(before.features),
            "classes": np.arange(before.classes),
            "actions": np.concatenate(
                [np.arange(before.classes), np.arange(sizes.classes, sizes.classes + before.extra)]
            ),
        }
        for name, array in self.arrays.items():
            where = [places[axis] if isinstance(axis, str) else np.arange(axis) for axis in fields[name].axes]
            state._padded[name][np.ix_(*where)] = array
        return state

    def problem(self) -> str | None:
        """Return a clause on the first field whose values are not as declared; None where all are.

        >>> state = State({"weights": Field("features", "classes")}, Sizes(2, 2, 2))
        >>> state.arrays["weights"][1, 0] = math.nan
        >>> state.problem()
        "'weights' is not finite"
        """
        problems = ((name, self._fields[name].problem(array)) for name, array in self.arrays.items())
        return next((f"{name!r} {problem}" for name, problem in problems if problem is not None), None)

    def load(self, saved: Mapping[str, NDArray[Any]], sizes: Sizes | None = None) -> None:
        """Take over the arrays of another state of the same layout, by name, and of these sizes, which are at most its
        own.

        Entries that the fields do not allow, such as NaN, are a UserError.
        """
        given = sizes or self.sizes
        check_shapes(self.layout, given, saved)
        for name, array in self.cut(given).items():
            problem = self._fields[name].problem(saved[name])
            if problem is not None:
                raise UserError(f"the saved array {name!r} {problem}: the file is damaged, load an older copy")
            array[...] = saved[name]

    def __eq__(self, other: object) -> bool:
        """The same sizes and the same bits in every array that is remembered."""
        if not isinstance(other, State):
            return NotImplemented
        mine, theirs = ({name: array.tobytes() for name, array in state.arrays.items()} for state in (self, other))
        return self.sizes == other.sizes and mine == theirs

    __hash__ = None  # type: ignore[assignment] # it changes


def measure(layout: Layout, sizes: Sizes) -> int:
    """Return the bytes of a state with this layout and these sizes.

    >>> measure({"weights": Field("features", "classes")}, Sizes(1000, 9, 9))
    96000
    """
    return sum(math.prod(sizes.padded_shape(field)) * field.dtype.itemsize for _, field in _flatten(layout))


def check_shapes(layout: Layout, sizes: Sizes, saved: Mapping[str, NDArray[Any]]) -> None:
    """Refuse saved arrays that do not fit a layout and sizes, before memory is taken for them.

    >>> check_shapes({"weights": Field("features", "classes")}, Sizes(2, 3, 3), {"weights": np.zeros((2, 3))})
    """
    fields = {name: field for name, field in _flatten(layout) if not isinstance(field, Scratch)}
    for name, field in fields.items():
        array = saved.get(name)
        if array is None or array.shape != sizes.shape(field) or array.dtype != field.dtype:
            raise UserError(
                f"the saved array {name!r} does not fit the learner: the file is damaged, or a component has changed "
                "since it was written"
            )

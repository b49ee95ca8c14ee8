"""Loops over the classes of a row with the number of classes known to the compiler.

The rows of every matrix with one number per class are padded to a whole number of vectors (:func:`row_width`). The
width is a type (:class:`gappletron.kernel.numerics.Lanes`), so compiled code exists once per padded width: the loops
below have no run-time bound, and the scores of a row stay in registers until the row is done. Beyond :data:`WIDEST`
there is one code for all widths, which multiplies block by block.

Each lane does the same multiplications and additions in the same order as the plain loops of
:mod:`gappletron.kernel.numerics` (no fused multiply-add), so the results are the same bits. Matrices of single floats
are read as doubles, and rounded where they are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Doubles per vector of LLVM's code: the width of AVX2. Narrower machines split a vector, wider ones lose little.
VECTOR = 4

# The largest padded width with code of its own. At most 16 vectors: more would not fit in the registers.
WIDEST = 64


def padded_width(classes: int) -> int:
    """Return the width of rows for so many classes that has code of its own: 2, or a whole number of vectors; 0 beyond
    :data:`WIDEST`.

    >>> padded_width(2), padded_width(9), padded_width(1000)
    (2, 12, 0)
    """
    width = 2 if classes == 2 else row_width(classes)
    return width if width <= WIDEST else 0


def row_width(classes: int) -> int:
    """Return the room of a row for so many classes: 2, or a whole number of vectors.

    >>> row_width(2), row_width(9), row_width(1001)
    (2, 12, 1004)
    """
    return 2 if classes == 2 else -(-classes // VECTOR) * VECTOR


# ------------------------------------------------------------------------------------------------------ LLVM's code

DOUBLE, SINGLE, WORD, INT = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(32)
LANE = ir.VectorType(DOUBLE, VECTOR)
INDICES = ir.VectorType(WORD, VECTOR)
SHIFT = VECTOR.bit_length() - 1
# Vectors of sums that are kept in registers while a row of unknown width is multiplied.
BLOCK = 8


def _splat(builder: Any, number: Any, lanes: int = VECTOR) -> Any:
    """A vector with the same number in every lane."""
    undefined = ir.VectorType(number.type, lanes)(ir.Undefined)
    first = builder.insert_element(undefined, number, INT(0))
    return builder.shuffle_vector(first, undefined, ir.VectorType(INT, lanes)([0] * lanes))


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The address of an array's first element."""
    return context.make_array(kind)(context, builder, value).data


class _Numbers:
    """A vector or a matrix in LLVM's code: doubles, or single floats that are read and written as doubles."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self.builder, self.element = builder, SINGLE if str(kind.dtype) == "float32" else DOUBLE
        array = context.make_array(kind)(context, builder, value)
        self.data = array.data
        self.columns = builder.extract_value(array.shape, kind.ndim - 1)

    def at(self, place: Any) -> Any:
        """Return the address of a number."""
        return self.builder.gep(self.data, [place])

    def read(self, address: Any) -> Any:
        """Return a number as a double."""
        return self.widen(self.builder.load(address))

    def write(self, number: Any, address: Any) -> None:
        """Store a double."""
        self.builder.store(self.narrow(number), address)

    def read_vector(self, address: Any, lanes: int) -> Any:
        """Return so many numbers side by side, as doubles."""
        pointer = self.builder.bitcast(address, ir.VectorType(self.element, lanes).as_pointer())
        return self.widen(self.builder.load(pointer, align=self._align))

    def write_vector(self, vector: Any, address: Any) -> None:
        """Store doubles side by side."""
        stored = self.narrow(vector)
        pointer = self.builder.bitcast(address, stored.type.as_pointer())
        self.builder.store(stored, pointer, align=self._align)

    def read_row(self, address: Any, width: int) -> list[Any]:
        """Return the vectors of a row of this width."""
        return [self.read_vector(place, lanes) for place, lanes in self.split_row(address, width)]

    def write_row(self, vectors: Sequence[Any], address: Any, width: int) -> None:
        """Store the vectors of a row."""
        for vector, (place, _) in zip(vectors, self.split_row(address, width), strict=True):
            self.write_vector(vector, place)

    def split_row(self, address: Any, width: int) -> list[tuple[Any, int]]:
        """Return where the vectors of a row begin, and how many numbers each has."""
        lanes = min(width, VECTOR)
        return [(self.builder.gep(address, [WORD(place)]), lanes) for place in range(0, width, lanes)]

    @property
    def _align(self) -> int:
        return 4 if self.element is SINGLE else 8

    def widen(self, value: Any) -> Any:
        """Return a number or a vector as doubles."""
        return self.builder.fpext(value, _like(value, DOUBLE)) if self.element is SINGLE else value

    def narrow(self, value: Any) -> Any:
        """Return a double or a vector of doubles as it is stored."""
        return self.builder.fptrunc(value, _like(value, SINGLE)) if self.element is SINGLE else value


def _like(value: Any, element: Any) -> Any:
    """The type of a number or a vector with other elements."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def _over_entries(
    builder: Any, start: Any, stop: Any, carried: Sequence[Any], body: Callable[[Any, Sequence[Any]], Sequence[Any]]
) -> Sequence[Any]:
    """A loop ``for p in range(start, stop)`` that carries vectors from one pass to the next; the last ones.

    The slots on the stack become registers when LLVM optimises the caller.
    """
    slots = [cgutils.alloca_once_value(builder, value) for value in carried]
    for slot, value in zip(slots, carried, strict=True):
        builder.store(value, slot)  # the loop may itself stand in a loop
    with cgutils.for_range(builder, stop, start, WORD) as loop:
        for slot, value in zip(slots, body(loop.index, [builder.load(slot) for slot in slots]), strict=True):
            builder.store(value, slot)
    return [builder.load(slot) for slot in slots]


def width_of(x: Any) -> int:
    """Return the padded number of classes from the compiled type of a row; 0 where it is not known."""
    return int(x.types[x.fields.index("lanes")].instance_class.width)


class _Entries:
    """The entries of a sparse x in LLVM's code, and the rows of matrices that belong to them."""

    def __init__(self, context: Any, builder: Any, kind: Any, x: Any) -> None:
        self.builder, self.width = builder, width_of(kind)
        parts = [builder.extract_value(x, place) for place in range(4)]
        self.indices, self.values = (_data(context, builder, kind.types[place], parts[place]) for place in (0, 1))
        self.start, self.stop = (
            context.cast(builder, parts[place], kind.types[place], types.int64) for place in (2, 3)
        )

    def value(self, p: Any) -> Any:
        """Return the number of entry p."""
        return self.builder.load(self.builder.gep(self.values, [p]))

    def row(self, matrix: _Numbers, p: Any) -> Any:
        """Return the address of the row of a matrix that belongs to entry p."""
        feature = self.builder.sext(self.builder.load(self.builder.gep(self.indices, [p])), WORD)
        return matrix.at(self.builder.mul(feature, WORD(self.width) if self.width else matrix.columns))

    def loop_blocks(
        self, carried: Sequence[Any], body: Callable[[_Block, Sequence[Any]], Sequence[Any]]
    ) -> Sequence[Any]:
        """Make a loop over blocks of entries. The features of a row are distinct, so those of a block may be moved side
        by side; in the last block the last entry stands in all lanes that are left over.
        """
        builder = self.builder
        size, last = builder.sub(self.stop, self.start), builder.sub(self.stop, WORD(1))
        blocks = builder.ashr(builder.add(size, WORD(VECTOR - 1)), WORD(SHIFT))

        def block(number: Any, carried: Sequence[Any]) -> Sequence[Any]:
            first = builder.add(self.start, builder.shl(number, WORD(SHIFT)))
            places = [builder.add(first, WORD(lane)) for lane in range(VECTOR)]
            inside = [builder.icmp_signed("<=", place, last) for place in places]
            entries = [builder.select(*each, last) for each in zip(inside, places, strict=True)]
            return body(_Block(self, entries, inside), carried)

        return _over_entries(builder, WORD(0), blocks, carried, block)

    def loop(self, carried: Sequence[Any], body: Callable[[Any, Sequence[Any]], Sequence[Any]]) -> Sequence[Any]:
        """Make a loop over the entries."""
        return _over_entries(self.builder, self.start, self.stop, carried, body)


class _Block:
    """As many entries as a vector has lanes, and whether each is another one than that before it."""

    def __init__(self, x: _Entries, entries: Sequence[Any], inside: Sequence[Any]) -> None:
        self.x, self.entries, self.inside = x, entries, inside
        self.values = self._join([x.value(p) for p in entries])

    def _join(self, numbers: Sequence[Any]) -> Any:
        vector = ir.VectorType(numbers[0].type, VECTOR)(ir.Undefined)
        for lane, number in enumerate(numbers):
            vector = self.x.builder.insert_element(vector, number, INT(lane))
        return vector

    def gather(self, matrix: _Numbers, k: Any) -> tuple[Any, list[Any]]:
        """Return column k of a matrix at these entries, and the addresses."""
        places = [self.x.builder.gep(self.x.row(matrix, p), [k]) for p in self.entries]
        return matrix.widen(self._join([self.x.builder.load(place) for place in places])), places

    def scatter(self, matrix: _Numbers, vector: Any, places: Sequence[Any]) -> None:
        """Store a vector at these addresses."""
        stored = matrix.narrow(vector)
        for lane, place in enumerate(places):
            self.x.builder.store(self.x.builder.extract_element(stored, INT(lane)), place)

    def add_up(self, total: Any, terms: Any) -> Any:
        """Add the terms to a total, one after the other."""
        for lane, inside in enumerate(self.inside):
            term = self.x.builder.extract_element(terms, INT(lane))
            total = self.x.builder.fadd(total, self.x.builder.select(inside, term, DOUBLE(0.0)))
        return total


@intrinsic
def multiply_rows(typing_context: Any, weights: Any, x: Any, out: Any) -> Any:
    """out = W^T x, with the sums in registers."""
    return types.void(weights, x, out), _multiply(x, lambda _builder, value: value)


@intrinsic
def multiply_squares(typing_context: Any, weights: Any, x: Any, out: Any) -> Any:
    """As :func:`multiply_rows`, with x^2 in place of x."""
    return types.void(weights, x, out), _multiply(x, lambda builder, value: builder.fmul(value, value))


def _multiply(x: Any, change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the code of a product with x, each value of which is changed first."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, sums = (_Numbers(context, builder, signature.args[place], arguments[place]) for place in (0, 2))
        entries = _Entries(context, builder, x, arguments[1])

        def multiply(first: Any, width: int) -> None:
            """Multiply so many columns, from the first on."""

            def add(p: Any, totals: Sequence[Any]) -> Sequence[Any]:
                row = matrix.read_row(builder.gep(entries.row(matrix, p), [first]), width)
                value = _splat(builder, change(builder, entries.value(p)), min(width, VECTOR))
                return [builder.fadd(total, builder.fmul(value, part)) for total, part in zip(totals, row, strict=True)]

            lanes = min(width, VECTOR)
            zeros = [ir.VectorType(DOUBLE, lanes)([0.0] * lanes)] * (width // lanes)
            sums.write_row(entries.loop(zeros, add), sums.at(first), width)

        if entries.width:
            multiply(WORD(0), entries.width)
            return context.get_dummy_value()
        blocks = builder.udiv(matrix.columns, WORD(BLOCK * VECTOR))
        with cgutils.for_range(builder, blocks, intp=WORD) as loop:
            multiply(builder.mul(loop.index, WORD(BLOCK * VECTOR)), BLOCK * VECTOR)
        done = builder.mul(blocks, WORD(BLOCK * VECTOR))
        rest = builder.lshr(builder.sub(matrix.columns, done), WORD(SHIFT))
        with cgutils.for_range(builder, rest, intp=WORD) as loop:
            multiply(builder.add(done, builder.shl(loop.index, WORD(SHIFT))), VECTOR)
        return context.get_dummy_value()

    return code


@intrinsic
def add_rows(typing_context: Any, weights: Any, x: Any, direction: Any, factor: Any) -> Any:
    """W += factor * x (x) direction."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, along = (_Numbers(context, builder, signature.args[place], arguments[place]) for place in (0, 2))
        entries = _Entries(context, builder, x, arguments[1])
        directions = along.read_row(along.data, entries.width)

        def add(p: Any, _: Sequence[Any]) -> Sequence[Any]:
            base = entries.row(matrix, p)
            step = _splat(builder, builder.fmul(arguments[3], entries.value(p)), min(entries.width, VECTOR))
            row = matrix.read_row(base, entries.width)
            moved = [builder.fadd(w, builder.fmul(step, d)) for w, d in zip(row, directions, strict=True)]
            matrix.write_row(moved, base, entries.width)
            return []

        entries.loop([], add)
        return context.get_dummy_value()

    return types.void(weights, x, direction, types.float64), code


@intrinsic
def add_columns(typing_context: Any, weights: Any, x: Any, columns: Any, factors: Any) -> Any:
    """W^k += a x for two columns k and their factors a."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = _Numbers(context, builder, signature.args[0], arguments[0])
        entries = _Entries(context, builder, x, arguments[1])
        pairs = [[builder.extract_value(arguments[part], place) for part in (2, 3)] for place in (0, 1)]

        def add(p: Any, _: Sequence[Any]) -> Sequence[Any]:
            row, value = entries.row(matrix, p), entries.value(p)
            for column, factor in pairs:
                place = builder.gep(row, [column])
                matrix.write(builder.fadd(matrix.read(place), builder.fmul(factor, value)), place)
            return []

        entries.loop([], add)
        return context.get_dummy_value()

    two_columns, two_factors = (types.UniTuple(kind, 2) for kind in (types.int64, types.float64))  # type: ignore[attr-defined]
    return types.void(weights, x, two_columns, two_factors), code


@intrinsic
def divide_rows(typing_context: Any, arrays: Any, x: Any, direction: Any, bend: Any, push: Any) -> Any:
    """With (V, b, A) = `arrays`, ``g = x (x) direction``: ``A += bend g^2``, ``b += push g``, ``V = -b/A``; the change
    of ||V||^2.

    The divisions of a row are done side by side, which the compiler does not dare on its own: it cannot know that the
    three arrays do not overlap. The change is added up entry by entry, as the plain loop does.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state = [_Numbers(context, builder, arrays[i], builder.extract_value(arguments[0], i)) for i in range(3)]
        entries = _Entries(context, builder, x, arguments[1])
        along, lanes = _Numbers(context, builder, signature.args[2], arguments[2]), min(entries.width, VECTOR)
        directions = along.read_row(along.data, entries.width)
        bend, push = (_splat(builder, arguments[place], lanes) for place in (3, 4))

        def divide(p: Any, change: Sequence[Any]) -> Sequence[Any]:
            value, total = _splat(builder, entries.value(p), lanes), change[0]
            rows = (matrix.split_row(entries.row(matrix, p), entries.width) for matrix in state)
            for d, *parts in zip(directions, *rows, strict=True):
                places = [place for place, _ in parts]
                old, b, a = (matrix.read_vector(place, lanes) for matrix, place in zip(state, places, strict=True))
                g = builder.fmul(value, d)
                b = builder.fadd(b, builder.fmul(push, g))
                a = builder.fadd(a, builder.fmul(builder.fmul(bend, g), g))
                new = builder.fdiv(builder.fneg(b), a)
                for matrix, vector, place in zip(state, (new, b, a), places, strict=True):
                    matrix.write_vector(vector, place)
                term = builder.fmul(builder.fsub(new, old), builder.fadd(new, old))
                for lane in range(lanes):
                    total = builder.fadd(total, builder.extract_element(term, INT(lane)))
            return [total]

        return entries.loop([DOUBLE(0.0)], divide)[0]

    return types.float64(arrays, x, direction, types.float64, types.float64), code


def _larger(builder: Any, a: Any, b: Any) -> Any:
    """max(a, b), lane by lane."""
    return builder.select(builder.fcmp_ordered(">", b, a), b, a)


@intrinsic
def forget_column(typing_context: Any, variances: Any, x: Any, k: Any, retain: Any) -> Any:
    """``S = S / (S + retain (1 - S))`` at column k where x is not 0; the sum of x^2 S."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = _Numbers(context, builder, variances, arguments[0])
        entries = _Entries(context, builder, x, arguments[1])
        ones, keep = _splat(builder, DOUBLE(1.0)), _splat(builder, arguments[3])

        def forget(block: _Block, totals: Sequence[Any]) -> Sequence[Any]:
            before, places = block.gather(matrix, arguments[2])
            S = builder.fdiv(before, builder.fadd(before, builder.fmul(keep, builder.fsub(ones, before))))
            S = builder.select(builder.fcmp_unordered("!=", block.values, LANE([0.0] * VECTOR)), S, before)
            block.scatter(matrix, S, places)
            return [block.add_up(totals[0], builder.fmul(builder.fmul(block.values, block.values), S))]

        return entries.loop_blocks([DOUBLE(0.0)], forget)[0]

    return types.float64(variances, x, types.int64, types.float64), code


@intrinsic
def vary_column(typing_context: Any, arrays: Any, x: Any, k: Any, step: Any, gain: Any, least: Any) -> Any:
    """With (W, S) = `arrays`: ``W += step S x``, ``S = max(least, S / (1 + S (gain x^2)))`` at column k."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        W, V = (_Numbers(context, builder, arrays[i], builder.extract_value(arguments[0], i)) for i in range(2))
        entries = _Entries(context, builder, x, arguments[1])
        step, gain, least = (_splat(builder, arguments[place]) for place in (3, 4, 5))
        ones = _splat(builder, DOUBLE(1.0))

        def move(block: _Block, _: Sequence[Any]) -> Sequence[Any]:
            (w, to_w), (S, to_S) = (block.gather(matrix, arguments[2]) for matrix in (W, V))
            block.scatter(W, builder.fadd(w, builder.fmul(builder.fmul(step, S), block.values)), to_w)
            grown = builder.fmul(S, builder.fmul(gain, builder.fmul(block.values, block.values)))
            block.scatter(V, _larger(builder, least, builder.fdiv(S, builder.fadd(ones, grown))), to_S)
            return []

        entries.loop_blocks([], move)
        return context.get_dummy_value()

    return types.void(arrays, x, types.int64, types.float64, types.float64, types.float64), code


@intrinsic
def root_column(typing_context: Any, arrays: Any, x: Any, k: Any, derivative: Any, numbers: Any) -> Any:
    """With (W, G) = `arrays` and (weight, rate, delta, clip) = `numbers`: ``g = weight x derivative``,
    ``G += g^2``, ``W -= rate g / sqrt(delta + G)`` at column k, clipped.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        W, V = (_Numbers(context, builder, arrays[i], builder.extract_value(arguments[0], i)) for i in range(2))
        entries = _Entries(context, builder, x, arguments[1])
        given = [builder.extract_value(arguments[4], place) for place in range(4)]
        weight, rate, delta, high = (_splat(builder, number) for number in given)
        slope, low = _splat(builder, arguments[3]), builder.fneg(high)
        kind = ir.FunctionType(LANE, [LANE])
        root = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{VECTOR}f64")

        def move(block: _Block, _: Sequence[Any]) -> Sequence[Any]:
            (w, to_w), (G, to_G) = (block.gather(matrix, arguments[2]) for matrix in (W, V))
            g = builder.fmul(builder.fmul(weight, block.values), slope)
            G = builder.fadd(G, builder.fmul(g, g))
            block.scatter(V, G, to_G)
            change = builder.fdiv(builder.fmul(rate, g), builder.call(root, [builder.fadd(delta, G)]))
            moved = _larger(builder, low, builder.fsub(w, change))
            block.scatter(W, builder.select(builder.fcmp_ordered("<", moved, high), moved, high), to_w)
            return []

        entries.loop_blocks([], move)
        return context.get_dummy_value()

    four = types.UniTuple(types.float64, 4)  # type: ignore[attr-defined]
    return types.void(arrays, x, types.int64, types.float64, four), code


@intrinsic
def nonzero_lanes(typing_context: Any, vector: Any, x: Any) -> Any:
    """A word whose bit k is set where entry k of a padded vector is not 0; x tells the number of classes."""
    width = width_of(x)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, lanes = WORD(0), min(width, VECTOR)
        zeros = ir.VectorType(DOUBLE, lanes)([0.0] * lanes)
        numbers = _Numbers(context, builder, signature.args[0], arguments[0])
        for place, part in enumerate(numbers.read_row(numbers.data, width)):
            bits = builder.bitcast(builder.fcmp_unordered("!=", part, zeros), ir.IntType(lanes))
            word = builder.or_(word, builder.shl(builder.zext(bits, WORD), WORD(place * lanes)))
        return word

    return types.uint64(vector, x), code


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """The position of the lowest bit that is set."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), code


@intrinsic
def largest_entry(typing_context: Any, vector: Any, excluded: Any) -> Any:
    """The position of the largest entry of a vector other than that at `excluded` (-1: none), the lowest on a tie.

    First the largest number, then where it is: without a branch per entry, since which class wins is random, and
    branches on it are mispredicted.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        size, lanes, bits = builder.extract_value(array.shape, 0), INDICES(list(range(VECTOR))), ir.IntType(VECTOR)
        sizes, left_out = _splat(builder, size), _splat(builder, arguments[1])
        blocks = builder.lshr(builder.add(size, WORD(VECTOR - 1)), WORD(SHIFT))
        lowest = LANE([-math.inf] * VECTOR)
        kind = ir.FunctionType(LANE, [LANE.as_pointer(), INT, ir.VectorType(ir.IntType(1), VECTOR), LANE])
        load = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{VECTOR}f64.p0")

        def read(block: Any) -> tuple[Any, Any, Any]:
            """Return where a block begins, which of its entries count, and these; nothing else is touched."""
            start = builder.shl(block, WORD(SHIFT))
            places = builder.add(_splat(builder, start), lanes)
            inside = builder.icmp_signed("<", places, sizes)
            counts = builder.and_(inside, builder.icmp_signed("!=", places, left_out))
            pointer = builder.bitcast(builder.gep(array.data, [start]), LANE.as_pointer())
            return start, counts, builder.call(load, [pointer, INT(8), counts, lowest])

        def enlarge(block: Any, best: Sequence[Any]) -> Sequence[Any]:
            return [_larger(builder, best[0], read(block)[2])]

        top = _over_entries(builder, WORD(0), blocks, [lowest], enlarge)[0]
        for step in (2, 1):
            turned = builder.shuffle_vector(top, top, ir.VectorType(INT, VECTOR)([k ^ step for k in range(VECTOR)]))
            top = _larger(builder, top, turned)

        def find(passed: Any, found: Sequence[Any]) -> Sequence[Any]:
            start, counts, entries = read(builder.sub(builder.sub(blocks, WORD(1)), passed))
            same = builder.bitcast(builder.and_(counts, builder.fcmp_ordered("==", entries, top)), bits)
            place = builder.add(start, builder.zext(builder.cttz(same, ir.IntType(1)(0)), WORD))
            return [builder.select(builder.icmp_unsigned("!=", same, bits(0)), place, found[0])]

        # Where there is nothing but NaN, the first that is allowed.
        first = builder.zext(builder.icmp_signed("==", arguments[1], WORD(0)), WORD)
        return _over_entries(builder, WORD(0), blocks, [first], find)[0]

    return types.int64(vector, types.int64), code

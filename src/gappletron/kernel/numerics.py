"""Small loops that every piece shares, in the one order of operations that all ways of running agree on.

Interpreted and compiled code give the same bits for plain loops, ``math.exp`` and ``math.log``; they do not for ``**``,
``np.exp``, ``np.sum`` or ``np.dot``. So kernels use the functions below and nothing else.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gappletron.kernel.lanes import (
    VECTOR,
    WIDEST,
    add_columns,
    add_rows,
    divide_rows,
    forget_column,
    largest_entry,
    lowest_bit,
    multiply_rows,
    multiply_squares,
    nonzero_lanes,
    padded_width,
    root_column,
    row_width,
    vary_column,
    width_of,
)
from gappletron.kernel.pieces import Piece, PieceType, compiled_by, helper
from gappletron.kernel.types import Floats, Ints

# A feature beyond this is refused at the border: with it the squares of scores, weighted and summed up over any number
# of rounds, stay within the range of doubles.
LARGEST_VALUE = 1e50

LARGEST_STEP = 1e50  # no update moves a weight further, where the learner's own formula has no bound
LEAST_PROBABILITY = 2.0**-53  # draws are multiples of this: nothing less likely is ever drawn
ROUNDING = 1e-6  # how far the sum of probabilities that come from outside may be from 1
UNSEEN_LABEL = -1  # in place of a label's position: the graph did not show it
ALL_ROUNDS, ONE_IN = 1024, 8  # what need not follow every round follows all of the first ones, then one in eight

# The golden section, (sqrt(5) - 1) / 2. Its multiples, modulo 1, are spread evenly: rounds chosen by them do not keep
# step with a periodic stream.
GOLDEN = 0.6180339887498949


@helper
def is_followed(rounds: float) -> bool:
    """Return whether a costly statistic is updated in this round, the number of which is given."""
    return rounds <= ALL_ROUNDS or (rounds * GOLDEN) % 1.0 < 1.0 / ONE_IN


class Lanes(Piece, abstract=True):
    """The padded number of classes as a type.

    >>> lanes_for(9), lanes_for(9).width, lanes_for(1000).width
    (Lanes12(), 12, 0)
    """

    width: ClassVar[int] = 0

    def padded(self, classes: int) -> int:
        """Return the length of a row for so many classes."""
        return row_width(classes)


# Module-level names, so that the on-disk cache of compiled code can refer to the classes. 0 stands for any width.
for _width in (2, *range(0, WIDEST + 1, VECTOR)):
    _name = f"Lanes{_width}"
    globals()[_name] = PieceType(_name, (Lanes,), {"__module__": __name__, "__qualname__": _name, "width": _width})


@functools.cache
def lanes_for(classes: int) -> Any:
    """Return the lanes for so many classes: 2, a multiple of 4 up to 64, any width beyond."""
    return globals()[f"Lanes{padded_width(classes)}"]()


class Row(NamedTuple):
    """A sparse feature vector x: entries `start` to `stop` of a chunk's indices and values.

    `squared` is ||x||_2^2, and `lanes` the padded number of classes of the matrices that x is multiplied with.
    """

    indices: Ints
    values: Floats
    start: int
    stop: int
    squared: float
    lanes: Lanes


def argmax(scores: Floats) -> int:
    """The position of the largest score, the lowest one on a tie."""
    best = 0
    for k in range(1, scores.size):
        if scores[k] > scores[best]:
            best = k
    return best


@compiled_by(argmax)
def _compiled_argmax(scores: Any) -> Callable[..., int]:
    return (lambda scores: largest_entry(scores, -1)) if are_doubles(scores) else argmax


def rival(scores: Floats, y: int) -> int:
    """The position of the largest score other than that of `y`, the lowest one on a tie."""
    best = 1 if y == 0 else 0
    for k in range(best + 1, scores.size):
        if k != y and scores[k] > scores[best]:
            best = k
    return best


@compiled_by(rival)
def _compiled_rival(scores: Any, y: Any) -> Callable[..., int]:
    return (lambda scores, y: largest_entry(scores, y)) if are_doubles(scores) else rival


@helper
def margin(scores: Floats, y: int) -> float:
    """m(y) = s_y - max_{k != y} s_k."""
    return scores[y] - scores[rival(scores, y)]


@helper
def hinge_direction(y: int, r: int, slope: float, out: Floats) -> None:
    """out = -slope (e_y - e_r), the gradient of a function of s_y - s_r that falls with this slope."""
    for k in range(out.size):
        out[k] = 0.0
    out[y] = -slope
    out[r] = slope


# Of small whole numbers: a logarithm costs as much as a dozen additions.
LOGARITHMS = np.array([0.0, *(math.log(number) for number in range(1, 129))])


@helper
def log_of(number: int) -> float:
    """ln of a whole number."""
    return LOGARITHMS[number] if number < 129 else math.log(number)


@helper
def log_partition(scores: Floats, top: int) -> float:
    """ln sum_k exp(s_k - s_top), with `top` the argmax: at least 0, and no term overflows."""
    total = 0.0
    for k in range(scores.size):
        if k != top:
            total += math.exp(scores[k] - scores[top])
    return math.log1p(total)


def to_double(number: float) -> float:
    """Return a number as a double: matrices may hold single floats, which NumPy would not widen."""
    return float(number)


@compiled_by(to_double)
def _compiled_to_double(number: Any) -> Callable[..., float]:
    return lambda number: np.float64(number)


def dot(weights: Floats, x: Row, out: Floats) -> None:
    """out = W^T x for feature-major W (d x K): each active feature adds one contiguous row.

    W and `out` have the axis `classes` last (the engine pads it), as declared in a state or as the scores that are
    passed in.
    """
    K = out.size
    for k in range(K):
        out[k] = 0.0
    for p in range(x.start, x.stop):
        j = x.indices[p]
        v = x.values[p]
        for k in range(K):
            out[k] += v * to_double(weights[j, k])


@compiled_by(dot)
def _compiled_dot(weights: Any, x: Any, out: Any) -> Callable[..., None]:
    return (lambda weights, x, out: multiply_rows(weights, x, out)) if are_vectors(weights, out) else dot


def weigh_squares(variances: Floats, x: Row, out: Floats) -> None:
    """out = the sums of x^2 S, class by class; S and `out` as in :func:`dot`."""
    for k in range(out.size):
        out[k] = 0.0
    for p in range(x.start, x.stop):
        j = x.indices[p]
        square = x.values[p] * x.values[p]
        for k in range(out.size):
            out[k] += square * to_double(variances[j, k])


@compiled_by(weigh_squares)
def _compiled_weigh_squares(variances: Any, x: Any, out: Any) -> Callable[..., None]:
    if not are_vectors(variances, out):
        return weigh_squares
    return lambda variances, x, out: multiply_squares(variances, x, out)


def next_nonzero(direction: Floats, x: Row, k: int) -> int:
    """The first class from k on whose entry is not 0; the number of classes where there is none. x tells the compiler
    that number.

    In compiled code without a branch per class: which classes have an entry is random.
    """
    while k < direction.size and direction[k] == 0.0:
        k += 1
    return k


@compiled_by(next_nonzero)
def _compiled_next_nonzero(direction: Any, x: Any, k: Any) -> Callable[..., int]:
    def of_few(direction: Floats, x: Row, k: int) -> int:
        if k >= direction.size:
            return direction.size
        left = nonzero_lanes(direction, x) >> np.uint64(k)
        return k + lowest_bit(left) if left != 0 else direction.size

    return of_few if width_of(x) and are_doubles(direction) else next_nonzero


def are_doubles(*arrays: Any) -> bool:
    """Whether these compiled types are contiguous arrays of doubles, which the vector code needs."""
    return all(str(array.dtype) == "float64" and array.layout == "C" for array in arrays)


def are_vectors(*arrays: Any) -> bool:
    """Whether these compiled types are contiguous arrays of doubles or single floats, which vector code can read."""
    return all(str(array.dtype) in ("float64", "float32") and array.layout == "C" for array in arrays)


@helper
def inner_product(a: Floats, b: Floats) -> float:
    """<a, b>."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


def squared_length(direction: Floats, x: Row) -> float:
    """||direction||_2^2; x tells the compiler the number of classes."""
    total = 0.0
    for k in range(direction.size):
        total += direction[k] * direction[k]
    return total


@compiled_by(squared_length)
def _compiled_squared_length(direction: Any, x: Any) -> Callable[..., float]:
    def of_few(direction: Floats, x: Row) -> float:
        active = nonzero_lanes(direction, x)
        above = active & (active - np.uint64(1))  # without the lowest bit
        if above & (above - np.uint64(1)) == 0 and above != 0:
            # Two entries, as hinge-like losses have: zeros in between would not change the sum.
            a, b = direction[lowest_bit(active)], direction[lowest_bit(above)]
            return a * a + b * b
        total = 0.0
        if active != 0:
            for k in range(direction.size):
                total += direction[k] * direction[k]
        return total

    return of_few if width_of(x) and are_doubles(direction) else squared_length


def add_outer(weights: Floats, x: Row, direction: Floats, factor: float) -> None:
    """W += factor * x (x) direction, touching only active features; W and `direction` as in :func:`dot`."""
    K = direction.size
    active = 0
    first = last = 0
    for k in range(K):
        if direction[k] != 0.0:
            if active == 0:
                first = k
            last = k
            active += 1
    if active == 2:
        # The two columns of a hinge-like loss: for many classes this is what keeps an update cheaper than the scores.
        a, b = factor * direction[first], factor * direction[last]
        for p in range(x.start, x.stop):
            j = x.indices[p]
            weights[j, first] += a * x.values[p]
            weights[j, last] += b * x.values[p]
    elif active > 0:
        for p in range(x.start, x.stop):
            j = x.indices[p]
            step = factor * x.values[p]
            for k in range(K):
                weights[j, k] += step * direction[k]


@compiled_by(add_outer)
def _compiled_add_outer(weights: Any, x: Any, direction: Any, factor: Any) -> Callable[..., None]:
    def by_rows(weights: Floats, x: Row, direction: Floats, factor: float) -> None:
        active = nonzero_lanes(direction, x)
        above = active & (active - np.uint64(1))  # without the lowest bit
        if above != 0 and above & (above - np.uint64(1)) == 0:
            columns = (lowest_bit(active), lowest_bit(above))
            factors = (factor * direction[columns[0]], factor * direction[columns[1]])
            add_columns(weights, x, columns, factors)
        elif active != 0:
            add_rows(weights, x, direction, factor)

    return by_rows if width_of(x) and are_doubles(weights, direction) else add_outer


def diagonal_step(arrays: tuple[Floats, Floats, Floats], x: Row, direction: Floats, bend: float, push: float) -> float:
    """A += bend G^2, b += push G and V = -b/A for G = x (x) direction and `arrays` (V, b, A); the change of ||V||^2."""
    weights, sums, precision = arrays
    change = 0.0
    for p in range(x.start, x.stop):
        j = x.indices[p]
        for k in range(direction.size):
            g = x.values[p] * direction[k]
            old = weights[j, k]
            precision[j, k] += bend * g * g
            sums[j, k] += push * g
            new = -sums[j, k] / precision[j, k]
            weights[j, k] = new
            change += (new - old) * (new + old)
    return change


@compiled_by(diagonal_step)
def _compiled_diagonal_step(arrays: Any, x: Any, direction: Any, bend: Any, push: Any) -> Callable[..., float]:
    if not (width_of(x) and are_doubles(*arrays, direction)):
        return diagonal_step
    return lambda arrays, x, direction, bend, push: divide_rows(arrays, x, direction, bend, push)


def forget_certainty(variances: Floats, x: Row, k: int, retain: float) -> float:
    """``1/S <- 1 + retain (1/S - 1)`` for the features of x that are not 0 and class k; then the sum of x^2 S."""
    total = 0.0
    for p in range(x.start, x.stop):
        S = to_double(variances[x.indices[p], k])
        if x.values[p] != 0.0:
            S = S / (S + retain * (1.0 - S))
        variances[x.indices[p], k] = S
        total += x.values[p] * x.values[p] * S
    return total


@compiled_by(forget_certainty)
def _compiled_forget_certainty(variances: Any, x: Any, k: Any, retain: Any) -> Callable[..., float]:
    if not are_vectors(variances):
        return forget_certainty
    return lambda variances, x, k, retain: forget_column(variances, x, k, retain)


def variance_step(arrays: tuple[Floats, Floats], x: Row, k: int, step: float, gain: float, least: float) -> None:
    """With (W, S) = `arrays`, for the features of x and class k: ``W <- W + step S x``, ``1/S <- 1/S + gain x^2``, and
    S at least `least`.
    """
    weights, variances = arrays
    for p in range(x.start, x.stop):
        j = x.indices[p]
        value = x.values[p]
        S = to_double(variances[j, k])
        weights[j, k] = to_double(weights[j, k]) + step * S * value
        variances[j, k] = max(least, S / (1.0 + S * (gain * (value * value))))


@compiled_by(variance_step)
def _compiled_variance_step(arrays: Any, x: Any, k: Any, step: Any, gain: Any, least: Any) -> Callable[..., None]:
    if not are_vectors(*arrays):
        return variance_step
    return lambda arrays, x, k, step, gain, least: vary_column(arrays, x, k, step, gain, least)


def root_step(
    arrays: tuple[Floats, Floats], x: Row, k: int, derivative: float, numbers: tuple[float, float, float, float]
) -> None:
    """With (W, G) = `arrays` and (weight, rate, delta, clip) = `numbers`, for the features of x and class k:
    ``g = weight x derivative``, ``G <- G + g^2``, ``W <- W - rate g / sqrt(delta + G)``, kept in [-clip, clip].
    """
    weights, totals = arrays
    weight, rate, delta, clip = numbers
    for p in range(x.start, x.stop):
        j = x.indices[p]
        g = weight * x.values[p] * derivative
        total = to_double(totals[j, k]) + g * g
        totals[j, k] = total
        moved = to_double(weights[j, k]) - rate * g / math.sqrt(delta + total)
        weights[j, k] = min(clip, max(-clip, moved))


@compiled_by(root_step)
def _compiled_root_step(arrays: Any, x: Any, k: Any, derivative: Any, numbers: Any) -> Callable[..., None]:
    if not are_vectors(*arrays):
        return root_step
    return lambda arrays, x, k, derivative, numbers: root_column(arrays, x, k, derivative, numbers)


@helper
def squared_norm(weights: Floats) -> float:
    """The sum of the squares of all entries."""
    total = 0.0
    for j in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            total += weights[j, k] * weights[j, k]
    return total


@helper
def bounded_step(step: float, x: Row) -> float:
    """A positive step along x, shortened where it would move a weight by more than :data:`LARGEST_STEP`."""
    length = math.sqrt(x.squared)
    return LARGEST_STEP / length if step * length > LARGEST_STEP else step


@helper
def exponentials(scores: Floats, top: int, out: Floats) -> None:
    """out = exp(s - s_top), with `top` the argmax, so that no term overflows."""
    for k in range(scores.size):
        out[k] = 1.0 if k == top else math.exp(scores[k] - scores[top])


@helper
def softmax_gradient(e: Floats, y: int, factor: float, out: Floats) -> None:
    """out = factor * (q - e_y) for the softmax q of the exponentials e: the gradient of -factor * ln q_y."""
    total = 0.0
    for k in range(e.size):
        total += e[k]
    scale = factor / total
    for k in range(e.size):
        out[k] = e[k] * scale
    out[y] -= factor


@helper
def sharpened_softmax(scores: Floats, sharpness: float, out: Floats) -> None:
    """out = softmax(sharpness * scores)."""
    top = argmax(scores)
    total = 0.0
    for k in range(scores.size):
        out[k] = math.exp(sharpness * (scores[k] - scores[top]))
        total += out[k]
    for k in range(scores.size):
        out[k] /= total


@helper
def shown_probability(graph: Any, probabilities: Floats, y: int) -> float:
    """P(y observed) = sum_i p(i) A[i, y], on a graph for compiled code."""
    sole = graph.sole_observer[y]
    if sole >= 0:
        return probabilities[sole]
    total = 0.0
    for i in range(probabilities.size):
        if graph.observers[y, i]:
            total += probabilities[i]
    return total


@helper
def least_propensity(graph: Any, probabilities: Floats) -> float:
    """The least probability with which a label is shown."""
    least = 1.0
    for y in range(graph.observers.shape[0]):
        least = min(least, shown_probability(graph, probabilities, y))
    return least


def is_distribution(probabilities: Floats) -> bool:
    """Return whether these are probabilities that add up to 1, up to rounding; of a matrix, whether each row is.

    >>> is_distribution(np.array([0.25, 0.75])), is_distribution(np.array([0.25, np.nan]))
    (True, False)
    """
    inside = (probabilities >= 0.0) & (probabilities <= 1.0 + ROUNDING)  # False for NaN
    return bool(inside.all() and (abs(probabilities.sum(-1) - 1.0) <= ROUNDING).all())

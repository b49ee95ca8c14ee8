"""Streams in memory, limits, transformations and the door to them all."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from gappletron import FeedbackGraph, Runs, play
from gappletron.base.errors import UserError
from gappletron.data import arrays, open, prepared, stream
from gappletron.data.arrays import ArrayStream, load_digits
from gappletron.data.open import open_stream
from gappletron.data.stream import CHUNK, Chunk, FirstRounds, Stream, _largest_norm
from gappletron.data.svmlight import SvmlightFile
from gappletron.data.synthetic import Synthetic
from gappletron.data.transform import _normalize, transform
from gappletron.kernel import compiling
from gappletron.kernel.compiling import interpreted

ROWS = [[0.0, 2.0, -1.5], [0.0, 0.0, 0.0], [1.0, 0.0, -0.0], [3.0, 4.0, 0.0]]
LABELS = ["b", "a", "b", "c"]


def check_chunk(chunk, features, classes):
    """The promises of Chunk."""
    assert [array.dtype for array in chunk] == [np.int64, np.int32, np.float64, np.int64]
    for array in chunk:
        assert array.ndim == 1
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert not array.flags.writeable
    assert 1 <= len(chunk.labels) <= CHUNK
    assert chunk.indptr[0] == 0
    assert chunk.indptr[-1] == len(chunk.indices) == len(chunk.values)
    assert len(chunk.indptr) == len(chunk.labels) + 1
    assert chunk.labels.min() >= 0
    assert chunk.labels.max() < classes
    for a, b in zip(chunk.indptr, chunk.indptr[1:], strict=False):
        row = chunk.indices[a:b]
        assert (np.diff(row) > 0).all()
        assert len(row) == 0 or (row[0] >= 0 and row[-1] < features)


def same(one, other):
    """Whether two streams yield the same bits in the same chunks."""
    pairs = list(zip(one.chunks(), other.chunks(), strict=True))
    return all(x.tobytes() == y.tobytes() for a, b in pairs for x, y in zip(a, b, strict=True))


def same_but_for_zeros(one, other):
    """Whether two streams yield the same bits once the zeros that were given are dropped."""
    pairs = zip(one.chunks(), other.chunks(), strict=True)
    parts = [(stream.drop_zeros(*a[:3]), stream.drop_zeros(*b[:3])) for a, b in pairs]
    return all((a[2] != 0).all() and x.tobytes() == y.tobytes() for a, b in parts for x, y in zip(a, b, strict=True))


# --------------------------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize(
    "X",
    [
        np.array(ROWS),
        np.asfortranarray(ROWS),
        np.array(ROWS, np.float32),
        np.array(ROWS, np.float16),
        np.array(ROWS, ">f8"),
        np.array(ROWS, np.longdouble),
        np.array(ROWS + ROWS)[:4],
        np.repeat(ROWS, 2, axis=1)[:, ::2],
        tuple(map(tuple, ROWS)),
        sp.csr_matrix(ROWS),
        sp.csc_array(ROWS),
        sp.coo_array(ROWS),
        sp.lil_matrix(ROWS),
        sp.dok_array(ROWS),
        sp.dia_array(ROWS),
        sp.bsr_array(ROWS),
        sp.csr_array(np.array(ROWS, np.float32)),
        sp.csr_array(
            (
                np.array([2.0, -1.5, 1.0, 0.0, 4.0, 1.0, 2.0]),
                np.array([1, 2, 0, 2, 1, 0, 0], np.int64),
                np.array([0, 2, 2, 4, 7], np.int64),
            ),
            shape=(4, 3),
        ),  # unsorted, a duplicate, a stored zero
    ],
    ids=str,
)
def test_every_kind_of_array_makes_the_same_chunk(X):
    """But for its zeros: an array gives all of them, a sparse matrix those that it stores."""
    before = X.copy() if hasattr(X, "copy") else X
    found = ArrayStream(X, LABELS)
    stores_a_zero = sp.issparse(X) and X.format == "csr" and (X.data == 0.0).any()
    assert same(found, ArrayStream(sp.csr_array(ROWS) if sp.issparse(X) else ROWS, LABELS)) is not stores_a_zero
    assert same_but_for_zeros(found, ArrayStream(ROWS, LABELS))
    assert (found.features, found.rounds, found.classes, found.max_norm) == (3, 4, ("a", "b", "c"), 5.0)
    (chunk,) = found.chunks()
    check_chunk(chunk, 3, 3)
    stored = [1, 2, 0, 2, 0, 1] if stores_a_zero else [1, 2, 0, 0, 1]
    assert chunk.indices.tolist() == (stored if sp.issparse(X) else [0, 1, 2] * 4)
    assert chunk.labels.tolist() == [1, 0, 1, 2]
    if sp.issparse(X):
        assert abs(X - before).sum() == 0
        assert X.nnz == before.nnz


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64])
def test_whole_numbers(dtype):
    X = np.array([[0, 1], [1, 1]], dtype)
    assert same(ArrayStream(X, [0, 1]), ArrayStream(X.astype(float), [0, 1]))
    assert same(ArrayStream(sp.csr_array(X), [0, 1]), ArrayStream(sp.csr_array(X.astype(float)), [0, 1]))
    assert same_but_for_zeros(ArrayStream(sp.csr_array(X), [0, 1]), ArrayStream(X, [0, 1]))


def test_duplicates_do_not_overflow_small_integers():
    X = sp.csr_array((np.array([100, 100, 1], np.int8), [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    assert next(ArrayStream(X, [0, 1]).chunks()).values.tolist() == [200.0, 1.0]


@settings(deadline=None, max_examples=60)
@given(
    X=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 9), st.integers(1, 7)),
        elements=st.sampled_from([0.0, -0.0, 1.0, -2.5, 5e-324, 1e300]),
    ),
    kind=st.sampled_from([sp.csr_array, sp.csc_matrix, sp.coo_array]),
)
def test_a_sparse_matrix_and_its_dense_twin(X, kind):
    y = np.arange(len(X))
    stored = sp.csr_array((X.reshape(-1), np.tile(np.arange(X.shape[1]), len(X)), np.arange(len(X) + 1) * X.shape[1]))
    dense, sparse, full = (ArrayStream(data, y, classes=range(10)) for data in (X, kind(X), kind(stored)))
    assert same(dense, full)
    assert same_but_for_zeros(dense, sparse)
    assert dense.max_norm == sparse.max_norm
    assert math.isclose(dense.max_norm, max(math.hypot(*row) for row in X), rel_tol=1e-14)
    for chunk in dense.chunks():
        check_chunk(chunk, X.shape[1], 10)


def test_chunks_are_cut_by_rows_and_by_entries(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (50, 4)).astype(float)
    y = np.arange(50) % 2
    for data in (X, sp.csr_array(X)):
        whole = next(ArrayStream(data, y).chunks())
        for rows, entries in ((7, 10**6), (50, 8), (50, 1), (3, 9)):
            monkeypatch.setattr(arrays, "CHUNK", rows)
            monkeypatch.setattr(arrays, "ENTRIES", entries)
            parts = list(ArrayStream(data, y).chunks())
            assert all(
                len(part.labels) <= rows and (len(part.values) <= entries or len(part.labels) == 1) for part in parts
            )
            assert np.concatenate([part.values for part in parts]).tobytes() == whole.values.tobytes()
            assert np.concatenate([np.diff(part.indptr) for part in parts]).tolist() == np.diff(whole.indptr).tolist()
            assert np.concatenate([part.labels for part in parts]).tolist() == y.tolist()
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a"], ("a", "b")),
        ([3, -1], (-1, 3)),
        ([True, False], (False, True)),
        ([None, "x"], (None, "x")),
        ([2, "x"], (2, "x")),
        (np.array([5, 2], np.uint8), (2, 5)),
        (np.array(["b", "a"]), ("a", "b")),
        (np.array([True, False]), (False, True)),
        (np.array(["b", None], object), ("b", None)),
        ([np.int64(4), np.str_("s")], (4, "s")),
        (np.array([1.0, -2.0]), (-2, 1)),
        ([1.0, 0.0], (0, 1)),
        (dict.fromkeys("ba"), ("a", "b")),
    ],
    ids=repr,
)
def test_labels_of_every_kind(y, classes):
    found = ArrayStream([[1], [2]], y)
    assert found.classes == classes
    assert [type(name) for name in found.classes] == [type(name) for name in classes]


def test_given_classes_fix_the_positions():
    for y in (["b", "c", "b"], np.array(["b", "c", "b"])):
        found = ArrayStream(np.ones((3, 1)), y, classes=["c", "a", "b"])
        assert found.classes == ("c", "a", "b")
        assert next(found.chunks()).labels.tolist() == [2, 0, 2]
        with pytest.raises(
            UserError, match=r"row 1 of y \(counting from 0\) has the label 'c', which is not among .*'a', 'b'"
        ):
            ArrayStream(np.ones((3, 1)), y, classes=["a", "b"])
    assert ArrayStream([[1]], [1], classes=[0, 1]).rounds == 1


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1, 2], [3, np.nan]], [0, 1], r"X has nan in row 1, column 1"),
        ([[1, 2], [-np.inf, 3]], [0, 1], r"X has -inf in row 1, column 0"),
        (sp.csr_array([[0, 2], [np.inf, 0]]), [0, 1], r"X has inf in row 1, column 0"),
        (sp.coo_array(([1e308, 1e308], ([0, 0], [1, 1])), shape=(2, 2)), [0, 1], r"X has inf in row 0, column 1"),
        (np.array([[1], [np.longdouble("1e400")]]), [0, 1], "X has inf in row 1"),
        (np.array([[1j], [0]]), [0, 1], "complex128"),
        (sp.csr_array([[1j], [0]]), [0, 1], "complex128"),
        ([["a"], ["b"]], [0, 1], "real numbers"),
        (np.array([[1], [None]]), [0, 1], "object"),
        ([[1, 2], [3]], [0, 1], "all of one length"),
        ([1, 2], [0, 1], "two dimensions"),
        (np.ones((2, 2, 2)), [0, 1], "two dimensions"),
        (sp.coo_array(np.ones(3)), [0, 1], "two dimensions"),
        (np.empty((0, 3)), [], "at least one row"),
        (np.empty((2, 0)), [0, 1], "at least one row and one column"),
        (sp.csr_array((2, 0)), [0, 1], "at least one row and one column"),
        (np.ma.masked_equal([[1, 2], [3, 4]], 2), [0, 1], "masked"),
        ([[1], [2]], [0, 0], "only 0"),
        ([[1], [2]], [0, 1, 2], "2 rows and y has 3 labels"),
        ([[1], [2]], [0], "2 rows and y has 1 labels"),
        ([[1], [2]], 3, "must be a sequence"),
        ([[1], [2]], "ab", "not a string"),
        ([[1], [2]], [[0], [1]], "list"),
        ([[1], [2]], np.array([[0], [1]]), "one dimension"),
        ([[1], [2]], [0, 0.5], "in row 1 of y the class 0.5 is a float"),
        ([[1], [2]], np.array([0, 0.5]), "0.5 is a float"),
        ([[1], [2]], np.array([0, np.nan]), "nan is a float"),
        ([[1], [2]], [True, 1], "compare equal"),
        ([[1], [2]], [b"a", b"b"], "is a bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_arrays(X, y, message):
    with pytest.raises(UserError, match=message):
        ArrayStream(X, y)


def test_wrong_classes():
    for classes, message in (
        (["a"], "at least 2 classes"),
        ([], "but none is named"),
        ("ab", "list of names"),
        (7, "list of"),
        (["a", "a"], "compare equal"),
        ([0.5, 1], "float"),
    ):
        with pytest.raises(UserError, match=message):
            ArrayStream([[1]], ["a"], classes=classes)
    broken = sp.csr_array([[1.0, 2.0], [0.0, 3.0]])
    broken.indices[0] = 9
    with pytest.raises(UserError, match="consistent"):
        ArrayStream(broken, [0, 1])


def test_norms_beyond_the_range_of_squares():
    assert math.isclose(ArrayStream([[3e200, 4e200], [1, 1]], [0, 1]).max_norm, 5e200)
    assert math.isclose(ArrayStream([[3e-200, 4e-200], [0, 0]], [0, 1]).max_norm, 5e-200)
    assert ArrayStream([[0.0], [0.0]], [0, 1]).max_norm == 0.0
    with pytest.raises(UserError, match="too large for a double"):
        ArrayStream([[1.7e308, 1.7e308], [1, 1]], [0, 1]).max_norm  # noqa: B018


def test_load_digits():
    found = load_digits()
    (chunk,) = found.chunks()
    check_chunk(chunk, 64, 10)
    assert chunk.values.max() == 1.0
    assert found.classes == tuple(range(10))


# --------------------------------------------------------------------------------------------------------------- limits


def test_limited_takes_what_there_is(monkeypatch):
    monkeypatch.setattr(arrays, "CHUNK", 2)
    whole = ArrayStream(ROWS, LABELS)
    for rounds in range(1, 7):
        cut = FirstRounds(whole, rounds)
        assert cut.rounds == min(rounds, 4)
        found = list(cut.chunks())
        for chunk in found:
            check_chunk(chunk, 3, 3)
        assert np.concatenate([chunk.labels for chunk in found]).tolist() == [1, 0, 1, 2][:rounds]
        assert np.concatenate([np.diff(chunk.indptr) for chunk in found]).tolist() == [3, 3, 3, 3][:rounds]
    assert (cut.name, cut.features, cut.classes, cut.max_norm) == (
        whole.name,
        whole.features,
        whole.classes,
        whole.max_norm,
    )
    for wrong in (0, -1, 2.5, None, True):
        with pytest.raises(UserError, match="rounds"):
            FirstRounds(whole, wrong)


def test_limited_asks_for_no_chunk_it_does_not_need():
    class Once(Stream):
        name, features, classes, rounds, max_norm = "once", 1, (0, 1), None, None

        def chunks(self):
            yield Chunk(np.arange(3), np.zeros(2, np.int32), np.ones(2), np.arange(2))
            pytest.fail("asked for more")

    assert sum(len(chunk.labels) for chunk in FirstRounds(Once(), 2).chunks()) == 2
    assert FirstRounds(Once(), 2).rounds == 2
    assert transform(Once(), bias=True).max_norm is None


# ------------------------------------------------------------------------------------------------------ transformations


def naive_transform(row, normalize, bias):
    if normalize == "log1p-unit":
        row = [math.copysign(math.log1p(abs(v)), v) for v in row]
    total = 0.0
    for v in row:  # not sum(), which rounds once at the end from Python 3.12 on
        total += v * v
    norm = math.sqrt(total)
    if normalize != "none" and norm > 0:
        row = [v / norm for v in row]
    return [1.0] * bias + row


@pytest.mark.parametrize("normalize", ["none", "unit", "log1p-unit"])
@pytest.mark.parametrize("bias", [False, True])
def test_transformed_as_written_down(normalize, bias):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 6)) * rng.integers(0, 2, (300, 6)) * 100
    plain = ArrayStream(X, np.arange(300) % 3)
    changed = transform(plain, normalize, bias)
    (before,), (after,) = plain.chunks(), changed.chunks()
    check_chunk(after, 6 + bias, 3)
    for row in range(300):
        a, b = before.indptr[row : row + 2]
        c, d = after.indptr[row : row + 2]
        assert after.values[c:d].tolist() == naive_transform(before.values[a:b].tolist(), normalize, bias)
        assert after.indices[c:d].tolist() == [0] * bias + (before.indices[a:b] + bias).tolist()
    assert changed.features == 6 + bias
    assert (changed.rounds, changed.classes, changed.name) == (plain.rounds, plain.classes, plain.name)
    largest = stream.largest_norm(after)
    assert largest <= changed.max_norm * (1 + 1e-15)
    assert math.isclose(largest, changed.max_norm)
    with interpreted():
        (again,) = transform(plain, normalize, bias).chunks()
    assert again.values.tobytes() == after.values.tobytes()


def test_unit_norm_beyond_the_range_of_squares():
    X = [[3e200, 4e200], [1.7e308, 1.7e308], [3e-200, 4e-200], [5e-324, 0.0], [0.0, 0.0]]
    changed = transform(ArrayStream(X, [0, 1, 0, 1, 0]), "unit")
    (chunk,) = changed.chunks()
    assert changed.max_norm == 1.0
    half = math.sqrt(0.5)
    assert np.allclose(chunk.values, [0.6, 0.8, half, half, 0.6, 0.8, 1.0, 0.0, 0.0, 0.0], rtol=1e-15, atol=0.0)
    assert chunk.indptr.tolist() == [0, 2, 4, 6, 8, 10]


def test_wrong_transformations():
    plain = ArrayStream(ROWS, LABELS)
    assert transform(plain) is plain
    with pytest.raises(UserError, match="no normalization 'l2': choose one of 'auto', 'none', 'unit', 'log1p-unit'"):
        transform(plain, "l2")
    with pytest.raises(UserError, match="bias must be True or False"):
        transform(plain, bias=1)


# ----------------------------------------------------------------------------------------------------------------- door


def test_open_stream(tmp_path):
    path = tmp_path / "file.svm"
    path.write_text("0 1:1\n1 2:1\n1 2:1\n")
    assert isinstance(open_stream("synthetic"), Synthetic)
    assert open_stream("synthetic:K=3,T=10").name == "synthetic:K=3,d=120,noise=0.05,T=10,seed=0"
    assert open_stream("digits").name == "digits"
    assert isinstance(open_stream(path), SvmlightFile)
    assert open_stream(str(path), features=7, classes=[0, 1], rounds=2).rounds == 2
    assert open_stream(path, rounds=2).rounds == 2
    assert open_stream((ROWS, LABELS), classes=["c", "b", "a"]).classes == ("c", "b", "a")
    plain = ArrayStream(ROWS, LABELS)
    assert open_stream(plain) is plain
    assert open_stream(plain, rounds=2, bias=True).rounds == 2
    assert open_stream(path, normalize="unit", bias=True).features == 3


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("synthetic:K=3", {"features": 3}, "features= is only for files"),
        ("digits", {"classes": [0, 1]}, "classes= is only for files"),
        ((ROWS, LABELS), {"max_norm": 1.0}, "max_norm= is only for files"),
        ((ROWS,), {}, "not a tuple of 1"),
        (np.array(ROWS), {}, "a ndarray is not a stream"),
        (None, {}, "a NoneType is not a stream"),
        ("sinthetic:K=3", {}, "there is no file 'sinthetic:K=3': .*synthetic:K=9"),
        ("digits", {"rounds": 0}, "rounds must be at least 1"),
        ("digits", {"normalize": "max"}, "normalization"),
        ("-", {}, "is a pipe"),
    ],
)
def test_open_stream_errors(data, options, message):
    with pytest.raises(UserError, match=message):
        open_stream(data, **options)


def test_a_stream_knows_whether_the_order_of_its_classes_was_given(tmp_path):
    path = tmp_path / "file.svm"
    path.write_text("0 1:1\n1 2:1\n1 2:1\n")
    foreign = Foreign([0, 1, 2], [0, 1], [1, 1], [0, 1])
    for given_by, wanted in (
        ("synthetic:K=3", True),
        ("digits", True),
        ("unit-vectors", True),
        ("segments:R=2", True),
        (foreign, True),
        (ArrayStream(ROWS, LABELS, classes=["b", "a", "c"]), True),
        (SvmlightFile(path, classes=[1, 0]), True),
        ((ROWS, LABELS), False),
        (path, False),
        (SvmlightFile(path, features=2), False),
    ):
        opened = open_stream(given_by)
        assert opened.classes_given is wanted
        assert FirstRounds(opened, 2).classes_given is wanted
        assert transform(opened, bias=True).classes_given is wanted
        assert prepared.Remembered(FirstRounds(opened, 2)).classes_given is wanted


MAIL = ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["legit", "junk", "legit"])


@pytest.mark.parametrize("preset", ["filtering", "apple-tasting"])
def test_the_revealing_class_must_be_named_where_the_order_comes_from_the_data(preset, tmp_path):
    message = (
        f"the {preset} graph needs the class that reveals, because the order of the classes 'junk', 'legit' was "
        f"derived from the data: name it, for example '{preset}:revealing=junk'"
    )
    path = tmp_path / "mail.svm"
    path.write_text("0 1:1\n1 2:1\n1 2:1\n")
    with interpreted():
        with pytest.raises(UserError, match=rf"\A{message}\Z"):
            play("gapsmh", MAIL, preset)
        with pytest.raises(UserError, match="needs the class that reveals"):
            play("gapsmh", transform(FirstRounds(ArrayStream(*MAIL), 2), bias=True), preset)
        with pytest.raises(UserError, match="needs the class that reveals"):
            play("gapsmh", path, preset)
        for name in ("junk", "legit"):
            named_one = play("gapsmh", MAIL, preset, revealing=name)
            assert named_one.title == f"arrays, {preset} graph, '{name}' reveals"
            assert named_one.plot().axes[0].get_title() == named_one.title
            assert play("gapsmh", MAIL, f"{preset}:revealing={name}").title == named_one.title
            graph = FeedbackGraph.filtering(["junk", "legit"], revealing=name)
            assert named_one[0].labels_seen == play("gapsmh", MAIL, graph)[0].labels_seen
        ordered = Runs("gapsmh", ArrayStream(*MAIL, classes=["legit", "junk"]), preset)
        assert ordered.graph.revealing == ("legit",)
        assert Runs("gapsmh", MAIL, "bandit").graph.is_bandit


def test_revealing_goes_with_a_preset(tmp_path):
    FeedbackGraph.bandit(["junk", "legit"]).to_json(tmp_path / "graph.json")
    for graph in (FeedbackGraph.bandit(["junk", "legit"]), tmp_path / "graph.json"):
        with pytest.raises(UserError, match="revealing is only for presets"):
            play("gapsmh", MAIL, graph, revealing="legit")
    with pytest.raises(UserError, match="the bandit graph has no revealing class to choose"):
        play("gapsmh", MAIL, "bandit", revealing="legit")
    with pytest.raises(UserError, match="there is no class 'legal', did you mean 'legit'"):
        play("gapsmh", MAIL, "filtering", revealing="legal")


def test_every_generated_stream_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "streams.md").read_text(encoding="utf-8")
    for kind, one in open.GENERATED.items():
        assert f'`"{kind}:' in page
        assert open_stream(f"{kind}:{one.example}").name.startswith(f"{kind}:{one.example}")


def test_the_names_of_streams():
    assert repr(ArrayStream(ROWS, LABELS, name="mail")) == "<ArrayStream 'mail'>"
    with pytest.raises(TypeError):
        Stream()  # type: ignore[abstract]


def test_kernels_are_compiled_for_one_set_of_types(tmp_path, monkeypatch):
    """A hidden second compilation would cost every user seconds."""
    # Dispatchers of its own, so that it does not matter what other tests have compiled.
    monkeypatch.setattr(compiling, "entry_points", [])
    monkeypatch.setattr(compiling, "_specialised", functools.cache(compiling._specialised.__wrapped__))
    path = tmp_path / "file.svm"
    path.write_text("0 1:1\n1 2:1\n1 2:1\n")
    frozen_rows = np.array(ROWS)
    frozen_rows.setflags(write=False)
    for source in (
        path,
        "digits",
        "synthetic:T=20",
        (ROWS, LABELS),
        (frozen_rows, LABELS),
        (sp.csc_array(ROWS), LABELS),
    ):
        for normalize in ("unit", "log1p-unit"):
            opened = open_stream(source, rounds=2, normalize=normalize, bias=True)
            for chunk in opened.chunks():
                stream.largest_norm(chunk)
    compiled = [(kernel.py_func, len(kernel.signatures)) for kernel in compiling.entry_points]
    for function, dispatchers in (
        (_largest_norm, 1),
        (_normalize, 2),
    ):  # one for each normalization
        assert [count for found, count in compiled if found is function] == [1] * dispatchers


def test_the_page_about_streams_runs(tmp_path, monkeypatch):
    """Every block of the page, in order, in one namespace."""
    page = Path(__file__).parents[2] / "docs" / "streams.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)


# Streams from outside the package


class Foreign(Stream):
    name, features, classes, rounds, max_norm = "foreign", 2, ("no", "yes"), 2, 1.0

    def __init__(self, *arrays):
        self.arrays = arrays

    def chunks(self):
        yield Chunk(*(np.array(array) for array in self.arrays))


def test_a_foreign_stream_is_brought_into_the_kernels_types():
    (chunk,) = open_stream(Foreign([0, 1, 2], [0, 1], [1, 1], [0, 1])).chunks()
    assert [array.dtype for array in chunk] == [np.int64, np.int32, np.float64, np.int64]
    assert not any(array.flags.writeable for array in chunk)


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (([0, 1, 2], [0, 2], [1.0, 1.0], [0, 1]), "indices must lie between 0 and 1"),
        (([0, 1, 2], [0, -1], [1.0, 1.0], [0, 1]), "indices must lie between 0 and 1"),
        (([0, 1, 2], [0, 1], [1.0, 1.0], [0, 2]), "labels must be positions from 0 to 1"),
        (([0, 1, 2], [0, 1], [1.0, np.nan], [0, 1]), "values must be finite"),
        (([0, 1, 3], [0, 1], [1.0, 1.0], [0, 1]), r"indices and values must have indptr\[-1\] entries"),
        (([1, 1, 2], [0, 1], [1.0, 1.0], [0, 1]), "indptr must start at 0"),
        (([0, 2, 1], [0], [1.0], [0, 1]), "indptr must start at 0, must not decrease"),
        (([0, 1], [0], [1.0], [0, 1]), "one entry more than labels"),
        (([[0, 1]], [0], [1.0], [0]), "its arrays must have one dimension"),
        (([0, 1], ["a"], [1.0], [0]), "is not made of flat arrays of numbers"),
        (([0, 2, 2], [1, 0], [1.0, 1.0], [0, 1]), "indices must increase within a row"),
        (([0, 2, 2], [1, 1], [1.0, 1.0], [0, 1]), "indices must increase within a row"),
    ],
)
@pytest.mark.parametrize(
    "wrap",
    [
        open_stream,
        lambda s: FirstRounds(s, 3),
        lambda s: open_stream(FirstRounds(s, 3), bias=True),
        lambda s: transform(s, "unit", True),
    ],
)
def test_a_foreign_chunk_that_would_break_compiled_code_is_refused(arrays, problem, wrap):
    with pytest.raises(UserError, match=problem):
        list(wrap(Foreign(*arrays)).chunks())


def test_arrays_that_are_changed_later_are_checked_again():
    X = sp.csr_matrix(np.eye(3))
    stream = ArrayStream(X, [0, 1, 2])
    X.indices[0] = 10**9
    with pytest.raises(UserError, match="was changed and has an index outside its 3 columns"):
        list(stream.chunks())
    dense = np.eye(3)
    stream = ArrayStream(dense, [0, 1, 2])
    dense[1, 1] = np.nan
    with pytest.raises(UserError, match="nan in row 1"):
        list(stream.chunks())

"""svmlight files: the same bits as scikit-learn on valid files, and a sentence with a line number on all others."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import os
import threading
import tracemalloc
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from sklearn.datasets import load_svmlight_file

from gappletron.base.errors import UserError
from gappletron.data import sources, svmlight
from gappletron.data.stream import FirstRounds
from gappletron.data.svmlight import SvmlightFile
from gappletron.data.transform import transform
from gappletron.kernel.compiling import interpreted
from problems import no_error_left

QUICK = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.svm"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def played(stream):
    """Rows as (indices, values) and labels, in one array each, over all chunks."""
    chunks = list(stream.chunks())
    lengths = np.concatenate([np.diff(chunk.indptr) for chunk in chunks])
    return (lengths, *(np.concatenate([chunk[part] for chunk in chunks]) for part in (1, 2, 3)))


def check_against_sklearn(content, path):
    path.write_bytes(content)
    X, y = load_svmlight_file(str(path), zero_based=False)
    features = X.shape[1]
    stream = SvmlightFile(path)
    if len(np.unique(y)) < 2:
        with pytest.raises(UserError, match="2 classes"):
            stream.scan()
        stream = SvmlightFile(path, classes=[*np.unique(y), 12345.25])
    lengths, indices, values, labels = played(stream)
    assert stream.features == features
    assert stream.rounds == len(y)
    assert lengths.tolist() == np.diff(X.indptr).tolist()
    assert indices.tolist() == X.indices.tolist()
    assert values.tobytes() == X.data.tobytes()
    assert [float(stream.classes[label]) for label in labels] == y.tolist()
    return stream


# ----------------------------------------------------------------------------------------------------- what is accepted

SPELLINGS = [
    "+1",
    ".5",
    "5.",
    "1e-3",
    "1E5",
    "1e+05",
    "-0.0",
    "-.25e1",
    "007",
    "0.1",
    "0.30000000000000004",
    "123456789012345678",
    "1234567890123456789",
    "9007199254740993",
    "9007199254740992.5",
    "18014398509481985",
    "4.35",
    "8.5e-17",
    "1e-300",
    "1.7976931348623157e308",
    "2.2250738585072014e-308",
    "2.225073858507201e-308",
    "4.9e-324",
    "5e-324",
    "2e-324",
    "1e-999",
    "0e999999999999999999999",
    "0." + "0" * 400 + "1e400",
    "1" + "0" * 400 + "e-400",
    "123456789e-300",
    "999999999999999999e280",
    "1e23",
    "8.41e+21",
    "9.5e-23",
    "0.000000000000000000000000123456789012345678",
    "3.14159265358979323846264338327950288",
    "0.1e-1",
    "1e22",
    "1e-22",
    "9007199254740991e22",
    "9007199254740991e-22",
    "6.02214076e23",
    "5e-290",
    "7e280",
    "7e281",
    "00000000000000000000000000000000012.5",
    "1090544144181609348671888949248",
    "2.47032822920623272e-324",
    "-2.2250738585072011e-308",
]


def test_every_spelling_of_a_number(write):
    path = write("")
    lines = [f"{i % 3} 1:{text} 2:-1e0 9:{text.lstrip('+')}\n" for i, text in enumerate(SPELLINGS)]
    check_against_sklearn("".join(lines).encode(), path)
    with interpreted():
        check_against_sklearn("".join(lines).encode(), path)
    for text in SPELLINGS:
        check_against_sklearn(f"{text} 1:{text}\n3.5\n".encode(), path)


def test_a_hundred_thousand_doubles_are_rounded_as_python_rounds_them(write):
    """Shortest, 17-digit and 18-digit spellings of random bit patterns, most of them outside the exact fast path."""
    rng = np.random.default_rng(0)
    doubles = rng.integers(0, 2**63, 40_000, dtype=np.int64).view(np.float64)
    doubles = np.concatenate(
        (doubles[np.isfinite(doubles)], rng.standard_normal(30_000), np.exp(rng.uniform(-60, 60, 30_000)))
    )
    texts = [("%r", "%.17g", "%.16e", "%.17e")[i % 4] % float(x) for i, x in enumerate(doubles)]
    # Halfway cases: the decimal expansion of the middle between two doubles, exact and cut.
    between = zip(rng.integers(2**52, 2**53, 2000).tolist(), rng.integers(0, 8, 2000).tolist(), strict=True)
    middles = [str((2 * mantissa + 1) << exponent) for mantissa, exponent in between]
    texts += middles + [text[:17] + "e5" for text in middles]
    path = write("".join(f"{i % 2} 1:{text}\n" for i, text in enumerate(texts)))
    lengths, _, values, _ = played(SvmlightFile(path, features=1, classes=[0, 1]))
    expected = np.array([float(text) for text in texts])
    assert (lengths == 1).all()
    assert values.tobytes() == expected.tobytes()


def test_most_numbers_need_no_help_from_python(write, monkeypatch):
    """17 digits of a double are never near the middle of two doubles; of random digits about one in 700 is."""
    rng = np.random.default_rng(1)
    helped = []
    read = svmlight._read_doubtful

    def counting(block, rows, count, doubtful):
        helped.append(doubtful)
        return read(block, rows, count, doubtful)

    monkeypatch.setattr(svmlight, "_read_doubtful", counting)
    for texts, least, most in (
        ([f"{x:.17g}" for x in rng.standard_normal(20_000)], 0, 0),
        ([f"0.{n}" for n in rng.integers(10**17, 10**18, 20_000)], 5, 100),
    ):
        helped.clear()
        played(
            SvmlightFile(
                write("".join(f"{i % 2} 1:{text}\n" for i, text in enumerate(texts))), features=1, classes=[0, 1]
            )
        )
        assert least <= sum(helped) <= most


LAYOUT = b"""# a header
1 1:2 3:4 # comment 5:nonsense
\t -1   2:1\t7:0.5  \r

   # indented comment
+1 qid:3 1:1
1.0 qidx:anything:at all:1
-1.000e0
1\v1:1\f2:2\r3:3
-1 1:0 4:0.0 5:-0
1 qid:4#9:9
-1 +3:5 007:1
# \xff\xfe not even text
1#
-1 12:1"""


def test_layout_is_read_as_sklearn_reads_it(write):
    content = LAYOUT.replace(b"at all:1", b"at")
    stream = check_against_sklearn(content, write(""))
    assert stream.classes == (-1, 1)
    assert stream.features == 12
    check_against_sklearn(content.replace(b"\n", b"\r\n"), write(""))
    check_against_sklearn(content + b"\n\n", write(""))


digits = st.text("0123456789", min_size=1, max_size=25)
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.17g}".format),
    st.builds("{}{}.{}e{}".format, st.sampled_from(["", "+", "-"]), digits, digits, st.integers(-340, 280)),
    st.builds("{}{}".format, st.sampled_from(["", "+", "-", ".", "-.", "0."]), digits),
    st.sampled_from(SPELLINGS),
)
spaces = st.text(" \t\r\v\f", min_size=1, max_size=3)
features = st.lists(
    st.tuples(st.one_of(st.integers(1, 40), st.integers(1, 2**31 - 1)), numbers, spaces), max_size=6
).map(
    lambda items: "".join(
        f"{space}{index}:{value}" for index, value, space in sorted({i[0]: i for i in items}.values())
    )
)
lines = st.one_of(
    st.builds(
        "{}{}{}{}{}".format,
        st.sampled_from(["", " ", "\t"]),
        st.one_of(numbers, st.integers(-3, 3).map(str)),
        st.sampled_from(["", " qid:7", "\tqid:x"]),
        features,
        st.sampled_from(["", " ", "\r", "#", " # c 1:2", "#\t\r"]),
    ),
    st.sampled_from(["", "  ", "#", "# x", "\r"]),
)
files = st.builds(
    lambda rows, end: "\n".join(rows) + end, st.lists(lines, min_size=1, max_size=8), st.sampled_from(["", "\n"])
)
has_rows = st.builds(lambda text, label: f"{label}\n{text}", files, st.integers(-2, 2)).map(str.encode)


@QUICK
@given(content=has_rows)
def test_valid_files_have_the_bits_of_sklearn(content, tmp_path):
    if any(
        not np.isfinite(float(token.split(b":")[-1]))
        for line in content.split(b"\n")
        for token in line.partition(b"#")[0].split()
        if not token.startswith(b"qid")
    ):
        path = tmp_path / "generated.svm"
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"line .* too large"):
            SvmlightFile(path).scan()
        return
    check_against_sklearn(content, tmp_path / "generated.svm")


@pytest.mark.parametrize("name", ["sms_spam", "spambase", "reuters21578"])
def test_real_files_have_the_bits_of_sklearn(name, tmp_path, shared_data):
    source = shared_data / f"{name}.svm.gz"
    stream = check_against_sklearn(gzip.decompress(source.read_bytes()), tmp_path / "real.svm")
    packed = SvmlightFile(source)
    assert (packed.rounds, packed.features, packed.classes, packed.max_norm) == (
        stream.rounds,
        stream.features,
        stream.classes,
        stream.max_norm,
    )
    assert all(np.array_equal(a, b) for a, b in zip(played(packed), played(stream), strict=True))


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no rows"),
        ("\n\n# nothing\n", "has no rows"),
        ("0\n0 1:1\n", "has only the label 0"),
        ("0.5\n", "has only the label '0.5'"),
        ("0\n1 1:nan\n", "line 2: '1:nan' has a value that is not a finite number"),
        ("0\n1 1:-INF\n", "line 2: '1:-INF' has a value that is not a finite number"),
        ("0\n1 1:1e999\n", "line 2: '1e999' is too large for a double"),
        ("0\n-9e999 1:1\n", "line 2: '-9e999' is too large"),
        ("0\n1 2:1 3:" + "9" * 400 + "\n", f"line 2: '{'9' * 39}…' is too large"),
        ("nan 1:1\n", "line 1: the label 'nan' is not a finite number"),
        ("infinity 1:1\n", "line 1: the label 'infinity' is not a finite number"),
        ("0\n\n1_0 1:1\n", "line 3: the label '1_0' is not a finite number"),
        ("0\n1 1:1_0\n", "line 2: '1:1_0' has a value that is not a finite number"),
        ("0\n1 1_0:1\n", "line 2: '1_0:1' is not index:value"),
        ("0\n1 0:1\n", "line 2: '0:1' has an index below 1: count the features from 1"),
        ("0\n1 -3:1\n", "line 2: '-3:1' has an index below 1"),
        ("0\n1 2147483648:1\n", "has an index above 2147483647"),
        ("0\n1 99999999999999999999999:1\n", "has an index above 2147483647"),
        ("0\n1 3:1 3:1\n", "line 2: '3:1' comes after index 3: sort"),
        ("0\n1 qid:9 3:1 2:1\n", "line 2: '2:1' comes after index 3: sort"),
        ("0\n1 3\n", "line 2: '3' is not index:value"),
        ("0\n1 3:\n", "line 2: '3:' has a value that is not a finite number"),
        ("0\n1 3:1:1\n", "line 2: '3:1:1' has a value"),
        ("0\n1 3 :1\n", "line 2: '3' is not"),
        ("0\n1 qid\n", "line 2: 'qid' is not index:value"),
        ("0\n1 1:1 qid:3\n", "line 2: 'qid:3' is not index:value"),
        ("0\n1 1:1e\n", "line 2: '1:1e' has"),
        ("0\n1 1:.\n", r"line 2: '1:\.' has"),
        ("0\n1 1:+-1\n", "has a value"),
        ("1,2 1:1\n", "line 1: the label '1,2'"),
        ("0 1:0x10\n", "line 1: '1:0x10' has"),
        ("spam " + "x" * 100, "line 1: the label 'spam'"),
        ("0 " + "x" * 100, f"line 1: '{'x' * 39}…' is not"),
        (b"0\n1 1:\xff\xfe\n", "line 2: .* has a value"),
        (b"\xef\xbb\xbf1 1:1\n", "line 1: the label"),
        (b"0\n1 1:1\0\n", "line 2: there is a NUL byte"),
        (b"0 # \0 hidden\n1\n", "line 1: there is a NUL byte"),
        (b"# \0\n1\n", "line 1: there is a NUL byte"),
        (b"0 qid:\0\n1\n", "line 1: there is a NUL byte"),
        (b"\x7fELF\0\0\0", "line 1: there is a NUL byte"),
    ],
)
def test_malformed_files(content, message, write):
    path = write(content)
    with pytest.raises(UserError, match=message) as caught:
        SvmlightFile(path).scan()
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_explicit_limits(write):
    path = write("0 1:1 5:1\n1 2:1\n2 9:0\n")
    with pytest.raises(UserError, match="line 3: '9:0' has an index above 5: raise features"):
        played(SvmlightFile(path, features=5, classes=[0, 1, 2]))
    with pytest.raises(UserError, match=r"line 3: the label 2 is not among the classes 0, 1: add it"):
        played(SvmlightFile(path, features=9, classes=[0, 1]))
    with pytest.raises(UserError, match=r"line 3: the label 2 is not among"):
        SvmlightFile(path, classes=[0, 1]).features  # noqa: B018
    for bad in (
        {"features": 0},
        {"features": 2**31},
        {"classes": [1]},
        {"classes": ["ham", "spam"]},
        {"classes": [None, 1]},
        {"classes": "01"},
        {"classes": 3},
        {"classes": ["1", 1]},
        {"classes": [float("nan"), 1]},
        {"max_norm": 0},
    ):
        with pytest.raises(UserError):
            SvmlightFile(path, **bad)
    with pytest.raises(UserError, match="path"):
        SvmlightFile(3)  # type: ignore[arg-type]
    with no_error_left():
        for given in ({"features": 5, "classes": [0, 1, 2]}, {"features": 9, "classes": [0, 1]}, {"classes": [0, 1]}):
            with contextlib.suppress(UserError):
                played(SvmlightFile(path, **given))


@pytest.mark.parametrize("bad", ["1 1:x", "7 1:1", "1 2:1e999", "1e999", "1 9:1"])
def test_the_rows_before_a_wrong_line_are_played(bad, write):
    path = write(f"0 1:1\n1 2:0.{'1' * 30}\n0\n{bad}\n1\n")
    chunks = SvmlightFile(path, features=3, classes=[0, 1]).chunks()
    good = next(chunks)
    assert good.labels.tolist() == [0, 1, 0]
    assert good.values.tolist() == [1.0, float("0." + "1" * 30)]
    with pytest.raises(UserError, match="line 4"):
        next(chunks)
    assert len(played(FirstRounds(SvmlightFile(path, features=3, classes=[0, 1]), 3))[3]) == 3
    with pytest.raises(UserError, match="line 4"):
        SvmlightFile(path, features=3).prepare() if bad[0] != "7" else SvmlightFile(path, classes=[0, 1]).prepare()


def test_files_that_cannot_be_opened(tmp_path, write):
    with pytest.raises(UserError, match="there is no file"):
        SvmlightFile(tmp_path / "absent")
    with pytest.raises(UserError, match="is a directory"):
        SvmlightFile(tmp_path)
    for odd in ("", "a\0b", "x" * 5000):
        with pytest.raises(UserError):
            SvmlightFile(odd)
    path = write("0\n1\n")
    stream = SvmlightFile(path)
    path.unlink()
    with pytest.raises(UserError, match="there is no file"):
        stream.scan()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "no"), r"cannot be read \(permission denied\): change its permissions"),
        (OSError(5, "Input/output error"), "cannot be read .Input/output error"),
    ],
)
def test_the_operating_system_refuses(write, monkeypatch, error, message):
    def refuse(*_):
        raise error

    path = write("0\n1\n")
    monkeypatch.setattr(sources, "open", refuse, raising=False)
    with pytest.raises(UserError, match=message):
        SvmlightFile(path).scan()
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=types.SimpleNamespace(read=refuse)))
    with pytest.raises(UserError, match=message):
        played(SvmlightFile("-", features=1, classes=[0, 1]))


def test_gzip(write):
    text = b"".join(b"%d 1:%d\n" % (i % 2, i + 1) for i in range(3000))
    packed = gzip.compress(text)
    expected = played(SvmlightFile(write(text)))
    members = gzip.compress(text[:1001]) + b"\0" + gzip.compress(b"") + gzip.compress(text[1001:])
    for content in (packed, packed + b"\0" * 10, members):
        found = played(SvmlightFile(write(content, "no-gz-in-the-name")))
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    for cut in (3, 10, 15, len(packed) // 2, len(packed) - 1):
        with pytest.raises(UserError, match="truncated"):
            SvmlightFile(write(packed[:cut])).scan()
    broken = bytearray(packed)
    broken[len(packed) // 2] ^= 255
    for content in (bytes(broken), packed[:-8] + b"\1" * 8, packed + b"garbage", b"\x1f\x8b\xff" + packed):
        with pytest.raises(UserError):
            SvmlightFile(write(content)).scan()
    with pytest.raises(UserError, match="has no rows"):
        SvmlightFile(write(gzip.compress(b""))).scan()


def test_a_file_of_numbers_is_not_a_classification(write, monkeypatch):
    monkeypatch.setattr("gappletron.data.sources.MOST_CLASSES", 50)
    with pytest.raises(UserError, match=r"more than 50 distinct labels .* looks like regression"):
        SvmlightFile(write("".join(f"{i}.5\n" for i in range(51)))).scan()


def test_a_file_that_changes_after_the_scan(write):
    path = write("0 1:1\n1 2:1\n")
    for content, message in (
        ("0 1:1\n1 3:1\n", "line 2: '3:1' has an index above 2: the file has changed since it was scanned"),
        ("0 1:1\n2 1:1\n", "line 2: the label 2 is not among the classes 0, 1: it was not there"),
        ("0 1:1\n1\n1\n", "had 2 rows when it was scanned and now has 3"),
    ):
        path.write_text("0 1:1\n1 2:1\n")
        stream = SvmlightFile(path)
        stream.scan()
        path.write_text(content)
        with pytest.raises(UserError, match=message):
            played(stream)


@QUICK
@given(content=st.binary(max_size=200))
@example(content=b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
@example(content=b"0" * 5000 + b"1:1")
@example(content=b"1 " + b"0" * 5000 + b"5:1 3:1")
@example(content=b"1 " + b"1" * 5000 + b":1")
@example(content=b"1e" + b"9" * 5000)
def test_no_other_exception_for_any_bytes(content, tmp_path):
    attempt(content, tmp_path)


@QUICK
@given(content=has_rows, data=st.data())
def test_no_other_exception_for_damaged_files(content, data, tmp_path):
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(
                st.binary(max_size=3),
                st.sampled_from([b":", b" ", b"nan", b"inf", b"_", b"\0", b"#", b"qid", b"e", b"-", b"\n", b"0"]),
            )
        )
    attempt(bytes(damaged), tmp_path)
    attempt(gzip.compress(content)[: data.draw(st.integers(0, 300))], tmp_path)


def attempt(content, folder):
    """Either a UserError, or scikit-learn reads the same numbers."""
    path = folder / "bytes.svm"
    path.write_bytes(content)
    try:
        stream = SvmlightFile(path)
        _, _, values, labels = played(stream)
    except UserError:
        return
    if content.startswith(b"\x1f\x8b"):
        return
    X, y = load_svmlight_file(str(path), zero_based=False)
    assert values.tobytes() == X.data.tobytes()
    assert [float(stream.classes[label]) for label in labels] == y.tolist()


# -------------------------------------------------------------------------------------------------- classes and options


def test_names_of_classes(write):
    assert SvmlightFile(write("3\n+1\n1.0\n-0\n")).classes == (0, 1, 3)
    assert SvmlightFile(write("2\n0.5\n1e-7\n")).classes == ("1e-07", "0.5", "2.0")
    path = write("0.50\n2\n")
    for classes, names, labels in (
        ([2, "0.5"], ("2.0", "0.5"), [1, 0]),
        (["2.0", ".5"], ("2.0", "0.5"), [1, 0]),
        (np.array([0.5, 2.0, 3.0]), ("0.5", "2.0", "3.0"), [0, 1]),
    ):
        stream = SvmlightFile(path, features=1, classes=classes)
        assert stream.classes == names
        assert next(stream.chunks()).labels.tolist() == labels
    for classes in (["1", "+0"], [True, False], np.array([1.0, 0.0]), [1, 0]):
        given = SvmlightFile(path, features=1, classes=classes).classes
        assert given == (1, 0)
        assert {type(name) for name in given} == {int}


def test_options_replace_the_scan(write, monkeypatch):
    path = write("0 1:3 2:4\n1 1:1\n0\n")
    stream = SvmlightFile(path)
    assert (stream.rounds, stream.features, stream.max_norm) == (3, 2, 5.0)
    assert FirstRounds(SvmlightFile(path), 2).rounds == 2
    assert FirstRounds(SvmlightFile(path), 7).rounds == 3
    assert played(FirstRounds(SvmlightFile(path), 2))[3].tolist() == [0, 1]
    with monkeypatch.context() as patch:
        patch.setattr(SvmlightFile, "scan", lambda self: pytest.fail("scanned"))
        stream = SvmlightFile(path, features=4, classes=[1, 0], max_norm=9)
        assert (stream.features, stream.classes, stream.rounds, stream.max_norm) == (4, (1, 0), None, 9.0)
        assert played(stream)[3].tolist() == [1, 0, 1]
        assert played(stream)[3].tolist() == [1, 0, 1]
        assert FirstRounds(stream, 2).rounds == 2
    assert SvmlightFile(path, features=4, classes=[1, 0]).max_norm == 5.0
    assert SvmlightFile(path, features=4).classes == (0, 1)
    with pytest.raises(UserError, match="norm is too large"):
        SvmlightFile(write("0 1:1e308 2:1e308 3:1.7e308\n1\n")).max_norm  # noqa: B018


@pytest.fixture
def openings(monkeypatch):
    """How often a file was opened: the list grows with every opening."""
    paths: list[str] = []
    opened = sources.open_file

    def counting(path, name):
        paths.append(path)
        return opened(path, name)

    monkeypatch.setattr(sources, "open_file", counting)
    return paths


GIVEN = {"features": 2, "classes": [1, 0], "max_norm": 9.0}


@pytest.mark.parametrize("names", [names for n in range(4) for names in itertools.combinations(GIVEN, n)], ids="+".join)
@pytest.mark.parametrize("bias", [False, True])
def test_a_file_is_scanned_at_most_once_and_read_once_to_play(names, bias, write, openings):
    path = write("0 1:3 2:4\n1 1:1\n0\n")
    stream = transform(FirstRounds(SvmlightFile(path, **{name: GIVEN[name] for name in names}), 2), bias=bias)
    needs_scan = not {"features", "classes"} <= set(names)
    for _ in range(2):
        stream.prepare()
        assert (stream.features, len(stream.classes)) == (2 + bias, 2)
        assert len(openings) == needs_scan
    played(stream)
    assert len(openings) == needs_scan + 1
    for _ in range(2):
        assert stream.max_norm
        assert len(openings) == (1 if len(names) == 3 else 2)
        stream.prepare()
        assert stream.rounds == 2
    played(stream)
    assert len(openings) == (2 if len(names) == 3 else 3)


def test_the_number_of_rounds_is_known_after_a_scan(write):
    stream = SvmlightFile(write("0 1:3 2:4\n1 1:1\n0\n"), features=2, classes=[0, 1])
    assert stream.rounds is None
    assert stream.max_norm == 5.0
    assert stream.rounds == 3


def test_progress(write, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 100)
    text = b"0 1:1\n1 1:2\n" * 50
    for content in (text, gzip.compress(text)):
        calls: list[tuple[int, int]] = []
        SvmlightFile(write(content)).scan(lambda *call, calls=calls: calls.append(call))
        assert calls[-1] == (len(content), len(content))
        prepared = transform(FirstRounds(SvmlightFile(write(content)), 3), bias=True)
        prepared.prepare(lambda *call, calls=calls: calls.append(call))
        assert len(calls) % 2 == 0
        calls = calls[: len(calls) // 2]
        SvmlightFile(write(content), features=1, classes=[0, 1]).prepare(lambda *_: pytest.fail("scanned"))
        assert calls == sorted(calls)


# ---------------------------------------------------------------------------------------------------- blocks and memory


def test_blocks_and_chunks_may_end_anywhere(write, monkeypatch):
    rng = np.random.default_rng(3)
    text = "# head\n"
    for row in range(400):
        indices = sorted(rng.choice(60, rng.integers(0, 9), replace=False) + 1)
        text += " ".join([str(row % 3), *(f"{j}:{rng.standard_normal():.20g}" for j in indices)])
        text += str(rng.choice(["\n", "\r\n", " # tail\n", "\n\n"]))
    path = write(text)
    expected = played(SvmlightFile(path))
    for block, rows in ((1, 400), (7, 3), (64, 1), (1000, 37)):
        monkeypatch.setattr(sources, "BLOCK", block)
        monkeypatch.setattr(svmlight, "CHUNK", rows)
        stream = SvmlightFile(path)
        assert all(np.array_equal(a, b) for a, b in zip(played(stream), expected, strict=True))
        assert max(len(chunk.labels) for chunk in stream.chunks()) <= rows


def test_many_doubtful_numbers_in_one_row(write):
    row = " ".join(f"{j}:0.{'1234567890' * 3}{j}" for j in range(1, 10_001))
    check_against_sklearn(f"0 {row}\n1 1:1e-999 2:1\n".encode(), write(""))


def test_a_line_without_end(write, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 1 << 16)
    monkeypatch.setattr(sources, "LONGEST_LINE", 1 << 20)
    with pytest.raises(UserError, match="line 2 is longer than 1 MiB"):
        SvmlightFile(write("0\n1 " + " " * (3 << 20))).scan()


def test_memory_stays_bounded(write, monkeypatch):
    """A gzipped 12 MB text that takes over 40 MB as arrays is scanned and played within 6 MB."""
    monkeypatch.setattr(sources, "BLOCK", 1 << 16)
    monkeypatch.setattr(svmlight, "CHUNK", 1 << 12)
    path = write(
        gzip.compress("".join(f"{i % 2} 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1\n" for i in range(320_000)).encode(), 1)
    )
    for chunk in FirstRounds(SvmlightFile(path, features=9, classes=[0, 1]), 10).chunks():
        assert len(chunk.labels) == 10
    tracemalloc.start()
    try:
        stream = SvmlightFile(path)
        assert stream.rounds == 320_000
        assert sum(len(chunk.values) for chunk in stream.chunks()) == 9 * 320_000
        assert tracemalloc.get_traced_memory()[1] < 6e6
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------------------------------------------------------- pipes


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("packed", [False, True])
def test_a_named_pipe_is_read_once(tmp_path, packed):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(UserError, match="is a pipe and can be read only once: give the features and the classes"):
        SvmlightFile(path, features=3)
    stream = SvmlightFile(path, features=3, classes=[0, 1])
    assert stream.rounds is None
    assert stream.max_norm is None
    with pytest.raises(UserError, match="cannot be scanned"):
        stream.scan()
    text = b"0 1:1\n1 3:1\n"
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(text) if packed else text,))
    writer.start()
    assert played(stream)[3].tolist() == [0, 1]
    writer.join()
    with pytest.raises(UserError, match="was read already"):
        stream.chunks()


def test_standard_input(monkeypatch):
    for path in ("-", "/dev/stdin", "/dev/fd/0"):
        with pytest.raises(UserError, match="is a pipe"):
            SvmlightFile(path)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(b"0 1:1\n1 3:x\n")))
    with pytest.raises(UserError, match="standard input, line 2: '3:x'"):
        played(SvmlightFile("-", features=3, classes=[0, 1]))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UserError, match="no standard input"):
        played(SvmlightFile("-", features=3, classes=[0, 1]))

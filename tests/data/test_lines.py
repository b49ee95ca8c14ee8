"""Lines by columns against the same lines one by one: the same features, bit by bit, classes and errors."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from gappletron import Encoder, UserError
from gappletron.data import formats
from gappletron.data.lines import scan_json, scan_vw
from gappletron.data.tables import TableFile

PARSE = {"jsonl": formats.parse_json, "vw": formats.parse_vw}
check = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

NUMBERS = st.sampled_from(
    ["0", "1", "-3", "-0", "0.0", "-0.0", "2.5", "1e-05", "-0.1", "1E5", "1e-400", "7e22"]
) | st.floats(-9, 9).map(repr)
TEXTS = st.sampled_from(
    ["", "a", "win a prize", "a a b", "2024-01-05", "2024-01-05 10:00:00", "12", "null", 'x":', "é", "\U0001f600", "\0"]
)
ODD = [
    *["-0", "1e400", "NaN", "Infinity", "Inf", "9007199254740993", "123456789012345678901", "-1e60", "01", "1.", ".5"],
    *["+1", "true", "null", "nUll", "[1,2]", "[]", "{}", '{"b":1}', '{"b":null}', '"7"', '"a\tb"'],
    *[r'"\ud800"', r'"\udc00"', r'"\u00e9"', r'"\u0000"', r'"\x"'],
]
BREAKS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", " \n", " ", "", "\n \x1c\n", ",\n", "\x00\n"])


@st.composite
def json_lines(draw):
    """Rows of a table, most of them regular; then odd values, names, spaces and ends of lines."""
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "null", "é", 'q"a', "Unnamed: 0"]), max_size=3, unique=True))
    kinds = [draw(st.sampled_from([NUMBERS, st.integers(-99, 99).map(str), TEXTS.map(json.dumps)])) for _ in names]
    null = draw(st.sampled_from(["null", "null", None]))
    gaps, oddity = draw(st.sampled_from([0, 0, 30])), draw(st.sampled_from([0, 0, 0, 2]))
    lines = []
    for row in range(draw(st.integers(1, 8))):
        cells = [("label", json.dumps("xy"[row % 2]))]
        for name, kind in zip(names, kinds, strict=True):
            value = draw(kind) if draw(st.integers(1, 100)) > gaps else null
            cells += [] if value is None else [(name, value)]
        if draw(st.integers(1, 10)) <= oddity:
            cells.append((draw(st.sampled_from(["a", "b", "label", "c"])), draw(st.sampled_from(ODD))))
        colon = draw(st.sampled_from([":", ": ", " :"])) if oddity else ": "
        lines.append("{" + ", ".join(json.dumps(name) + colon + value for name, value in cells) + "}")
        lines.append(draw(BREAKS) if oddity else "\n")
    return "".join(lines).encode()


WORDS = ["a", "b", "c", "a:2", "b:0.1", "b:-0.3", "a:-2", "c:1e-3", "d:", ":3", "é", "x:-0"]
ODD_WORDS = [
    *["a:1e400", "a:nan", "b:x", "c:1:2", "c:1_000", "d:+1", "d:0x1", "e:1e60", "f:--1", "f:infinity"],
    "x\u00a0y",
    "x\x1cy",
    "\xff",
]


@st.composite
def vw_lines(draw):
    """Lines for Vowpal Wabbit, most of them regular."""
    oddity = draw(st.sampled_from([0, 0, 1]))
    words = st.sampled_from([*WORDS, *ODD_WORDS] if oddity else WORDS)
    spaces = st.sampled_from(["n", "m", "", "n:2", "n:0.5", "n:", *([":2", "n:x", "n:1:2"] if oddity else [])])
    heads = st.sampled_from(["x ", "x 2 ", "x 'tag ", " y", "y'tag", "1:2 ", *([" ", "x", "'t "] if oddity else [])])
    lines = []
    for row in range(draw(st.integers(1, 8))):
        lines.append(f"{'xy'[row % 2]} |k a " if row < 2 else draw(heads))
        for _ in range(draw(st.integers(1 - oddity, 3))):
            part = draw(st.lists(words, max_size=6))
            lines.append("|" + draw(spaces) + draw(st.sampled_from([" ", "  ", "\t"])) + " ".join(part))
        lines.append(draw(st.sampled_from(["\n", "\n\n", "\r\n", " \n"])) if oddity else "\n")
    return "".join(lines).encode(draw(st.sampled_from(["utf-8", "utf-8", "latin-1"])))


def read(path, format, features, by_cells):
    """All that a stream is, as bytes; or what is wrong with it."""
    stream = TableFile(
        path, "label", format=format, encoder=Encoder(features=features, numeric="k.a", categorical="c", ngrams=2)
    )
    if by_cells:
        stream._read = functools.partial(formats.read_by_lines, scan=lambda block: None, parse=PARSE[format])
    try:
        stream.prepare()
        chunks = list(stream.chunks())
    except UserError as error:
        return str(error)
    arrays = [np.concatenate([np.diff(chunk.indptr) for chunk in chunks])]
    arrays += [np.concatenate([chunk[part] for chunk in chunks]) for part in (1, 2, 3)]
    return stream.classes, stream.rounds, stream.encoder.to_dict(), [array.tobytes() for array in arrays]


@check
@given(json_lines(), st.sampled_from([5, 1000, 2**31 - 1]))
@example(b'{"label":"x","a":1}{"label":"y","a":2}\n', 5)
@example(b'{"label":"x","a":\n1}\n{"label":"y"}\n', 5)
@example(b'\xef\xbb\xbf{"label":"x"}\n{"label":"y","a":"\xff"}\n', 1000)
@example(b'{"label":"x"}{"label":"y",\n"a":1}\n', 5)
@example(b'{"label":"x","c":9007199254740993}\n{"label":"y","c":0.5}\n', 1000)
@example(b'{"label":"x","\\u0061":1,"q\\"a":1}\n{"label":"null","q\\"a":2}\n', 1000)
@example(b'{"label":"x","a":null,"b":2}\n{"label":"y","a":1}\n', 1000)
@example(b'{"label":"label","a":"a"}\n{"label":"y","a":"b"}\n', 1000)
@example(b'{"label":"x","a":1,"a":2}\n{"label":"y","a":3}\n', 1000)
def test_lines_of_json_are_the_same_by_columns(tmp_path, content, features):
    path = Path(tmp_path, "rows.jsonl")
    path.write_bytes(content)
    assert read(path, "jsonl", features, by_cells=False) == read(path, "jsonl", features, by_cells=True)


@check
@given(vw_lines(), st.sampled_from([5, 1000, 2**31 - 1]))
@example("x |n a\u2003b\ny |n b\n".encode(), 1000)
@example(b"x |n a:0.1 b a:0.2 |m a |n a:0.3\ny |n b\n", 5)
@example(b"x |n a:1 a:-1\ny |\n", 1000)
@example(b"x |n:y\ny |n b\n", 1000)
@example(b"x |n c:1:2\ny |n b\n", 1000)
def test_lines_for_vowpal_wabbit_are_the_same_by_columns(tmp_path, content, features):
    path = Path(tmp_path, "rows.vw")
    path.write_bytes(content)
    assert read(path, "vw", features, by_cells=False) == read(path, "vw", features, by_cells=True)


@pytest.mark.parametrize(
    ("scan", "block"),
    [
        (scan_json, b'{"label": "x", "a": 1, "b": "2024-01-05"}\r\n{"label": "y", "b": "2024-02-29", "a": 2.5}\r\n'),
        (scan_json, b'{"a": 1}\n{"b": -0.0}\n'),
        (scan_json, b'{"a": null, "b": "null"}\n{"a": 1, "b": "x"}\n'),
        (scan_vw, "1 |n é b:2 b |m a:0.5\n0 'tag |\n".encode()),
    ],
)
def test_what_is_regular_is_read_by_columns(scan, block):
    assert scan(block) is not None

"""Records, encoded: against scikit-learn's hashing and a plain transcription of the rules."""

import collections
import datetime
import decimal
import itertools
import math
import pickle
import re
import unicodedata

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32

from gappletron import Encoder, UserError, interpreted
from gappletron.data.records.hashing import hash_string
from gappletron.data.records.values import to_number, to_text

FEATURES = 2**31 - 1


def tokens_of(text):
    """The rule in the docs, word by word."""
    frozen = unicodedata.ucd_3_2_0
    found, word = [], ""
    for letter in text:
        code, kind = ord(letter), frozen.category(letter)
        alone = code > 0xFFFF or 0x3040 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF
        alone = alone or (kind[0] in "PS" and kind != "Pc")
        if kind == "Cn" and not alone:
            word += letter
        elif alone:
            found += [word, letter]
            word = ""
        elif kind[0] in "LMN" or kind == "Pc":
            word += letter.lower()[0]
        else:
            found.append(word)
            word = ""
    return [token for token in [*found, word] if token]


def reference(text_columns, record, features=FEATURES, ngrams=1):
    """The features of a dict of numbers, texts and None, as a dict; hashes may cancel each other, a number 0 stays."""
    found, zeros = collections.defaultdict(float), set()

    def add(text, seed):
        h = murmurhash3_32(text.encode("utf-8", "surrogatepass"), seed=seed)
        found[abs(h) % features] += 1.0 if h >= 0 else -1.0

    for name, value in record.items():
        seed = murmurhash3_32(name.encode(), positive=True)
        if value is None or value == "":
            add("", seed)
        elif isinstance(value, str):
            if name not in text_columns:
                add(value, seed)
            words = tokens_of(value)
            for n in range(1, ngrams + 1):
                for start in range(len(words) - n + 1):
                    add(" ".join(words[start : start + n]), seed)
        else:
            index = abs(murmurhash3_32(name.encode())) % features
            found[index] += float(value)
            if value == 0.0:
                zeros.add(index)
    return {index: value for index, value in found.items() if value != 0.0 or index in zeros}


def as_dict(encoded):
    indices, values = encoded
    assert (np.diff(indices) > 0).all()
    assert indices.dtype == np.int32
    return dict(zip(indices.tolist(), values.tolist(), strict=True))


def rows_of(encoded):
    indptr, indices, values = encoded
    return [as_dict((indices[start:stop], values[start:stop])) for start, stop in itertools.pairwise(indptr)]


def test_the_hash_is_scikit_learns():
    rng = np.random.default_rng(0)
    for length in range(40):
        text = "".join(map(chr, rng.integers(32, 0x2FFF, length)))
        seed = int(rng.integers(2**32))
        assert hash_string(text, seed) == murmurhash3_32(text.encode(), seed=seed, positive=True)


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_plain_texts_are_hashed_as_by_scikit_learn(ngrams):
    texts = ["Free entry in 2 a wkly comp!", "", "don't   STOP\tnow_or never...", "a", "x " * 50, "Ünïcode £5, Größe"]
    theirs = HashingVectorizer(
        token_pattern=r"\w+|[^\w\s]", ngram_range=(1, ngrams), norm=None, n_features=FEATURES
    ).transform(texts)
    encoder = Encoder(ngrams=ngrams)
    for text, row in zip(texts, theirs, strict=True):
        if text:  # an empty text is a missing value here
            expected = {index: value for index, value in zip(row.indices.tolist(), row.data, strict=True) if value}
            assert as_dict(encoder.encode(text)) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(), st.integers(1, 3))
def test_any_text_against_the_plain_rules(text, ngrams):
    encoder = Encoder(text="t", ngrams=ngrams)
    expected = reference(["t"], {"t": text}, ngrams=ngrams)
    assert as_dict(encoder.encode({"t": text})) == expected
    if not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        assert rows_of(encoder.encode_many(pa.table({"t": [text]}))) == [expected]


values = st.none() | st.text(max_size=30) | st.floats(-1e6, 1e6) | st.integers(-1000, 1000)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "größe", "t", ""]), values, max_size=5))
def test_any_record_against_the_plain_rules(record):
    if isinstance(record.get("t"), float | int):
        record["t"] = f"{record['t']} euros"
    assert as_dict(Encoder(text="t", features=1000).encode(record)) == pytest.approx(
        reference(["t"], record, features=1000)
    )


def test_interpreted_gives_the_same():
    record = {"t": "Grüße aus Köln, 2 mal!", "n": 3.5, "c": "rot"}
    compiled = as_dict(Encoder(text="t", ngrams=2).encode(record))
    with interpreted():
        assert as_dict(Encoder(text="t", ngrams=2).encode(record)) == compiled


FRAME = pd.DataFrame(
    {
        "text": ["Win a prize", "see you at 5", None, ""],
        "age": [41.0, np.nan, 0.0, 1e10],
        "count": [1, 2, 3, 4],
        "flag": [True, False, True, True],
        "city": pd.Categorical(["Bonn", "Ulm", None, "Bonn"]),
        "when": pd.to_datetime(["2024-01-05 00:00:00", "2024-02-29 12:30:00", None, "1999-12-31 23:59:59"]),
        7: ["red", "Light Blue", None, "red"],
    }
)
DECLARED = [
    Encoder(text="text"),
    Encoder(text="text", categorical=["count", "age", "flag"], numeric="when"),
    Encoder(numeric=["7", "text"], drop=["when", "flag"]),
    Encoder(text=["7", "city"], ngrams=2, features=512),
]


@pytest.mark.parametrize("encoder", DECLARED)
def test_a_frame_is_its_rows(encoder):
    one_by_one = [as_dict(encoder.encode(row)) for _, row in FRAME.astype(object).iterrows()]
    records = FRAME.rename(columns=str).to_dict("records")
    assert rows_of(encoder.encode_many(FRAME)) == one_by_one
    assert rows_of(encoder.encode_many(records)) == one_by_one
    assert [as_dict(encoder.encode(record)) for record in records] == one_by_one
    assert rows_of(encoder.encode_many(pa.Table.from_pandas(FRAME.rename(columns=str)))) == one_by_one
    sliced = pa.Table.from_pandas(FRAME.rename(columns=str)).slice(1, 2)
    assert rows_of(encoder.encode_many(sliced)) == one_by_one[1:3]


@pytest.mark.parametrize("features", [3, 2**18])
@pytest.mark.parametrize("ngrams", [1, 3])
def test_a_list_of_records_is_its_records_bit_by_bit(features, ngrams):
    """Also where features collide, so that the order of a sum matters, and where the columns change their order."""
    rng = np.random.default_rng(7)
    words = ["win", "a", "prize", "ünï", "5", "!", "", "日本"]
    records: list = ["", "bare text, bare", b"bytes", {}, {"t": None}, {"a": ["x", 0.3], "b": {"c": 0.1}}]
    for _ in range(60):
        fields = {f"n{k}": float(rng.normal()) for k in range(3)}
        fields |= {f"t{k}": " ".join(rng.choice(words, 6)) for k in range(3)}
        records.append({name: fields[name] for name in rng.permutation(list(fields))[: rng.integers(1, 7)]})
    encoder = Encoder(text=["t0", "t1"], features=features, ngrams=ngrams)
    indptr, indices, values = encoder.encode_many(records)
    for record, start, stop in zip(records, indptr.tolist(), indptr[1:].tolist(), strict=False):
        expected = encoder.encode(record)
        assert indices[start:stop].tolist() == expected[0].tolist()
        assert values[start:stop].tobytes() == expected[1].tobytes()


def test_a_polars_frame_is_its_rows():
    frame = polars.DataFrame({"t": ["a b", None], "n": [1, None], "f": [True, False], "c": ["x", "y"]})
    encoder = Encoder(text="t")
    assert rows_of(encoder.encode_many(frame)) == [as_dict(encoder.encode(row)) for row in frame.iter_rows(named=True)]


def test_a_frame_that_arrow_cannot_hold():
    frame = pd.DataFrame({"mixed": [1, "two", None, 2.5]}, dtype=object)
    encoder = Encoder()
    expected = [as_dict(encoder.encode({"mixed": value})) for value in (1, "two", None, 2.5)]
    assert rows_of(encoder.encode_many(frame)) == expected


def test_dates_and_other_objects_of_pandas_and_numpy():
    frame = pd.DataFrame(
        {
            "delta": pd.to_timedelta([93_600, 5], unit="s"),
            "nano": pd.to_datetime([1_700_000_000_123_456_789, 1]),
            "band": pd.cut([1, 5], [0, 3, 9]),
            "month": pd.period_range("2024-01", periods=2, freq="M"),
            "price": [decimal.Decimal("2.00"), decimal.Decimal("2.50")],
        }
    )
    for encoder in (Encoder(), Encoder(categorical=["price", "delta"])):
        one_by_one = [as_dict(encoder.encode(row)) for _, row in frame.astype(object).iterrows()]
        assert rows_of(encoder.encode_many(frame)) == one_by_one
        simple = frame[["delta", "nano", "price"]]
        one_by_one = [as_dict(encoder.encode(row)) for _, row in simple.astype(object).iterrows()]
        assert rows_of(encoder.encode_many(simple)) == one_by_one
    assert to_text(np.datetime64("2024-01-05T10:00:00.000000001")) == "2024-01-05 10:00:00"


def test_frames_that_are_refused():
    with pytest.raises(UserError, match="two columns called 'a'"):
        Encoder().encode_many(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(UserError, match="a record is a dict"):
        Encoder().encode(pd.DataFrame({"a": [3.0]}))
    large = rows_of(Encoder().encode_many(pd.DataFrame({"a": [10**30, 1]}, dtype=object)))
    assert large == [as_dict(Encoder().encode({"a": 10**30})), as_dict(Encoder().encode({"a": 1}))]
    late = pa.table({"when": pa.array([10**15], pa.timestamp("s"))})
    with pytest.raises(UserError, match="a value that Python cannot hold"):
        Encoder().encode_many(late)


def test_numbers_in_texts():
    for text, number in [("1.5", 1.5), (" 2 ", 2.0), ("-1e3", -1000.0), ("True", 1.0), ("false", 0.0)]:
        assert to_number(text) == number
    for text in ("NA", "n/a", "", "nan", "NULL", "?", "None"):
        assert math.isnan(to_number(text))
    for text in ("two", "1_000", "0x10", "1,5"):
        assert to_number(text) is None
    assert to_number(datetime.date(1970, 1, 2)) == 86_400
    assert to_number(datetime.timedelta(minutes=1)) == 60
    assert to_number(decimal.Decimal("2.5")) == 2.5
    assert to_number(10**400) == math.inf


def test_a_numeric_column_of_texts_is_the_same_in_a_table():
    texts = ["1.5", " 2 ", "NA", "two", "", "1e3", None, "0"]
    encoder = Encoder(numeric="n")
    expected = [as_dict(encoder.encode({"n": text})) for text in texts]
    assert rows_of(encoder.encode_many(pa.table({"n": texts}))) == expected
    clean = ["1.5", "2", "", None, "-0.25"]
    expected = [as_dict(encoder.encode({"n": text})) for text in clean]
    assert rows_of(encoder.encode_many(pa.table({"n": clean}))) == expected
    assert rows_of(encoder.encode_many(pa.table({"n": pa.array([t and t.encode() for t in clean])}))) == expected


def test_bytes_that_are_not_utf8_are_latin1():
    table = pa.table({"t": pa.array(["Größe".encode("latin-1"), "Größe".encode()])})
    encoder = Encoder(text="t")
    assert rows_of(encoder.encode_many(table)) == [as_dict(encoder.encode({"t": "Größe"}))] * 2


def test_lists_and_mappings():
    encoder = Encoder()
    assert as_dict(encoder.encode({"v": [0.5, 2.0]})) == as_dict(encoder.encode({"v.0": 0.5, "v.1": 2.0}))
    assert as_dict(encoder.encode({"v": np.array([0.5, 2.0])})) == as_dict(encoder.encode({"v.0": 0.5, "v.1": 2.0}))
    assert as_dict(encoder.encode({"user": {"age": 3}})) == as_dict(encoder.encode({"user.age": 3}))
    assert as_dict(encoder.encode({"tags": []})) == as_dict(encoder.encode({"tags": None}))
    both = collections.Counter(as_dict(encoder.encode({"tags": ["a"]})))
    both.update(as_dict(encoder.encode({"tags": ["b"]})))
    assert as_dict(encoder.encode({"tags": ["a", "b"]})) == dict(both)
    assert as_dict(encoder.encode({"tags": {"b", "a"}})) == dict(both)
    point = collections.namedtuple("point", "x y")
    assert as_dict(encoder.encode(point(1.0, "a"))) == as_dict(encoder.encode({"x": 1.0, "y": "a"}))
    nested = 1.0
    for _ in range(20):
        nested = {"deeper": nested}
    with pytest.raises(UserError, match="nested more than"):
        encoder.encode(nested)


def test_to_text():
    assert [to_text(value) for value in (1, 1.0, np.float32(2), True, np.bool_(False), b"\xe9", "x")] == [
        "1",
        "1",
        "2",
        "true",
        "false",
        "é",
        "x",
    ]


def test_refusals():
    with pytest.raises(UserError, match="the column 'n' has the value inf"):
        Encoder().encode({"n": math.inf})
    with pytest.raises(UserError, match="the column 'n' has the value -inf"):
        Encoder().encode_many(pa.table({"n": [1.0, -math.inf]}))
    with pytest.raises(UserError, match="the column 'a' is both text and numeric"):
        Encoder(text="a", numeric="a")
    with pytest.raises(UserError, match="a record is a dict"):
        Encoder().encode([1.0, 2.0])
    with pytest.raises(UserError, match="not one: put it in a list"):
        Encoder().encode_many({"a": 1})
    with pytest.raises(UserError, match="names of columns are texts"):
        Encoder(text=[1])
    with pytest.raises(UserError, match="ngrams must be at most 5"):
        Encoder(ngrams=6)


def test_an_encoder_is_a_value():
    encoder = Encoder(text="t", numeric=["a", "b"], features=100, ngrams=2)
    assert pickle.loads(pickle.dumps(encoder)) == encoder == Encoder.from_dict(encoder.to_dict())
    assert hash(encoder) == hash(Encoder.from_dict(encoder.to_dict()))
    assert encoder != Encoder(text="t")
    assert eval(repr(encoder)) == encoder
    assert re.fullmatch(r"Encoder\(\)", repr(Encoder()))


GOLDEN = {
    271794527: -1.0,
    867044503: -1.0,
    967714644: 2.5,
    1234947852: 2.0,
    1751909787: 1.0,
    1874127839: 1.0,
    1882169583: -1.0,
    1892303576: -1.0,
    1918889457: 1.0,
}


def test_golden_values_stay_the_same():
    """Saved models depend on these: a change here breaks every one of them."""
    record = {"t": "Hello, wörld 中文 🙂", "n": 2.5, "c": "x", "m": None}
    assert as_dict(Encoder(text="t").encode(record)) == GOLDEN

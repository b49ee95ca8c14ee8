"""Records, encoded: against the package xxhash, scikit-learn's tokens and a plain transcription of the rules."""

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
from sklearn.feature_extraction.text import CountVectorizer
from xxhash import xxh64_intdigest

from gappletron import Encoder, FeedbackGraph, Online, UserError, interpreted, open_stream
from gappletron.data.records.hashing import Entries, Hasher, hash_categories, hash_string
from gappletron.data.records.values import to_number, to_text

FEATURES = 2**62


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


def feature(text, seed=0, features=FEATURES):
    h = xxh64_intdigest(text.encode("utf-8", "surrogatepass"), seed)
    return h % 2**62 % features, -1.0 if h >= 2**63 else 1.0


def reference(text_columns, record, features=FEATURES, ngrams=1):
    """The features of a dict of numbers, texts and None, as a dict; hashes may cancel each other, a number 0 stays."""
    found, zeros = collections.defaultdict(float), set()

    def add(text, seed):
        index, sign = feature(text, seed, features)
        found[index] += sign

    for name, value in record.items():
        seed = xxh64_intdigest(name.encode())
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
            index, _ = feature(name, 0, features)
            found[index] += float(value)
            if value == 0.0:
                zeros.add(index)
    return {index: value for index, value in found.items() if value != 0.0 or index in zeros}


def as_dict(encoded):
    indices, values = encoded
    assert (np.diff(indices) > 0).all()
    assert indices.dtype == np.int64
    return dict(zip(indices.tolist(), values.tolist(), strict=True))


def rows_of(encoded):
    indptr, indices, values = encoded
    return [as_dict((indices[start:stop], values[start:stop])) for start, stop in itertools.pairwise(indptr)]


def test_the_hash_is_that_of_the_package_xxhash():
    rng = np.random.default_rng(0)
    for length in [*range(60), 200, 1000]:
        text = "".join(map(chr, rng.integers(32, 0x2FFF, length)))
        seed = int(rng.integers(-(2**63), 2**63))
        expected = xxh64_intdigest(text.encode(), seed % 2**64)
        assert hash_string(text, seed) % 2**64 == expected
        with interpreted():
            assert hash_string(text, seed) % 2**64 == expected
    assert hash_string("") == 0xEF46DB3751D8E999 - 2**64  # as in the specification of xxHash


def test_a_million_categories_have_a_feature_each():
    """With 2^31 - 1 places there were 230 pairs in one; with 2^62 the chance of one pair is 10^-7."""
    words = [f"word {number}" for number in range(1_000_000)]
    ends = np.cumsum([0, *map(len, words)])
    found = hash_categories(np.frombuffer("".join(words).encode(), np.uint8), ends, 0, FEATURES)
    assert np.unique(found.indices).size == len(words)
    assert 0 <= found.indices.min() <= found.indices.max() < FEATURES
    assert abs(found.values.mean()) < 0.005  # five standard deviations
    highest = np.bincount(found.indices >> 56, minlength=64)
    assert abs(highest - 15_625).max() < 650


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_plain_texts_have_the_tokens_of_scikit_learn(ngrams):
    texts = ["Free entry in 2 a wkly comp!", "", "don't   STOP\tnow_or never...", "a", "x " * 50, "Ünïcode £5, Größe"]
    tokens_of_text = CountVectorizer(token_pattern=r"\w+|[^\w\s]", ngram_range=(1, ngrams)).build_analyzer()
    encoder = Encoder(ngrams=ngrams)
    for text in texts:
        if text:  # an empty text is a missing value here
            expected = collections.Counter()
            for token in tokens_of_text(text):
                index, sign = feature(token)
                expected[index] += sign
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


@pytest.mark.parametrize("highest", [1, 3, 2**18, 2**40, FEATURES])
def test_rows_of_any_length_are_put_in_order_and_added_up(highest):
    rng = np.random.default_rng(0)
    lengths = np.array([0, 1, 2, 5, 33, 700, 0, 9000])
    row_of = np.repeat(np.arange(lengths.size), lengths)
    parts, expected = [], [collections.defaultdict(list) for _ in lengths]
    for _ in range(3):
        indices, values = rng.integers(0, highest, row_of.size), rng.choice([-1.0, 1.0, 0.0, 0.25], row_of.size)
        parts.append(Entries(lengths, indices, values))
        for row, index, value in zip(row_of.tolist(), indices.tolist(), values.tolist(), strict=True):
            expected[row][index].append(value)
    # All features may be in the lowest part of their range.
    for features in (highest, FEATURES):
        indptr, indices, values, squared = Hasher(features, 1).merge_parts(parts, lengths.size)
        for row, found in enumerate(expected):
            sums = {index: sum(found[index]) for index in sorted(found) if sum(found[index]) or 0.0 in found[index]}
            here = slice(indptr[row], indptr[row + 1])
            assert indices[here].tolist() == list(sums)
            assert values[here].tolist() == list(sums.values())  # quarters: sums are exact
            assert squared[row] == math.fsum(value**2 for value in sums.values())


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
    104594338477421694: 2.5,
    1250838828702526752: -1.0,
    1842402262079480591: -1.0,
    2036913594818543280: 1.0,
    2170301930497917995: 1.0,
    3560090130803148228: 1.0,
    4086088801108099320: -1.0,
    4216561134784704385: -2.0,
    4225120048392417233: 1.0,
}


def test_golden_values_stay_the_same():
    """Saved models depend on these: a change here breaks every one of them."""
    record = {"t": "Hello, wörld 中文 🙂", "n": 2.5, "c": "x", "m": None}
    assert as_dict(Encoder(text="t").encode(record)) == GOLDEN


# ------------------------------------------------------------------------------------ what has no text, strict encoders


class Plain:
    """Its text says where it is in memory."""


@pytest.mark.parametrize(
    "value",
    [
        Plain(),
        lambda: 1,
        (n for n in ()),
        memoryview(b"a"),
        1j,
        np.complex64(1j),
        np.array(1j),
        collections.deque([Plain()]),
    ],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {"a": value}])
@pytest.mark.parametrize("column", ["n", "c", "t", "other"])
def test_what_has_no_text_of_its_own_is_refused(value, wrap, column):
    """An address in memory is another one in the next process, so the model would never know the value again."""
    encoder = Encoder(numeric="n", categorical="c", text="t")
    record = {column: wrap(value)}
    for encode in (encoder.encode, lambda record: encoder.encode_many([record])):
        with pytest.raises(UserError, match=rf"the column '{column}[.0a]*': .* no text that is always the same"):
            encode(record)


def test_texts_and_values_that_speak_of_addresses_are_taken():
    encoder = Encoder()
    for value in (
        "an object at 0x7f2a",
        b"at 0x7f2a",
        decimal.Decimal("1.5"),
        datetime.date(2024, 1, 5),
        math,
        3 + 0.5,
    ):
        encoder.encode({"x": value})


def test_complex_columns_of_a_frame_are_refused():
    with pytest.raises(UserError, match="the column 'x'"):
        Encoder().encode_many(pd.DataFrame({"x": [1j, 2j]}))


FITTING = {"message": "hello", "links": 3, "sender": {"age": None}, "point": [1.0, 2.0]}
Mail = collections.namedtuple("Mail", ["message", "links"])


def strict(**options):
    numeric = ["links", "sender.age", "point.0", "point.1"]
    return Encoder(text="message", numeric=numeric, drop="note", features=2**20, strict=True, **options)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({**FITTING, "mesage": 1}, "no column 'mesage', did you mean 'message'"),
        ({**FITTING, "sender": {"age": 4, "name": "Eve"}}, "no column 'sender.name'"),
        ({**FITTING, "sender": {}}, "no column 'sender'"),
        ({name: value for name, value in FITTING.items() if name != "links"}, "it lacks the column 'links'"),
        ("a text", "it is a text without a column"),
        (b"bytes", "it is a text without a column"),
        ({}, "it lacks the column 'links'"),
        ({**FITTING, 3: "a"}, "no column '3'"),
    ],
)
def test_a_strict_encoder_refuses_other_columns(record, sentence):
    for encode in (strict().encode, strict().vector, lambda each: strict().encode_many([FITTING, each])):
        with pytest.raises(UserError, match=sentence):
            encode(record)


def test_a_strict_encoder_takes_what_fits():
    """With the bits of one that is not strict."""
    free = Encoder(**{**strict().to_dict(), "strict": False})
    point = {**FITTING, "point": np.array([1.0, 2.0]), "note": Plain()}
    for record in (FITTING, {**FITTING, "note": "ignored"}, point):
        for each in zip(strict().encode(record), free.encode(record), strict=True):
            assert np.array_equal(*each)
    frame = pd.DataFrame([FITTING] * 3)
    for table in (frame, pa.Table.from_pandas(frame), [FITTING] * 3):
        for each in zip(strict().encode_many(table), free.encode_many(table), strict=True):
            assert np.array_equal(*each)
    named = Encoder(text="message", numeric="links", strict=True)
    assert named.encode(Mail("hello", 3))[0].size == named.encode({"message": "hello", "links": 3})[0].size == 2


@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars"])
def test_a_strict_encoder_refuses_frames(kind):
    frame = pd.DataFrame({"message": ["a", "b"], "links": [1, 2]})
    make = {"pandas": lambda x: x, "arrow": pa.Table.from_pandas, "polars": polars.from_pandas}[kind]
    encoder = Encoder(text="message", numeric="links", strict=True)
    assert encoder.encode_many(make(frame))[0].tolist() == [0, 2, 4]
    with pytest.raises(UserError, match="no column 'linx', did you mean 'links'"):
        encoder.encode_many(make(frame.rename(columns={"links": "linx"})))
    with pytest.raises(UserError, match="it lacks the column 'links'"):
        encoder.encode_many(make(frame[["message"]]))


def test_a_strict_encoder_is_a_value():
    encoder = strict()
    assert Encoder.from_dict(encoder.to_dict()) == encoder == pickle.loads(pickle.dumps(encoder))
    assert encoder != Encoder(**{**encoder.to_dict(), "strict": False})
    assert repr(encoder).endswith("strict=True)")
    assert encoder.declaring({"label": "drop"}).strict
    encoder.declaring({"label": "drop"}).encode({**FITTING, "label": "ham"})
    with pytest.raises(UserError, match="nothing to be strict about"):
        Encoder(drop="note", strict=True)
    with pytest.raises(UserError, match="must be True or False"):
        Encoder(text="message", strict=1)


def test_a_strict_encoder_in_a_model_and_a_stream(tmp_path):
    encoder = Encoder(text="message", strict=True)
    with interpreted():
        model = Online("gapsmh", FeedbackGraph.filtering(["ham", "spam"]), encoder=encoder)
        model.act({"message": "hello"})
        for call in (model.act, model.predict, lambda x: model.teach(x, "ham"), lambda x: model.act_many([x] * 40)):
            with pytest.raises(UserError, match="no column 'mesage'"):
                call({"mesage": "hello"})
        with pytest.raises(UserError, match="row 1: there is no column"):
            model.act_many([{"message": "a"}, {"mesage": "b"}])
        assert model.rounds == 1
        model.save(tmp_path / "model.npz")
        assert Online.load(tmp_path / "model.npz").encoder == encoder
        path = tmp_path / "mail.csv"
        path.write_text("label,message\nham,hello\nspam,win\n")
        stream = open_stream(path, label="label", encoder=encoder)
        assert sum(len(chunk.labels) for chunk in stream.chunks()) == 2
        path.write_text("label,message,links\nham,hello,1\nspam,win,2\n")
        with pytest.raises(UserError, match="no column 'links'"):
            list(open_stream(path, label="label", encoder=encoder).chunks())

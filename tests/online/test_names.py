"""Names that can be guessed: one row or many, UNSEEN, costs, frames, signatures, notebooks."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import gappletron as gp
from gappletron import UNSEEN, Encoder, FeedbackGraph, GappletronClassifier, Online, UserError, interpreted

GRAPH = FeedbackGraph.filtering(["ham", "spam"])
FRAME = pd.DataFrame({"message": ["win a prize", "see you at five"] * 10, "links": [3, 0] * 10})
LABELS = ["spam", "ham"] * 10


@pytest.fixture
def model():
    with interpreted():
        made = Online(graph=GRAPH, encoder=Encoder(text="message"))
        made.teach_many(FRAME, pd.Series(LABELS))
        yield made


def test_predict_takes_one_row_or_many(model):
    records = FRAME.to_dict("records")
    assert model.predict(records[0]) == model.predict(FRAME.iloc[0]) == "spam"
    for many in (FRAME, records, tuple(records)):
        assert model.predict(many) == model.predict_many(many) == LABELS
    for texts in (FRAME.message, np.array(FRAME.message, object)):  # texts without a column
        assert model.predict(texts) == [model.predict(text) for text in FRAME.message]
    vectors = Online(graph=GRAPH, features=2)
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    vectors.teach_many(X.repeat(20, axis=0), ["ham"] * 20 + ["spam"] * 20)
    assert vectors.predict(X[0]) == vectors.predict({0: 1.0}) == vectors.predict(([0], [1.0])) == "ham"
    for many in (X, X.tolist(), csr_array(X), pd.DataFrame(X)):
        assert vectors.predict(many) == ["ham", "spam"]
    assert vectors.predict(X[:1]) == ["ham"]
    assert vectors.predict(csr_array(X[:1])) == "ham"  # a sparse vector is a matrix of one row


def test_teaching_many_is_teaching_each():
    with interpreted():
        one, many = (Online(graph=GRAPH, encoder=Encoder()) for _ in range(2))
        scores = [{"ham": 0.3, "spam": 0.7}, {"ham": 0.9, "spam": 0.1}] * 10
        for record, label, own in zip(FRAME.to_dict("records"), LABELS, scores, strict=True):
            one.teach(record, label, 0.5, own)
        many.teach_many(FRAME, LABELS, 0.5, scores)
        assert many.differences(one) == []
        with pytest.raises(UserError, match="20 rows and 1 labels"):
            many.teach_many(FRAME, ["ham"])
        with pytest.raises(UserError, match="there is no class 'eggs'"):
            many.teach_many(FRAME, [*LABELS[:19], "eggs"])
        with pytest.raises(UserError, match="propensity"):
            many.teach_many(FRAME, LABELS, 0.0)
        assert many.differences(one) == []  # all is checked before the first row is learned


def test_many_rows_where_one_is_wanted_point_to_the_other_method(model):
    for many in (FRAME, FRAME.message, FRAME.to_dict("records")):
        with pytest.raises(UserError, match="use act_many, teach_many or predict_many"):
            model.act(many)
    with pytest.raises(UserError, match="put it in a list, or use predict"):
        model.predict_many({"message": "win"})
    with pytest.raises(UserError, match="use act_many"):
        Online(graph=GRAPH, features=2).act([[1.0, 0.0], [0.0, 1.0]])


def test_errors_show_frames_by_their_size(model):
    for wrong in (FRAME, pd.Series(LABELS), np.array(LABELS)):
        with pytest.raises(UserError) as error:
            model.learn(model.act("win"), wrong)
        assert f"a {type(wrong).__name__} of 20" in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"^a DataFrame of 20 x 2 is not a FeedbackGraph"):
        Online(graph=FRAME)


def test_none_says_unseen(model):
    receipt = model.act("win")
    with pytest.raises(UserError, match="pass UNSEEN"):
        model.learn(receipt, None)
    model.learn(receipt, UNSEEN if not receipt.reveals else "spam")
    with interpreted():
        with_none = Online(graph=FeedbackGraph.full(["ham", None]), features=2)
        with_none.learn(with_none.act([1.0, 0.0]), None)  # where None is a class, it is one


def test_costs_of_the_classifier():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, "spam", "ham")
    with interpreted():
        plain, careful = (GappletronClassifier(costs=costs).fit(X, y) for costs in (None, {("spam", "ham"): 10.0}))
        assert careful.graph_.costs[1, 0] == 10.0
        assert (careful.predict(X) == "spam").sum() < (plain.predict(X) == "spam").sum()
        own = GappletronClassifier(graph=FeedbackGraph.full(["ham", "spam"]), costs={("spam", "ham"): 10.0}).fit(X, y)
        assert own.graph_ == careful.graph_
        assert careful.get_params()["costs"] == {("spam", "ham"): 10.0}


@pytest.mark.parametrize("name", ["Gappletron", "Guarded", "Banditron", "TopUp", "AdaGrad", "SmoothHinge", "Columns"])
def test_components_have_signatures(name):
    cls = getattr(gp, name)
    signature = inspect.signature(cls)
    assert tuple(signature.parameters) == cls._fields
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        assert parameter.default is not inspect.Parameter.empty
    assert cls(*(parameter.default for parameter in signature.parameters.values())) == cls()


CELLS = [
    "import gappletron as gp",
    "graph = gp.FeedbackGraph.filtering(['ham', '<b>'])\ngraph",
    "model = gp.Online(graph=graph, encoder=gp.Encoder(text='message'), monitor=True)\nmodel",
    "for message, label in [('win a prize', '<b>'), ('see you', 'ham')] * 10:\n"
    "    receipt = model.act({'message': message})\n"
    "    model.learn(receipt, label if label in receipt.reveals else gp.UNSEEN)\n"
    "model.monitor.report()",
    "model.explain({'message': 'win'})",
    "runs = gp.play('gapsmh', 'synthetic:K=3,d=40,T=100', 'bandit')\nruns",
    "runs[0]",
    "runs.confusion()",
    "gp.FeedbackGraph.full(50)",
]


def test_a_notebook_shows_models_graphs_histories_and_reports():
    from html.parser import HTMLParser

    from IPython.core.interactiveshell import InteractiveShell

    class Checked(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open = []

        def handle_starttag(self, tag, attrs):
            assert tag in ("table", "tr", "td", "th", "p", "pre"), tag
            self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    shell = InteractiveShell()
    shown = []
    with interpreted():
        for cell in CELLS:
            done = shell.run_cell(cell, store_history=False, silent=False)
            done.raise_error()
            if done.result is not None:
                formats, _ = shell.display_formatter.format(done.result)
                shown.append(formats["text/html"])
                Checked().feed(shown[-1])
    assert len(shown) == len(CELLS) - 1
    assert all("<b>" not in html for html in shown)
    assert "&lt;b&gt;" in shown[0]
    assert "labels seen" in shown[4]
    assert shown[7].startswith("<pre>")  # a matrix of 50 x 50 is too large

"""For River: :class:`RiverClassifier`, and :func:`evaluate`, which tells a model only what its graph reveals.

>>> from river import datasets, metrics, preprocessing
>>> from gappletron.river import RiverClassifier, evaluate
>>> classifier = RiverClassifier(graph="filtering", revealing=True, classes=(True, False))
>>> result = evaluate(datasets.Phishing(), preprocessing.StandardScaler() | classifier, metrics.Accuracy())
>>> result.rounds, result.metric.get() > 0.8
(1250, True)
"""

from gappletron.online.river import Evaluation, RiverAct, RiverClassifier, evaluate

__all__ = ["Evaluation", "RiverAct", "RiverClassifier", "evaluate"]

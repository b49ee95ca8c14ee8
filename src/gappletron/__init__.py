"""Online classification when what you see depends on what you predict.

>>> import gappletron
>>> runs = gappletron.play("gapsmh", "synthetic:K=3,d=40,noise=0,T=5000", "bandit", seed=0)
>>> runs[0].error_rate < 0.1
True

The public names are listed in ``__init__.pyi`` and loaded on first use: `import gappletron` alone is quick.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
# `import *` works where River and scikit-learn are not installed.
__all__ = [name for name in __all__ if name not in ("Acts", "GappletronClassifier", "RiverAct", "RiverClassifier")]

"""Pieces as values, pieces of one's own, and the compilation cache: Numba's habits that `kernel.pieces` answers."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numba.core.registry import cpu_target

import gappletron
from gappletron import (
    AdaGrad,
    AdaptiveOGD,
    FeedbackGraph,
    FixedOGD,
    Gappletron,
    Hinge,
    LogisticBase2,
    LogisticBaseK,
    Loss,
    Paper,
    SmoothHinge,
    TopUp,
    UserError,
    play,
)
from gappletron.kernel.compiling import prepare
from gappletron.kernel.numerics import rival
from gappletron.kernel.packed import packed, unpacked
from gappletron.kernel.pieces import helper
from problems import row_of, state_of

# ----------------------------------------------------------------------------------------------------- pieces as values


def test_pieces_of_different_classes_are_never_equal():
    assert SmoothHinge() != LogisticBaseK()
    assert SmoothHinge() != ()
    assert TopUp(1.0) != Paper(1.0)
    assert TopUp(1.0) != (1.0,)
    assert (
        len({SmoothHinge(), LogisticBaseK(), LogisticBase2(), TopUp(1.0), Paper(1.0), AdaGrad(1.0), AdaptiveOGD(1.0)})
        == 7
    )
    assert Gappletron(SmoothHinge()) != Gappletron(LogisticBaseK())


def test_numbers_are_normalised_on_every_way_of_construction():
    pieces = [
        FixedOGD(1),
        FixedOGD(1.0),
        FixedOGD(rate=np.float32(1)),
        FixedOGD(2).replace(rate=1),
        FixedOGD._make((1, math.inf)),
        copy.deepcopy(FixedOGD(1)),
        pickle.loads(pickle.dumps(FixedOGD(1))),
    ]
    assert len(set(pieces)) == 1
    assert {type(number) for piece in pieces for number in piece} == {float}


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedOGD(-1),
        lambda: FixedOGD(1).replace(rate=-1),
        lambda: FixedOGD._make((-1.0, 1.0)),
        lambda: FixedOGD("1"),
        lambda: Gappletron(loss=TopUp()),
        lambda: Gappletron(loss="hinge"),
    ],
)
def test_a_bad_value_is_a_user_error_and_so_a_value_error(make):
    with pytest.raises(UserError) as caught:
        make()
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FixedOGD(1, 2, 3), r"FixedOGD\(rate, radius\): too many positional arguments"),
        (lambda: FixedOGD(speed=1), "unexpected keyword argument 'speed'"),
        (lambda: FixedOGD(1, rate=1), "multiple values for argument 'rate'"),
        (lambda: gappletron.GaptronMix().replace(speed=1), "no 'speed'"),
        (Loss, "is a family"),
    ],
)
def test_a_wrong_keyword_is_a_type_error_as_in_any_call(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_replace_reaches_into_the_parts_where_that_is_unambiguous():
    assert Gappletron().replace(gamma=2) == Gappletron(exploration=TopUp(2))
    assert Gappletron(optimizer=FixedOGD(1)).replace(rate=0.5, loss=Hinge()) == Gappletron(Hinge(), FixedOGD(0.5))
    assert gappletron.SobaDiag(gappletron.FixedRate(0.1)).replace(gamma=0.2).rate.gamma == 0.2

    class Pair(gappletron.Piece, abstract=True): ...

    class Both(Pair):
        first: FixedOGD = FixedOGD(1)
        second: FixedOGD = FixedOGD(2)

    with pytest.raises(TypeError, match="several parts with 'rate'"):
        Both().replace(rate=3)
    assert Both().replace(second=FixedOGD(3)).second.rate == 3.0


def test_interpreted_holds_for_its_own_thread_alone():
    from concurrent.futures import ThreadPoolExecutor

    from gappletron.kernel.compiling import specialise

    def add(a, b):
        return a + b

    with ThreadPoolExecutor(1) as other, gappletron.interpreted():
        assert specialise(add, 1, 2) is add
        assert other.submit(specialise, add, 1, 2).result() is not add
    assert specialise(add, 1, 2) is not add


def test_a_model_stays_compiled_or_interpreted_as_it_was_made(monkeypatch):
    """Machine code that were given the arguments of plain Python would read foreign memory."""
    bandit, full, x = FeedbackGraph.bandit(3), FeedbackGraph.full(3), [1.0, 2.0]

    def used(model):
        done = [model.act(x, full).action, model.predict(x), model.probabilities([x]).tolist()]
        model.grow(4)
        return [*done, model.act([*x, 0.0, 3.0]).action]

    with gappletron.interpreted():
        plain = gappletron.Online("gapsmh", bandit, features=2)
    compiled = gappletron.Online("gapsmh", bandit, features=2)
    with gappletron.interpreted():
        expected = used(compiled)
    asked, specialise = [], gappletron.kernel.compiling._specialised

    def remember(function, classes):
        asked.append(function.__name__)
        return specialise(function, classes)

    monkeypatch.setattr("gappletron.kernel.compiling._specialised", remember)
    assert used(plain) == expected
    assert set(asked) == {"measure_rows"}  # of a batch: it knows nothing of the model


def test_pieces_are_immutable():
    with pytest.raises(AttributeError):
        TopUp().gamma = 2.0
    with pytest.raises(AttributeError):
        TopUp().other = 2.0


# -------------------------------------------------------------------------------------------------- pieces of one's own


def make_loss(slope, name="MyLoss"):
    """A smooth hinge of another slope, as a notebook's user would write it."""

    class MyLoss(Loss):
        scale: float = 1.0

        def value(self, scores, greedy, y):
            return 1.0

        def gradient(self, scores, greedy, y, out):
            for k in range(out.size):
                out[k] = 0.0
            out[y] = -slope * self.scale
            out[rival(scores, y)] = slope * self.scale

        def gap(self, scores, greedy):
            return 1.0

        def is_regular(self, classes):
            return True

        def smoothness(self, classes, max_norm):
            return 1.0

        def gradient_bound(self, classes, max_norm):
            return 1.0

    MyLoss.__name__ = MyLoss.__qualname__ = name
    return MyLoss


def weights_after_one_round(loss):
    runs = gappletron.Runs(
        Gappletron(loss, FixedOGD(1.0), Paper()), (np.ones((2, 1)), [0, 1]), FeedbackGraph.full(2), rounds=1, jobs=1
    )
    list(runs)
    return runs.weights()[0].tolist()


def test_a_class_that_is_redefined_takes_effect_also_with_the_name_of_one_of_ours():
    """Numba's fingerprint of the first two is the same: the name and the fields."""
    assert weights_after_one_round(SmoothHinge()) == [2.0, -2.0]
    first, second = make_loss(1.0, "SmoothHinge"), make_loss(3.0, "SmoothHinge")
    assert weights_after_one_round(first()) == [1.0, -1.0]
    assert weights_after_one_round(second()) == [3.0, -3.0]
    assert weights_after_one_round(first(2.0)) == [2.0, -2.0]
    assert weights_after_one_round(SmoothHinge()) == [2.0, -2.0]
    with gappletron.interpreted():
        assert weights_after_one_round(second()) == [3.0, -3.0]


def test_a_piece_that_lacks_something_is_refused_before_compiling():
    with pytest.raises(
        UserError, match="Half lacks gap, gradient, gradient_bound, is_regular, smoothness: a Loss needs them"
    ):

        class Half(Loss):
            def value(self, scores, greedy, y):
                return 1.0

    with pytest.raises(
        UserError, match=r"Other.value takes \(self, s, greedy, y\), but compiled methods of this name take"
    ):

        class Other(Loss):
            def value(self, s, greedy, y):
                return 1.0

    with pytest.raises(UserError, match="a component cannot be extended: extend Loss"):

        class Steeper(SmoothHinge):
            pass

    class Named(gappletron.Exploration):
        name: str

        def explore(self, state, plan, greedy, gap, out): ...
        def tuned(self, gamma): ...

    with pytest.raises(UserError, match="holds float, int, bool or other components"):
        Named("x")


def test_a_piece_that_cannot_be_compiled_says_how_to_debug_it():
    cls = make_loss(1.0, "Printing")

    class Printing(Loss):
        def value(self, scores, greedy, y):
            return float(str(scores[y]))

        def gradient(self, scores, greedy, y, out):
            open("x")  # noqa: PTH123, SIM115

        gap = cls.gap
        is_regular = cls.is_regular
        smoothness = cls.smoothness
        gradient_bound = cls.gradient_bound

    with pytest.raises(UserError, match=r"Printing cannot be compiled; play it inside gappletron.interpreted\(\)"):
        play(Gappletron(Printing()), (np.ones((2, 1)), [0, 1]), "full")


# ------------------------------------------------------------------------------------------------------------ the cache

SCRIPT = """
    import json
    import numpy as np
    import gappletron
    from gappletron.kernel import compiling

    kernels = {}
    specialised = compiling._specialised
    def remember(function, classes):
        kernel = kernels[function.__name__, classes] = specialised(function, classes)
        return kernel
    compiling._specialised = remember
    rng = np.random.default_rng(0)
    runs = gappletron.Runs("gapsmh", (rng.normal(size=(300, 5)), rng.integers(0, 3, 300)), "bandit", jobs=1)
    list(runs)
    assert "advance" in [name for name, _ in kernels]
    misses = [sum(kernel.stats.cache_misses.values()) for kernel in kernels.values()]
    hits = [sum(kernel.stats.cache_hits.values()) for kernel in kernels.values()]
    assert [sum(pair) for pair in zip(misses, hits)] == [len(kernel.signatures) for kernel in kernels.values()]
    W = runs.weights()
    print(json.dumps([sum(misses), sum(hits), W.sum().item(), str(np.abs(W).sum()), gappletron.__file__]))
"""


def run_script(package_folder: Path, cache: Path) -> list:
    environment = {
        **os.environ,
        "PYTHONPATH": str(package_folder),
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result[-1].startswith(str(package_folder))
    return result[:-1]


def files_in(cache: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in cache.rglob("*") if path.is_file()}


def test_the_cache_is_hit_and_every_change_is_noticed(tmp_path):
    sources = tmp_path / "src"
    shutil.copytree(
        Path(gappletron.__file__).parent, sources / "gappletron", ignore=shutil.ignore_patterns("__pycache__")
    )
    cache = tmp_path / "cache"
    compiled, hits, *first = run_script(sources, cache)
    assert compiled > 0 == hits
    before = files_in(cache)
    assert before

    # A second process compiles nothing and writes nothing.
    misses, hits, *second = run_script(sources, cache)
    assert (misses, hits, second) == (0, compiled, first)
    assert files_in(cache) == before

    # An edit in the file of a piece that the loop only calls is noticed.
    losses = sources / "gappletron" / "learners" / "losses.py"
    text = losses.read_text()
    assert text.count("return 2.0\n") == 1
    losses.write_text(text.replace("return 2.0\n", "return 0.5\n"))
    misses, hits, *edited = run_script(sources, cache)
    assert (misses, hits) == (compiled, 0)
    assert edited != first

    # A rename does not trip over what older processes wrote.
    for path in sources.rglob("*.py*"):
        path.write_text(path.read_text().replace("AdaptiveOGD", "AdaptiveDescent"))
    misses, hits, *renamed = run_script(sources, cache)
    assert (misses, hits, renamed) == (compiled, 0, edited)


def test_code_with_a_piece_from_outside_is_not_cached(tmp_path, monkeypatch):
    from gappletron.kernel.compiling import specialise
    from gappletron.play.rounds import decide

    graph, x = FeedbackGraph.bandit(2), row_of([1.0], 2)
    setup = gappletron.Player("gapsmh", graph, 1).engine.setup
    ours, theirs = Gappletron(), Gappletron(make_loss(1.0)())
    kernels = [
        specialise(decide, learner, state_of(learner, 1, 2).tuple, learner.plan(graph), x, setup)
        for learner in (ours, theirs)
    ]
    assert [kernel._cache.cache_path is None for kernel in kernels] == [False, True]


def test_no_entry_point_of_compiled_code_returns_a_named_tuple(tmp_path):
    """Numba makes a named tuple by unpickling its class; with an exception pending, that is a crash of the process."""
    from numba.core import types

    from gappletron import Online, SvmlightFile, open_stream
    from gappletron.kernel.compiling import entry_points
    from gappletron.paper.comparator import best_comparator

    path = tmp_path / "mail.svm"
    path.write_text("1 1:0.5 2:1\n2 2:2\n1 1:1\n")
    list(SvmlightFile(path).chunks())
    stream = open_stream("synthetic:K=3,d=40,T=50", normalize="unit", bias=True)
    play("gapsmh", stream, "bandit", losses=True)
    best_comparator(SmoothHinge(), stream, "bandit", 1.0)
    model = Online("gapsmh", FeedbackGraph.bandit(3), 2)
    model.learn(model.act([1.0, 0.5]), model.pending[0].action)
    model.predict([1.0, 0.5])
    model.predict_many([[1.0, 0.5]])
    model.probabilities([[1.0, 0.5]])
    called = {dispatcher.py_func.__name__ for dispatcher in entry_points if dispatcher.signatures}
    wanted = {
        "act",
        "learn",
        "advance",
        "check_vector",
        "predict",
        "write_greedy",
        "write_probabilities",
        "add_planes",
        "measure_rows",
        "_generate",
        "_normalize",
        "_largest_norm",
    }
    assert wanted <= called
    for dispatcher in entry_points:
        for compiled in dispatcher.overloads.values():
            assert not isinstance(compiled.signature.return_type, types.BaseNamedTuple), dispatcher


PRINTING = """
import numpy as np
from gappletron import Loss
from gappletron.kernel.compiling import specialise

class Talking(Loss):
    def value(self, scores, greedy, y):
        print("the score is", scores[y])
        return 2.0 * scores[y]
    def gradient(self, scores, greedy, y, out): ...
    def gap(self, scores, greedy): ...
    def is_regular(self, classes): ...
    def smoothness(self, classes, max_norm): ...
    def gradient_bound(self, classes, max_norm): ...

def value_of(loss, scores, greedy, y):
    return loss.value(scores, greedy, y)

arguments = Talking(), np.array([0.5, 1.5]), 0, 1
print(specialise(value_of, *arguments)(*arguments))
"""


def test_inlined_code_finds_its_python_objects():
    """Texts to print are such objects. In a process of its own: without them it would wait for ever."""
    ran = subprocess.run([sys.executable, "-c", PRINTING], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, "the score is 1.5\n3.0\n"), ran.stderr


def test_what_is_inlined_has_no_machine_code_of_its_own(tmp_path, monkeypatch):
    import numba
    from numba.core.registry import cpu_target

    from gappletron.kernel.compiling import specialise

    def twice(loss, scores, greedy, y):
        return 2.0 * loss.value(scores, greedy, y)

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # code from a cache has no parts to look at
    arguments = SmoothHinge(), np.array([0.5, 1.5]), 0, 1
    kernel = specialise(twice, *arguments)
    assert kernel(*arguments) == 2.0 * SmoothHinge().value(*arguments[1:])
    library = kernel.overloads[kernel.signatures[0]].library
    engine = cpu_target.target_context.codegen()._engine
    inner = [part for part in library._linking_libraries if type(part).__name__ == "InlinedLibrary"]
    names = [function.name for part in inner for function in part.get_defined_functions() if "value" in function.name]
    assert names
    assert not any(engine.is_symbol_defined(name) for name in names)


def read_packed(player, out):
    loss, (numbers, flags), exploration, matrix = unpacked(player)
    out[0] = loss.kappa
    out[1] = numbers[2]
    out[2] = flags[0] + 2 * flags[1] + 4 * flags[2]
    out[3] = exploration.gamma
    out[4] = matrix[1, 2]
    matrix[1, 2] = 9.0


def test_compiled_code_reads_what_python_has_packed():
    """Flags take one byte, all else eight, and tuples begin at multiples of eight."""
    results = []
    for run in (prepare, lambda function, *_: function):
        matrix = np.arange(12.0).reshape(3, 4)[:, ::-1]
        given = packed(Hinge(0.25), (np.array([1.0, 2.0, 3.0]), (True, False, True)), TopUp(0.75), matrix)
        out = np.zeros(5)
        run(read_packed, given, out)(given, out)
        results.append([*out.tolist(), matrix[1, 2]])
    assert results[0] == results[1] == [0.25, 3.0, 5.0, 0.75, 5.0, 9.0]
    with pytest.raises(UserError, match="cannot be given to compiled code"):
        packed("text")


@helper
def last_of(numbers, before):
    return numbers[-1 - before]


def read_last(numbers, before):
    return last_of(numbers, before)


def test_functions_from_outside_may_count_from_the_end():
    """Only ours are compiled without the question whether an index is negative."""
    numbers = np.array([1.0, 2.0, 3.0])
    assert [prepare(read_last, numbers, before)(numbers, before) for before in (0, 2)] == [3.0, 1.0]


def test_a_signal_that_raises_leaves_no_lock_of_the_compiler_behind(monkeypatch):
    """LLVM is asked under a lock; with an exception inside of it every other thread would wait for ever."""
    context, finished = cpu_target.target_context, []
    ask = type(context).get_abi_sizeof

    def strike(self, kind):
        signal.raise_signal(signal.SIGUSR1)
        finished.append(ask(self, kind))
        return finished[-1]

    def handler(number, frame):
        raise KeyError("struck")

    monkeypatch.setattr(type(context), "get_abi_sizeof", strike)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(KeyError, match="struck"):
            packed(np.zeros(3), 1, 2.0, 3, 4.0, True)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(finished) == 1

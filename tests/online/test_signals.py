"""Signals whose handlers raise: nothing is lost or doubled, and commands end with one line and the right exit code."""

import asyncio
import contextlib
import copy
import os
import pickle
import signal
import sys
import threading
import time

import pytest

import storms
from gappletron import FeedbackGraph, Online, UserError
from gappletron.base.errors import Terminated
from gappletron.base.signals import exit_code, held_back, raising
from problems import no_error_left

# A file that was opened just before a strike is closed by the interpreter, which warns of it; and a strike inside a
# callback of the garbage collector (hypothesis has one) is lost with a warning.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def test_a_signal_is_held_back_until_the_block_has_ended():
    arrived = []
    before = signal.signal(signal.SIGUSR1, lambda *_: arrived.append("handled"))
    try:
        with held_back():
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.01)
            assert not arrived
        assert arrived == ["handled"]
        with pytest.raises(KeyError), held_back():
            raise KeyError
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.01)
        assert len(arrived) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_raises_and_is_not_lost_where_a_library_swallows_it():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def struck():
        with raising():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    def swallowed():
        with raising(), contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    for call in (struck, swallowed):
        with pytest.raises(Terminated) as caught:
            call()
        assert exit_code(caught.value) == 143
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    ("learner", "graph"),
    [
        ("gapsmh", FeedbackGraph.bandit(3)),
        ("gaplog", FeedbackGraph.filtering(3)),
        ("soba-diag", FeedbackGraph.bandit(5)),
    ],
)
def test_a_storm_over_act_and_learn(learner, graph):
    struck = storms.interrupted_rounds(150, seed=7, learner=learner, graph=graph)
    assert min(struck.values()) > 10


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_storm_over_follow(tmp_path, is_stored):
    struck = storms.interrupted_follows(250, seed=9, place=tmp_path / "store.sqlite" if is_stored else None)
    assert min(struck["follow"], struck["learn"]) > 5  # about 17 are expected of the shorter of the two


def test_storms_over_the_rest(tmp_path):
    storms.interrupted_looks(60, seed=1)
    storms.interrupted_parsing(60, seed=2, folder=tmp_path)
    storms.interrupted_playing(60, seed=3)
    (tmp_path / "models").mkdir()
    storms.interrupted_saving(60, seed=4, folder=tmp_path / "models")
    storms.interrupted_compiling(10, seed=5)


def bits_of(model):
    about, arrays = model._player.engine.describe()
    return about, {name: array.tobytes() for name, array in arrays.items()}


def a_model():
    return Online("gapsmh", FeedbackGraph.bandit(3), features=2, seed=1, pending=4)


def after_a_round():
    model = a_model()
    model.act([1.0, 0.5])
    return model


def test_act_struck_at_every_moment():
    before, after, committed = bits_of(a_model()), bits_of(after_a_round()), 0
    for model, struck in storms.at_every_moment(a_model, lambda model: model.act([1.0, 0.5])):
        assert not model._lock._is_owned()
        if model.rounds:
            assert [receipt.serial for receipt in model.pending] == [0]
            assert bits_of(model) == after
            committed += struck
        else:
            assert not model.pending
            assert bits_of(model) == before
    assert committed >= 3


def test_a_block_struck_at_every_moment_holds_no_lock_while_the_exception_lives():
    held = []

    def block(model):
        try:
            with model.hold():
                model.act([1.0, 0.5])
        except storms.Struck:
            held.append(model._lock._is_owned())
            raise

    for model, _ in storms.at_every_moment(a_model, block):
        assert not model._lock._is_owned()
        model.act([1.0, 0.5])
    assert len(held) > 10
    assert sum(held) <= 1  # at the first instruction of __exit__ nothing can be done before the exception is gone


def test_learn_struck_at_every_moment():
    def learn(model):
        model.learn(f"{model._receipts.session.name}-0", label)

    model = after_a_round()
    label = model.pending[0].action
    before = bits_of(model)
    learn(model)
    after, committed = bits_of(model), 0
    for model, struck in storms.at_every_moment(after_a_round, learn):
        assert not model._lock._is_owned()
        if model.pending:
            assert struck
            assert bits_of(model) == before
        else:
            assert bits_of(model) == after
            committed += struck
    assert committed >= 2


def test_teach_struck_at_every_moment():
    def teach(model):
        model.teach([1.0, 0.5], 1)

    model = after_a_round()
    before = bits_of(model)
    teach(model)
    after, seen = bits_of(model), []
    for model, struck in storms.at_every_moment(after_a_round, teach):
        assert not model._lock._is_owned()
        assert bits_of(model) in (before, after)
        seen.append((struck, bits_of(model) == after))
        teach(model)  # the next call finds a sound model
    assert {(True, False), (True, True)} <= set(seen)


@pytest.mark.parametrize("change", [lambda model: model.add_class("new"), lambda model: model.grow(9)])
def test_growing_struck_at_every_moment(change):
    before = bits_of(after_a_round())
    for model, _ in storms.at_every_moment(after_a_round, change):
        if (model.features, model.graph.n_classes) == (2, 3):
            assert bits_of(model) == before
        else:
            assert model.weights.shape == (model.features, model.graph.n_classes)
            model.act([1.0, 0.5] + [0.0] * (model.features - 2))
            assert model.rounds == 2


def looked_at(model):
    """What a handler may do with a model in the middle of a call."""
    copied = pickle.loads(pickle.dumps(model))
    return [receipt.serial for receipt in model.pending], copied.rounds, model.predict([1.0, 0.5])


def test_a_handler_that_looks_at_the_model_at_every_moment():
    wanted = bits_of(after_a_round())
    for model, _ in storms.at_every_moment(a_model, lambda model: model.act([1.0, 0.5]), looked_at):
        assert [receipt.serial for receipt in model.pending] == [0]
        assert bits_of(model) == wanted
        assert model._receipts.nbytes == model.pending[0].turn.record.nbytes
    label = after_a_round().pending[0].action
    for model, _ in storms.at_every_moment(
        after_a_round, lambda model: model.learn(model.pending[0], label), looked_at
    ):
        assert not model.pending
        assert model._receipts.nbytes == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.act([1.0, 0.5]),
        lambda model: model.learn(model.pending[0], model.pending[0].action),
        lambda model: model.teach([1.0, 0.5], 1),
        lambda model: model.forget(model.pending[0]),
        lambda model: model.add_class("new"),
        lambda model: model.grow(9),
    ],
)
def test_a_handler_that_changes_the_model_in_the_middle_of_a_call_is_refused(change):
    refused = []

    def strike(model):
        if model._lock._is_owned():
            with pytest.raises(UserError, match="in the middle of another call"):
                change(model)
            refused.append(model)

    undisturbed = after_a_round()
    undisturbed.act([1.0, 0.5])
    for model, _ in storms.at_every_moment(after_a_round, lambda model: model.act([1.0, 0.5]), strike):
        assert model.rounds == 2
        assert state_bits(model) == state_bits(undisturbed)
    assert len(refused) > 5


def test_a_handler_that_changes_the_model_in_the_middle_of_a_look_is_refused_also_inside_of_hold():
    refused, allowed = [], []

    def look(model):
        with model.hold():
            model.pending  # noqa: B018
            model.predict([1.0, 0.5])

    def strike(model):
        if model._is_busy:
            with pytest.raises(UserError, match="in the middle of another call"):
                model.act([1.0, 0.5])
            refused.append(model)
        elif model._is_held:  # between two calls it is a change like any other
            model.act([1.0, 0.5])
            allowed.append(model)

    for model, _ in storms.at_every_moment(after_a_round, look, strike):
        assert not model._is_busy
        assert not model._is_held
        assert len(model.pending) == model.rounds
    assert len(refused) > 5
    assert allowed


def state_bits(model):
    """The state of the learner, and which receipts wait."""
    arrays = {name: array.tobytes() for name, array in model._player.engine.state.arrays.items()}
    return arrays, [receipt.serial for receipt in model.pending]


def full():
    """A model with as many waiting receipts as it may have."""
    model = Online("gapsmh", FeedbackGraph.bandit(3), features=2, seed=1, pending=2)
    for _ in range(6):
        model.act([1.0, 0.5])
    return model


def test_a_handler_may_save_at_every_moment_of_an_act_that_lets_receipts_expire(tmp_path):
    path, saved = tmp_path / "model.npz", []

    def strike(model):
        model.save(path)
        again = Online.load(path)
        assert len(again.pending) == 2
        assert [receipt.serial for receipt in again.pending] == [receipt.serial for receipt in copy.copy(model).pending]
        saved.append(again.rounds)

    for _ in storms.at_every_moment(full, lambda model: model.act([1.0, 0.5]), strike):
        pass
    assert set(saved) == {6, 7}


def test_an_exception_that_is_kept_keeps_no_lock():
    """Wherever a handler raises in a call that looks, the lock is free while the exception is still there."""
    kept = []

    def look(model):
        try:
            model.pending  # noqa: B018
            model.weights  # noqa: B018
        except storms.Struck as error:
            kept.append(error)
            raise

    # With contextlib: a context manager of ours would have moments in there. (Numba's are struck by no real signal.)
    for model, struck in storms.at_every_moment(full, look, files=(*storms.FILES, "contextlib.py")):
        assert not model._lock._is_owned()
        assert bool(kept) == struck
        kept.clear()


def test_an_interrupted_expiry_leaves_a_model_that_can_be_saved(tmp_path):

    for model, _ in storms.at_every_moment(full, lambda model: model.act([1.0, 0.5])):
        model.act([1.0, 0.5])
        model.save(tmp_path / "model.npz")
        again = Online.load(tmp_path / "model.npz")
        assert [receipt.id for receipt in again.pending] == [receipt.id for receipt in model.pending]
        assert len(model.pending) == 2


def test_signals_that_were_held_back_are_delivered_once_each_whatever_happens():
    arrived = []

    def raising_handler(number, _):
        arrived.append(number)
        raise KeyError(number)

    numbers = (signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.signal(number, raising_handler) for number in numbers]

    def struck():
        with held_back():
            for number in (*numbers, *numbers):
                os.kill(os.getpid(), number)
                time.sleep(0.01)
            raise OSError("the disk is full")

    try:
        with no_error_left(KeyError, OSError), contextlib.suppress(KeyError):
            struck()
        assert sorted(arrived) == sorted(numbers)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def test_an_event_loop_hears_of_a_held_back_signal_once():
    async def listen():
        heard = []
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.append, 1)
        with held_back():
            signal.raise_signal(signal.SIGUSR1)
        await asyncio.sleep(0.05)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
        return heard

    assert asyncio.run(listen()) == [1]


def test_copies_and_weights_of_a_model_that_others_use():
    model = Online("gapsmh", FeedbackGraph.bandit(3), features=3, seed=0, pending=50)
    stop, wrong = threading.Event(), []

    def play():
        try:
            while not stop.is_set():
                model.act([1.0, 2.0, 3.0])
        except Exception as error:
            wrong.append(error)

    worker = threading.Thread(target=play)
    worker.start()
    try:
        for _ in range(30):
            for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
                assert [receipt.serial for receipt in copied.pending] == sorted(copied._receipts.pending)
                assert copied.pending[-1].serial == copied.rounds - 1
                copied.act([1.0, 2.0, 3.0])
            assert model.weights.shape == (3, 3)
    finally:
        stop.set()
        worker.join()
    assert not wrong


def test_threads_share_a_model():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        storms.shared_model(threads=4, calls=400)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.filterwarnings("ignore")  # Python says that there are threads
def test_a_forked_child_that_uses_the_model_gets_one_clear_error():
    """Also while another thread is in the middle of a call, and in every call, those that only look among them."""
    model = after_a_round()
    waiting, stop = model.pending[0], threading.Event()
    model.teach([1.0, 0.5], 1)  # compiled now: a fork in the middle of that leaves a lock of LLVM taken in the child
    calls = [
        lambda: model.act([1.0, 0.5]),
        lambda: model.act_many([[1.0, 0.5]]),
        lambda: model.learn(waiting, waiting.action),
        lambda: model.teach([1.0, 0.5], 1),
        lambda: model.predict([1.0, 0.5]),
        lambda: model.pending,
        lambda: model.weights,
        lambda: model.save(os.devnull),
        lambda: copy.copy(model),
        model.compile_batches,
        model.hold().__enter__,
    ]

    def refuses(call):
        try:
            call()
        except UserError as error:
            return "make or load a model in this process" in str(error)
        return False

    def play():
        while not stop.is_set():
            model.teach([1.0, 0.5], 1)

    worker = threading.Thread(target=play)
    worker.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(0 if all(map(refuses, calls)) and after_a_round().rounds == 1 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        worker.join()
    model.learn(waiting, waiting.action)


# ------------------------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_stopped_says_so_in_one_line(number, code, tmp_path):
    for delay in (0.0, 0.1, 0.3, 0.8):
        found, out, err = storms.ended_by(number, delay, "run", storms.ENDLESS, cwd=tmp_path)
        assert found == code
        assert "Traceback" not in err
        lines = [line for line in err.splitlines() if not line.startswith(("playing:", "compiling"))]
        if out:
            assert "auto" in out  # the default learner
            assert lines[0].startswith("stopped: what follows is what was measured")
        else:
            assert lines == ["stopped before anything was measured"]


def test_sigterm_ends_a_sweep_with_what_was_measured(tmp_path):
    found, out, err = storms.ended_by(
        signal.SIGTERM, 6.0, "reproduce", "--rounds", 300_000, "--figure", "full", "--out", tmp_path / "r", cwd=tmp_path
    )
    assert (found, out) == (143, "")
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("stopped: the finished runs are stored in")

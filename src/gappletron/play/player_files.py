"""Players in files: a JSON header and named arrays (:mod:`gappletron.play.saved`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.data.normalization import Normalization
from gappletron.data.stream import MOST_FEATURES
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.pieces import Piece
from gappletron.kernel.spelling import decode_piece, encode_piece
from gappletron.kernel.state import Sizes, check_shapes
from gappletron.learners.learner import Learner
from gappletron.learners.registry import find_learner
from gappletron.play import saved
from gappletron.play.draws import Draws, check_random_state
from gappletron.play.limits import Limits
from gappletron.play.rounds import PLAYED
from gappletron.play.watch import Watching, check_saved

FORMAT = "gappletron.Player"
MOST_ROUNDS = 2**53
"""A record holds the number of its round as a float."""


def describe(player: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return everything that a player is, as a JSON-ready header and named arrays.

    A state that the learner's fields do not allow, such as one with NaN, is a UserError.
    """
    engine = player.engine
    for state in engine.states.values():
        problem = state.problem()
        if problem is not None:
            raise UserError(
                f"the state of {player.learner.name} is broken and cannot be saved, since {problem}: go on from an "
                "older copy, and find the rows or the piece that broke it"
            )
    header = {
        "learner": encode_piece(engine.learner),
        "features": player.features,
        "normalization": encode_piece(engine.normalization),
        "bias": engine.bias,
        "graph": saved.graph_header(engine.graph),
        "watch": encode_piece(engine.watch),
        "limits": engine.limits.to_dict(),
        "rounds": player.rounds,
        "now": player.now,
        "random": player._draws.state_at(player.rounds),
    }
    arrays = saved.graph_arrays(engine.graph)
    for prefix, state in engine.states.items():
        arrays |= {f"{prefix}.{name}": array for name, array in state.arrays.items()}
    return header, arrays


def restore(
    player: Any,
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    graph: FeedbackGraph,
    learner: Learner,
    pieces: tuple[type[Piece], ...],
) -> None:
    """Make a new instance the player that :func:`describe` described, checked."""
    features = whole(header["features"], "features", least=1, most=MOST_FEATURES)
    normalization, watch = (decode_piece(header[name], pieces) for name in ("normalization", "watch"))
    bias = header["bias"]
    if not isinstance(normalization, Normalization) or not isinstance(watch, Watching) or type(bias) is not bool:
        raise UserError("the normalization, the bias or the watch is not one: the file is damaged")
    rounds = whole(header["rounds"], "the rounds", most=MOST_ROUNDS)
    now, random = number(header["now"], "the time", least=0.0), check_random_state(header["random"])
    limits = Limits.from_dict(header["limits"])
    parts = {prefix: _select(arrays, f"{prefix}.") for prefix in ("state", "scales", "watch", "limits")}
    sizes = Sizes(features + bias, graph.n_classes, graph.n_actions)
    # No state is allocated before the shapes of the saved arrays are those that are declared.
    check_shapes(learner.declare(), sizes, parts["state"])
    check_shapes(normalization.declare(), Sizes(features + bias, 1, 1), parts["scales"])
    check_shapes(watch.declare(), sizes._replace(features=1), parts["watch"])
    check_saved(watch, parts["watch"], rounds)
    check_shapes(limits.piece().declare(), Sizes(1, 1, 1), parts["limits"])
    player.__init__(learner, graph, features, normalize=normalization, bias=bias, monitor=watch, **vars(limits))
    engine = player.engine
    for prefix, state in engine.states.items():
        state.load(parts[prefix])
    engine.clock[PLAYED] = rounds
    engine.now[0] = now
    player._draws = Draws(rounds, random)


def _select(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def build(
    cls: type[Any], pieces: Iterable[type[Piece]], header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> Any:
    """Return the player of a saved header and its arrays; `pieces` are classes of your own that it is made of."""
    known = tuple(pieces)
    player: Any = object.__new__(cls)
    graph = saved.graph_of(header["graph"], arrays)
    restore(player, header, arrays, graph, find_learner(decode_piece(header["learner"], known)), known)
    return player

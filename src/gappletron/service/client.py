"""A client of the service (extra ``gappletron[client]``), with retries that are safe.

Every decision and every piece of feedback is sent with an idempotency key of its own, which stays the same when it is
sent again. So a request whose answer was lost on the way is answered again, and not done twice.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from gappletron.base.checks import Label
from gappletron.base.errors import ServiceError, UserError
from gappletron.service.endpoints import ANY_MODEL, BY_HANDLER, FIRST_MODEL, OF_MODELS

if TYPE_CHECKING:  # it loads NumPy and Numba, which the client does not need
    from gappletron.online.receipts import Unseen

# Of a model of one's own: the score of every class.
Scores = Mapping[Label, float]
# What another server may do, or this one in a moment: it follows another, or it or the proxy before it is not there.
ELSEWHERE = (502, 503, 504)
# Too many receipts wait, which is the same everywhere.
TRY_AGAIN = (429, *ELSEWHERE)
# Seconds between two attempts, whatever the server asks for; and of the first pause, if it does not.
LONGEST_PAUSE, FIRST_PAUSE = 30.0, 0.2
# Seconds for which a server that did not answer is not asked, where there are others.
SILENCE = 3.0
# The answer of a process of a fleet where another one has the model.
MOVED = 307


class Decision(NamedTuple):
    """What the service decided: as a :class:`~gappletron.Receipt`, without the features."""

    id: str
    action: Label
    probability: float
    greedy: Label
    reveals: tuple[Label, ...]


class Prediction(NamedTuple):
    """The model's best guess, and the probability of every class."""

    label: Label
    probabilities: dict[Label, float]


class Client:
    """Decisions, feedback and predictions from a server.

    :param url: where the server is, as in ``"http://127.0.0.1:8080"``; or several servers of the same models, of which
        one leads (docs, page Two machines). The one that answered last is asked first.
    :param token: one of the server's tokens, where it has some.
    :param model: the name of a model; by default the server's first.
    :param timeout: seconds to wait for a connection, and for an answer.
    :param retries: how often a request is sent again, to every server in turn, after a lost connection or the answers
        429, 502, 503 and 504, with growing pauses, or those that a server asks for.

    In a fleet the client remembers which process has its model.

    What the server refuses raises :class:`~gappletron.UserError` with its sentence. What it cannot do raises
    :class:`ServiceError`, also where it cannot be reached. Several threads may share a client.

    >>> client = Client("http://127.0.0.1:9", retries=0)  # where no server is
    >>> client.health()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    gappletron.base.errors.ServiceError: the service at http://127.0.0.1:9 cannot be reached: ...

    With a server (``gappletron serve mail --graph filtering --classes ham,spam``)::

        with Client("http://127.0.0.1:8080") as client:
            decision = client.act({"message": "Win a prize"})
            client.learn(decision, "spam" if "spam" in decision.reveals else UNSEEN)
    """

    def __init__(
        self,
        url: str | Sequence[str],
        token: str | None = None,
        model: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 8,
    ) -> None:
        try:
            import urllib3
        except ImportError:
            raise UserError("the client needs urllib3: pip install urllib3") from None

        given = [url] if isinstance(url, str) else list(url)
        for each in given:
            if not each.startswith(("http://", "https://")):
                raise UserError(f"{each!r} is not the address of a server: give one such as 'http://127.0.0.1:8080'")
        if not given:
            raise UserError("there is no address of a server: give one such as 'http://127.0.0.1:8080'")
        self.urls = [each.rstrip("/") for each in given]
        # The place of the server that is asked first, and when those that did not answer are asked again; threads that
        # write it at once do no harm.
        self._first, self._again = 0, [0.0] * len(given)
        self._retries = retries
        # The address of the process of a fleet that has the model, once it is known.
        self._owner: str | None = None
        self._base = FIRST_MODEL if model is None else ANY_MODEL.format(name=quote(model, safe=""))
        self._headers = {} if token is None else {"Authorization": f"Bearer {token.strip()}"}
        self._pool = urllib3.PoolManager(maxsize=16, timeout=timeout, retries=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    # -------------------------------------------------------------------------------------------------------- deciding

    def act(self, x: Any, scores: Scores | None = None) -> Decision:
        """Return a decision for x: a record or a text, or, for models without an encoder, ``(indices, values)`` or a
        list.

        :param scores: what a model of your own says of x: a mapping from every class to its score.
        """
        return _read_decision(self._call("act", _encode_one(x, scores)))

    def act_many(self, rows: Iterable[Any], scores: Iterable[Scores] | None = None) -> list[Decision]:
        """Return decisions for many rows, made together; with the scores of each, where there are any."""
        answer = self._call("act_many", _encode_many(rows, scores))
        return [_read_decision(each) for each in answer["decisions"]]

    def learn(self, decision: Decision | str, label: Label | Unseen) -> None:
        """Give the label of a decision, or UNSEEN where the round is over and the label stayed hidden."""
        self._call("learn", _encode_feedback(decision, label))

    def learn_many(self, feedback: Iterable[tuple[Decision | str, Label | Unseen]]) -> None:
        """Give feedback for many decisions, as pairs of decision and label: all of it is learned, or none."""
        self._call("learn_many", {"feedback": [_encode_feedback(decision, label) for decision, label in feedback]})

    def forget(self, decision: Decision | str) -> None:
        """Say that no feedback will come for a decision: nothing is learned from it, and it waits no more."""
        self._call("forget", {"id": _find_id(decision)})

    def forget_many(self, decisions: Iterable[Decision | str]) -> None:
        """Say so for many decisions: all are forgotten, or none."""
        self._call("forget_many", {"ids": [_find_id(decision) for decision in decisions]})

    # ----------------------------------------------------------------------------------------------------- changing it

    def teach(self, rows: Iterable[tuple[Any, Label]], *, who: str | None = None) -> dict[str, Any]:
        """Teach up to 1,000 rows with their labels, as pairs of x and label: all of them are learned, or none.

        `who` asks for it, here and below: it is in the log, unless the token has a name.
        """
        return self._change("teach", who, rows=[{"x": _encode_row(x), "label": label} for x, label in rows])

    def add_class(
        self,
        name: Label,
        reveals: Iterable[Label] | None = None,
        revealed_by: Iterable[Label] | None = None,
        costs: Mapping[tuple[Label, Label], float] | None = None,
        *,
        who: str | None = None,
    ) -> dict[str, Any]:
        """Add a class, and the action that predicts it; the arguments are those of
        :meth:`gappletron.Online.add_class`.
        """
        lists = {"reveals": reveals, "revealed_by": revealed_by, "costs": costs and _encode_costs(costs)}
        given = {key: list(part) for key, part in lists.items() if part is not None}
        return self._change("add_class", who, name=name, **given)

    def set_graph(
        self,
        edges: Iterable[tuple[Label, Label]] | None = None,
        costs: Mapping[tuple[Label, Label], float] | str | None = "keep",
        *,
        who: str | None = None,
    ) -> dict[str, Any]:
        """Change the edges, given as pairs of an action and a class that it reveals, or the costs.

        :param costs: those that change, as in ``{("spam", "ham"): 10}``; None for 0 and 1.
        """
        given: dict[str, Any] = {} if edges is None else {"edges": [list(edge) for edge in edges]}
        if not isinstance(costs, str):
            given["costs"] = costs and _encode_costs(costs)
        return self._change("set_graph", who, **given)

    def set_limits(
        self,
        min_propensity: float | None = None,
        budget: Mapping[str, Any] | str | None = "keep",
        *,
        who: str | None = None,
    ) -> dict[str, Any]:
        """Change the limits on exploration; what is not given stays.

        :param budget: such as ``{"limit": 50, "per": "day"}``; None takes it away.
        """
        given: dict[str, Any] = {} if min_propensity is None else {"min_propensity": min_propensity}
        return self._change("set_limits", who, **given, **({} if isinstance(budget, str) else {"budget": budget}))

    def reset(self, *, who: str | None = None) -> dict[str, Any]:
        """Let the learner forget what may be out of date."""
        return self._change("reset", who)

    def roll_back(
        self, *, event: int | None = None, round: int | None = None, who: str | None = None
    ) -> dict[str, Any]:
        """Let the learner know what it knew before an event of the log, or before the decision of a round."""
        given = {"event": event, "round": round}
        return self._change("roll_back", who, **{name: at for name, at in given.items() if at is not None})

    def promote(self, *, who: str | None = None) -> dict[str, Any]:
        """Let this model, which is a shadow, decide from now on; its champion follows it."""
        return self._change("promote", who)

    def changes(self) -> dict[str, Any]:
        """Return the last changes in the log, and the events before which there is a snapshot."""
        return self._call("list_changes")

    def _change(self, handler: str, who: str | None, **content: Any) -> dict[str, Any]:
        return self._call(handler, content if who is None else content | {"who": who})

    # ------------------------------------------------------------------------------------------------------- looking on

    def predict(self, x: Any, scores: Scores | None = None) -> Prediction:
        """Return the model's best guess for x; nothing is drawn and nothing changes."""
        answer = self._call("predict", _encode_one(x, scores))
        return _read_prediction(answer, answer["classes"])

    def predict_many(self, rows: Iterable[Any], scores: Iterable[Scores] | None = None) -> list[Prediction]:
        """Return predictions for many rows."""
        answer = self._call("predict_many", _encode_many(rows, scores))
        return [_read_prediction(each, answer["classes"]) for each in answer["predictions"]]

    def explain(self, x: Any, scores: Scores | None = None) -> dict[str, Any]:
        """Return what each column, word and category of x adds to the score of the class that is decided, against the
        next one: see :class:`gappletron.Explanation`.
        """
        return self._call("explain", _encode_one(x, scores))

    def model(self) -> dict[str, Any]:
        """Return what the model is, and how well it does."""
        return self._call("describe")

    def estimates(self) -> dict[str, Any]:
        """Return the estimates with their curve."""
        return self._call("estimate")

    def models(self) -> list[dict[str, Any]]:
        """Return all models of the server."""
        return self._call("list_models")["models"]

    def create_model(self, name: str) -> dict[str, Any]:
        """Make a model of this name in a fleet, if there is none; return what it is."""
        return self._call("create_model", {"name": name})

    def health(self) -> dict[str, Any]:
        """Return ``{"status": "ok"}``, or ``"degraded"`` with a list of `problems`; an error where nothing can be
        stored.
        """
        return self._call("check_health")

    # --------------------------------------------------------------------------------------------------------- requests

    def _call(self, handler: str, content: Any = None) -> Any:
        """Return the answer of the endpoint with this handler; it is asked again, with the same key, where that may
        help.
        """
        endpoint = BY_HANDLER[handler]
        path = self._base + endpoint.path if endpoint in OF_MODELS else endpoint.path
        body, headers = None, dict(self._headers)
        if content is not None:
            headers["Content-Type"] = "application/json"
            try:
                body = json.dumps(content, allow_nan=False).encode()
            except (TypeError, ValueError) as error:
                raise UserError(f"x cannot be written as JSON ({error}): give plain texts, numbers and None") from None
        if endpoint.is_stored:
            headers["Idempotency-Key"] = secrets.token_hex(16)
        found, pause = self._ask(endpoint.method, path, body, headers)
        for attempt in range(self._retries):
            if not isinstance(found, ServiceError) or found.status not in (None, MOVED, *TRY_AGAIN):
                break
            if pause is None and attempt > 0:  # the first time at once: a connection may have been closed as idle
                pause = FIRST_PAUSE * 2.0 ** (attempt - 1) + random.uniform(0.0, 0.1)
            time.sleep(min(pause or 0.0, LONGEST_PAUSE))
            found, pause = self._ask(endpoint.method, path, body, headers)
        if isinstance(found, Exception):
            raise found
        return found

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[Any, float | None]:
        """Ask every server in turn until one answers; return its answer, or the error of the last, and the shortest
        time in which one of them asks to be asked again.
        """
        from urllib3.exceptions import HTTPError

        found: Any = None
        pauses: list[float] = []
        order = [(self._first + place) % len(self.urls) for place in range(len(self.urls))]
        for number in [each for each in order if self._again[each] <= time.monotonic()] or order:
            url = self.urls[number]
            try:
                answer = self._send(url, method, path, body=body, headers=headers)
            except HTTPError as error:
                reason = getattr(error, "reason", None) or error
                found = ServiceError(f"the service at {url} cannot be reached: {reason}")
                self._again[number] = time.monotonic() + SILENCE
                continue
            if answer.status in TRY_AGAIN:
                pauses += _read_pause(answer.headers.get("Retry-After"))
            found = json.loads(answer.data) if answer.status == 200 else _make_error(answer.status, answer.data)
            if answer.status not in ELSEWHERE:
                self._first = number
                break
        return found, min(pauses, default=None)

    def _send(self, url: str, method: str, path: str, **request: Any) -> Any:
        """Return the answer of a server, or of the process of its fleet that has the model, which is remembered."""
        from urllib3.exceptions import HTTPError

        owner, self._owner = self._owner, None
        if owner is not None and self._is_of_model(path):
            with contextlib.suppress(HTTPError):
                answer = self._pool.request(method, owner + path, redirect=False, **request)
                if answer.status not in (MOVED, *ELSEWHERE):
                    self._owner = owner
                    return answer
        answer = self._pool.request(method, url + path, redirect=False, **request)
        if answer.status == MOVED:
            owner = _read_address(answer.headers.get("Location", ""), path, url)
            with contextlib.suppress(HTTPError):
                answer = self._pool.request(method, owner + path, redirect=False, **request)
                if answer.status not in (MOVED, *ELSEWHERE) and self._is_of_model(path):
                    self._owner = owner
        return answer

    def _is_of_model(self, path: str) -> bool:
        """Whether a path is one of the model that the client is for."""
        return self._base != FIRST_MODEL and path.startswith(self._base)


def _read_address(location: str, path: str, known: str) -> str:
    """Return the address of the process that a request is sent on to. The token goes there too, so not without TLS
    where it was used before.

    >>> _read_address("http://10.0.0.5:8080/v1/act", "/v1/act", "http://10.0.0.4:8080")
    'http://10.0.0.5:8080'
    """
    address = location.removesuffix(path)
    if not address.startswith(("https://", "http://")[: 1 + known.startswith("http://")]):
        raise ServiceError(f"the service at {known} sends the request on to {location!r}: look after its --address")
    return address


def _read_pause(text: str | None) -> list[float]:
    """Return the seconds that a server asks for, if it does.

    >>> _read_pause("7"), _read_pause("soon")
    ([7.0], [])
    """
    try:
        return [max(0.0, float(text or ""))]
    except ValueError:
        return []


def _encode_one(x: Any, scores: Scores | None) -> dict[str, Any]:
    """Return one row, and its scores, as they are sent."""
    return {"x": _encode_row(x)} | ({} if scores is None else {"scores": _encode_scores(scores)})


def _encode_many(rows: Iterable[Any], scores: Iterable[Scores] | None) -> dict[str, Any]:
    """Return many rows, and their scores, as they are sent."""
    given = {} if scores is None else {"scores": [_encode_scores(each) for each in scores]}
    return {"rows": [_encode_row(x) for x in rows]} | given


def _encode_costs(costs: Mapping[tuple[Label, Label], float]) -> list[list[Any]]:
    return [[*names, cost] for names, cost in costs.items()]


def _encode_scores(scores: Scores) -> dict[Label, float]:
    if not isinstance(scores, Mapping):
        raise UserError(f"scores must map every class to its score, as in {{'ham': 0.9, 'spam': 0.1}}, not {scores!r}")
    return {name: float(value) for name, value in scores.items()}


def _encode_row(x: Any) -> Any:
    """Return x as it is sent: a pair of indices and values by name, arrays as lists."""
    if isinstance(x, tuple) and len(x) == 2:
        return {"indices": _encode_row(x[0]), "values": _encode_row(x[1])}
    return x.tolist() if hasattr(x, "tolist") else x


def _read_decision(answer: dict[str, Any]) -> Decision:
    return Decision(**{**answer, "reveals": tuple(answer["reveals"])})


def _read_prediction(answer: dict[str, Any], classes: list[Label]) -> Prediction:
    return Prediction(answer["class"], dict(zip(classes, answer["probabilities"], strict=True)))


def _find_id(decision: Decision | str) -> str:
    return decision.id if isinstance(decision, Decision) else decision


def _encode_feedback(decision: Decision | str, label: Any) -> dict[str, Any]:
    name = _find_id(decision)
    # UNSEEN is known by its name: importing it would load NumPy and Numba, which the client does not need.
    return {"id": name, "unseen": True} if getattr(label, "name", None) == "UNSEEN" else {"id": name, "label": label}


def _make_error(status: int, body: bytes) -> UserError | ServiceError:
    """Return the sentence of the server as an exception."""
    try:
        sentence = str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        sentence = f"the service answered {status}: {body[:200].decode(errors='replace')}"
    if 400 <= status < 500 and status not in (401, 403, 429):
        return UserError(sentence)
    return ServiceError(sentence, status)

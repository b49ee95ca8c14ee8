"""What requests and answers look like in JSON.

Requests are decoded straight into these classes, and checked while they are decoded; the OpenAPI description is made
from the same classes. Whether `x` is a record or a vector depends on the model, so there are two classes for each
request that carries one.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from gappletron.base.checks import Label

# Rows in one request. A batch is one step of the event loop, and other requests wait for it.
MOST_ROWS = 10_000
# Rows taught in one request, each of which is a step of its own.
MOST_TAUGHT = 1_000
# Bytes of an x that is explained, which takes plain Python: some microseconds for each.
MOST_EXPLAINED = 10_000
# Characters of an idempotency key.
LONGEST_KEY = 200
# Seconds after which a request may be tried again, by the status of its answer.
RETRY_AFTER = {429: "1", 503: "5"}


class Request(Struct, forbid_unknown_fields=True, frozen=True):
    """The body of a request: a field that is not known is an error, since it is most likely misspelled."""


class Sparse(Request, frozen=True):
    """A sparse vector: the indices of its entries, from 0, and their values; a value of 0 is an entry too."""

    indices: list[int]
    values: list[float]


# The columns of a record by name, or a text.
Record = dict[str, Any] | str
# A sparse vector, or all numbers of a dense one.
Vector = Sparse | list[float]

Rows = Meta(min_length=1, max_length=MOST_ROWS)
TaughtRows = Meta(min_length=1, max_length=MOST_TAUGHT)
# Scores of a model of one's own, by the classes as texts: true, false, null and numbers as JSON writes them.
Scores = Annotated[
    dict[str, float],
    Meta(
        description="What a model of your own says of x: a number for every class, either probabilities, which add up "
        "to 1, or any numbers, of which the softmax is taken. For the learner `auto`."
    ),
]


class OneRecord(Request, frozen=True):
    """A record or a text, for a model with an encoder."""

    x: Record
    scores: Scores | UnsetType = UNSET


class OneVector(Request, frozen=True):
    """A vector, for a model without an encoder."""

    x: Vector
    scores: Scores | UnsetType = UNSET


class ManyRecords(Request, frozen=True):
    """Many records, and the scores of each where there are any."""

    rows: Annotated[list[Record], Rows]
    scores: Annotated[list[Scores], Rows] | UnsetType = UNSET


class ManyVectors(Request, frozen=True):
    """Many vectors, and the scores of each where there are any."""

    rows: Annotated[list[Vector], Rows]
    scores: Annotated[list[Scores], Rows] | UnsetType = UNSET


class Feedback(Request, frozen=True):
    """The label of a decision, or that it stayed unseen: exactly one of them."""

    id: str
    label: Label | UnsetType = UNSET
    unseen: Annotated[bool, Meta(extra_json_schema={"const": True})] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.label is UNSET) is (self.unseen is UNSET) or self.unseen is False:
            raise ValueError('there must be either a "label" or "unseen": true')


class ManyFeedbacks(Request, frozen=True):
    """Feedback for many decisions: all of it is learned, or none."""

    feedback: Annotated[list[Feedback], Rows]


class Forget(Request, frozen=True):
    """The decision for which no feedback will come."""

    id: str


class ForgetMany(Request, frozen=True):
    """Decisions for which no feedback will come: all are forgotten, or none."""

    ids: Annotated[list[str], Rows]


class NewModel(Request, frozen=True):
    """The name of a model to be made as the options of the server say. One that is there already stays as it is."""

    name: str


# An action, a class, and what the action costs where the class is the label.
Cost = tuple[Label, Label, float]
Propensity = Annotated[float, Meta(gt=0.0, le=1.0)]


class TaughtRecord(Request, frozen=True):
    """A record with its label, and the probability with which the label was observed where that is below 1."""

    x: Record
    label: Label
    propensity: Propensity = 1.0
    scores: Scores | UnsetType = UNSET


class TaughtVector(Request, frozen=True):
    """A vector with its label, as a record."""

    x: Vector
    label: Label
    propensity: Propensity = 1.0
    scores: Scores | UnsetType = UNSET


class ChangeRequest(Request, frozen=True, kw_only=True):
    """A request for a change: who asks is in the log, unless the token has a name."""

    who: Annotated[str, Meta(min_length=1, max_length=200, description="Who asks, for the log.")] | UnsetType = UNSET


class TeachRecords(ChangeRequest, frozen=True):
    """Records with their labels: all are learned, or none."""

    rows: Annotated[list[TaughtRecord], TaughtRows]


class TeachVectors(ChangeRequest, frozen=True):
    """Vectors with their labels: all are learned, or none."""

    rows: Annotated[list[TaughtVector], TaughtRows]


class AddClass(ChangeRequest, frozen=True):
    """A new class, and what it reveals and is revealed by; without these, the graph of a preset stays that preset."""

    name: Label
    reveals: list[Label] | UnsetType = UNSET
    revealed_by: list[Label] | UnsetType = UNSET
    costs: list[Cost] | UnsetType = UNSET


class SetGraph(ChangeRequest, frozen=True):
    """All edges, as pairs of an action and a class that it reveals; and costs, of which those that are not given stay,
    or null for 0 and 1. What is left out stays.
    """

    edges: list[tuple[Label, Label]] | UnsetType = UNSET
    costs: list[Cost] | UnsetType | None = UNSET


class GivenBudget(Request, frozen=True):
    """What exploration may cost: `limit` in each window of so many decisions, or "hour" or "day"; prices of actions."""

    limit: float
    per: int | str = 1000
    prices: list[tuple[Label, float]] | None = None


class SetLimits(ChangeRequest, frozen=True):
    """Limits on exploration; what is left out stays, and null takes the budget away."""

    min_propensity: float | UnsetType = UNSET
    budget: GivenBudget | UnsetType | None = UNSET


class Reset(ChangeRequest, frozen=True):
    """The learner is to forget what may be out of date."""


class RollBack(ChangeRequest, frozen=True):
    """How far the learner is to go back: to before an event of the log, or before the decision of a round."""

    event: int | UnsetType = UNSET
    round: int | UnsetType = UNSET


class Promote(ChangeRequest, frozen=True):
    """The shadow is to decide, and its champion is to follow."""


class Changed(Struct, frozen=True):
    """The model that was changed, the kind of the change in the log, after how many decisions, and who asked."""

    model: str
    change: str
    rounds: int
    who: str | None


class ChangeInfo(Struct, frozen=True):
    """A change in the log: the number of its event, its kind, its time in seconds since 1970, who asked for it, and
    what it was; null for rows that were taught.
    """

    event: int
    kind: str
    time: float
    who: str | None
    about: dict[str, Any] | None


class Changes(Struct, frozen=True):
    """The last changes, oldest first; how many events the log has, and the events before which a snapshot was made."""

    events: int
    snapshots: list[int]
    changes: list[ChangeInfo]


class Decision(Struct, frozen=True):
    """What to do, and what is needed to give feedback later."""

    id: str
    action: Label
    probability: float
    greedy: Label
    reveals: tuple[Label, ...]


class Decisions(Struct, frozen=True):
    """Decisions in the order of the rows."""

    decisions: list[Decision]


class Learned(Struct, frozen=True):
    """How many pieces of feedback were learned from."""

    learned: int


class Forgotten(Struct, frozen=True):
    """How many receipts wait no more."""

    forgotten: int


class Prediction(Struct, frozen=True, rename={"label": "class"}):
    """The model's best guess, and the probability of every class, in the order of `classes`."""

    label: Label
    classes: tuple[Label, ...]
    probabilities: list[float]


class RowPrediction(Struct, frozen=True, rename={"label": "class"}):
    """A prediction for one row of many."""

    label: Label
    probabilities: list[float]


class Predictions(Struct, frozen=True):
    """Predictions in the order of the rows; the probabilities are in the order of `classes`."""

    classes: tuple[Label, ...]
    predictions: list[RowPrediction]


class ExplainedPart(Struct, frozen=True):
    """What one column, word or category of x adds to the score of the class against the next one."""

    name: str
    value: float
    added: float


class Explanation(Struct, frozen=True, rename={"label": "class"}):
    """Why x is decided as it is: `parts` and `others` add up to `difference`, the score of the class minus that of
    `against`.
    """

    label: Label
    against: Label
    difference: float
    probability: float
    """With which the class is decided; the rest, `exploration`, goes to other actions."""
    exploration: float
    parts: list[ExplainedPart]
    others: dict[str, float]
    actions: tuple[Label, ...]
    action_probabilities: list[float]
    classes: tuple[Label, ...]
    probabilities: list[float]
    """Of the labels, as the model estimates them."""


class Following(Struct, frozen=True):
    """How far a model is behind that of the server that leads."""

    rounds: int
    """Decisions that were missing when the log was last read."""
    seconds: float
    """Since the model had all that was in the log."""


class Health(Struct, frozen=True, omit_defaults=True):
    """The service answers, and what it acknowledged is stored: `ok`, or `degraded` where something else needs looking
    after, with one sentence for each problem. `following` has the models that another server leads.
    """

    status: str
    problems: list[str] = []
    following: dict[str, Following] = {}


class GraphInfo(Struct, frozen=True):
    """The feedback graph: what every action reveals, in the order of `actions`."""

    name: str
    classes: tuple[Label, ...]
    actions: tuple[Label, ...]
    reveals: list[tuple[Label, ...]]


class LimitsInfo(Struct, frozen=True):
    """Limits on exploration, and on receipts that wait; null where there is none."""

    min_propensity: float
    propensity: float | None
    """What the budget leaves of `min_propensity`, on average over the last windows; null where none is asked for."""
    budget: dict[str, Any] | None
    """What exploration may cost: `limit`, `per` so many decisions, "hour" or "day", and the `prices` of actions."""
    spent: float | None
    """What it has cost in the present window of the budget; that of all windows is in the estimates."""
    clock_resets: int
    """How often a window of the budget was restarted because the clock was set back."""
    pending: int
    pending_bytes: int
    pending_age: float | None
    max_waiting: int | None


class ModelInfo(Struct, frozen=True):
    """One model: what it is, how far it is, and how well it does by its own estimate."""

    name: str
    shadows: str | None
    """The model whose decisions this one follows, if it decides nothing itself."""
    following: Following | None
    """How far it is behind, where another server leads it; this one answers predictions alone."""
    learner: str
    graph: GraphInfo
    features: int
    encoder: dict[str, Any] | None
    columns: dict[str, Any] | None
    """Since the start of the server: records that lacked declared columns, and that had others; null without any."""
    example: Any
    """An x that the model takes."""
    rounds: int
    waiting: int
    limits: LimitsInfo
    problem: str | None
    """What is wrong with its store, if anything is."""
    versions: dict[str, str]
    estimates: dict[str, Any]


class Models(Struct, frozen=True):
    """All models of this server; the first is also at /v1/act and its neighbours."""

    models: list[ModelInfo]


class Estimates(Struct, frozen=True):
    """The monitor's report, its curve over the rounds, decisions in each of the last seconds, and the delay of feedback
    in seconds since the start of the server: how long ago the last came, the median and the longest.
    """

    model: str
    rounds: int
    waiting: int
    report: dict[str, Any]
    curve: list[dict[str, Any]]
    activity: list[int]
    delay: dict[str, float] | None


class Failure(Struct, frozen=True):
    """One sentence: what is wrong, where, what to do."""

    error: str

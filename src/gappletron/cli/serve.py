"""``gappletron serve``: models over HTTP, with a page that shows how they do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gappletron.base.checks import unknown
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli.data import Categorical, Drop, Numeric, Text
from gappletron.cli.graph import NewCost, named_graph, with_costs
from gappletron.cli.output import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gappletron.graphs.graph import FeedbackGraph
    from gappletron.online.model import Online
    from gappletron.service.models import HostedModel

NAME = re.compile(r"[A-Za-z0-9_.-]+")
DURABILITIES = ("disk", "os")


def serve(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER [NAME=FOLDER ...]",
            help="Where each model is kept: made if it is not there. The first is also at /v1/act. Its name is that of "
            "the folder, unless it is given.",
        ),
    ],
    graph: Annotated[
        str | None,
        typer.Option(
            help="For a new model, what is seen after which action: bandit, full, filtering, label-efficient, "
            "apple-tasting, disease-prevention, or a FILE.json."
        ),
    ] = None,
    classes: Annotated[
        str, typer.Option(help="For a new model on a preset graph: the labels, as in ham,spam, or how many.")
    ] = "",
    revealing: Annotated[
        str | None,
        typer.Option(help="Filtering and apple tasting: the class that reveals. Default: the first of --classes."),
    ] = None,
    cost: NewCost = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]LEARNER",
            help="For a new model; NAME=LEARNER is for one of several; repeatable. Default: auto.",
        ),
    ] = None,
    text: Text = None,
    numeric: Numeric = None,
    categorical: Categorical = None,
    drop: Drop = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="For a new model: x is a vector of numbers. Default: a record.")
    ] = False,
    features: Annotated[
        int | None,
        typer.Option(
            help="For a new model: the number of features that records are hashed into, default 262144; with "
            "--vectors their number, by default as many as come."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For a new model: the seed of its draws. Default: 0.")] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse records that lack a declared column (--text, --numeric, --categorical) or have another one. "
            "Default: they are taken, and counted.",
        ),
    ] = False,
    shadow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=CHAMPION",
            help="The model NAME decides nothing, and learns from the decisions and the feedback of CHAMPION; "
            "repeatable.",
        ),
    ] = None,
    min_propensity: Annotated[
        float | None,
        typer.Option(help="Every label is seen at least with this probability, as in 0.02: explore that much more."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="LIMIT/WINDOW", help="What exploration may cost, as in 50/1000 (decisions) or 50/day."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen. Others than this machine need --token-file.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 for one that is free.", min=0, max=65535)] = 8080,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file of tokens, one in each line, of which requests must have one."),
    ] = None,
    durability: Annotated[
        str,
        typer.Option(
            help="What an answer waits for: disk (it survives a power failure) or os (it survives a crash of the "
            "process)."
        ),
    ] = "disk",
    snapshot_every: Annotated[
        int,
        typer.Option(
            metavar="EVENTS",
            help="Decisions and feedback between two snapshots of a model: fewer make a start after a crash quicker.",
            min=1,
        ),
    ] = 1_000_000,
    max_body: Annotated[int, typer.Option(metavar="BYTES", help="The largest body of a request.", min=1)] = 16_000_000,
    pending: Annotated[
        int, typer.Option(help="So many receipts may wait for feedback; beyond that the oldest expire.", min=1)
    ] = 1_000_000,
    pending_age: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="A receipt may wait so long; then it expires.")
    ] = None,
    keep_rows: Annotated[
        int | None,
        typer.Option(
            help="Keep the features of at least so many last rounds; in older ones a hash stands for them. Default: "
            "all are kept.",
            min=0,
        ),
    ] = None,
    max_waiting: Annotated[
        int | None,
        typer.Option(
            help="Refuse decisions while so many receipts wait, in place of letting the oldest expire.", min=1
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="The intervals of the estimates hold with probability 1 - alpha at all times.")
    ] = 0.05,
) -> None:
    """Serve models over HTTP; the page at / shows how they do."""
    try:
        from gappletron.service import access, app, columns, serving
    except ImportError as error:
        raise UserError(f"the service needs {error.name}: pip install 'gappletron[serve]'") from None

    from gappletron.play.limits import Budget

    places = places_of(folders)
    names = [place.name for place in places]
    champions = champions_of(shadow or [], names)
    learners = learners_of(learner or [], names)
    if graph is None and (classes or revealing or cost):
        raise UserError("--classes, --revealing and --cost are parts of a graph: give --graph as well, or omit them")
    if durability not in DURABILITIES:
        raise unknown(durability, "durability", DURABILITIES)
    if not 0.0 < alpha < 1.0:
        raise UserError(f"--alpha {alpha} is not between 0 and 1: choose 0.05, for example")
    tokens = [] if token_file is None else access.read_tokens(token_file)
    access.check_host(host, tokens)
    given: dict[str, Any] = {
        "graph": None if graph is None else with_costs(graph_of(graph, classes, revealing), cost),
        **rows_of(vectors, features, {"text": text, "numeric": numeric, "categorical": categorical, "drop": drop}),
        "seed": seed,
        "durability": durability,
        "snapshot_every": snapshot_every,
        "min_propensity": min_propensity,
        "budget": None if budget is None else Budget.parse(budget),
        "pending": pending,
        "pending_age": pending_age,
        "keep_rows": keep_rows,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if strict and "graph" in options and "encoder" not in options and not vectors:
        raise columns.nothing_declared(names[0])  # before anything is made
    with serving.bound_socket(host, port) as listening:
        with progress("opening"):
            models = {place.name: opened(place.folder, learners[place.name], options) for place in places}
            if vectors and any(model.encoder is not None for model in models.values()):
                raise UserError("--vectors was given, and a model takes records: omit it, or use another folder")
            if strict and all(model.encoder is None for model in models.values()):
                raise UserError("--strict is about the columns of records, and no model takes records: omit it")
            hosted = hosted_models(models, champions, max_waiting, alpha, strict=strict)
            application = app.create_app(hosted, tokens=tokens, max_body=max_body)
        number = listening.getsockname()[1]
        address = f"http://{f'[{host}]' if ':' in host else host}:{number}/"
        serving.serve(application, listening, lambda: tell(f"serving {', '.join(names)}: the page is at {address}"))
    if application.failures:
        raise UserError(f"stopped, and not everything was stored: {application.failures[0]}")
    tell("stopped: everything is stored")


def graph_of(graph: str, classes: str, revealing: str | None) -> FeedbackGraph:
    """The graph of the options. A preset needs its classes: a number that nobody has chosen would stay for ever.

    >>> graph_of("bandit", "", None)
    Traceback (most recent call last):
        ...
    gappletron.UserError: the preset 'bandit' does not say which labels there are: give --classes, as in \
--classes ham,spam; for a model that is there already, omit --graph
    """
    from gappletron.graphs.graph import FeedbackGraph

    if not classes and not graph.endswith(".json") and graph.partition(":")[0] in FeedbackGraph.PRESETS:
        raise UserError(
            f"the preset {graph!r} does not say which labels there are: give --classes, as in --classes ham,spam; for "
            "a model that is there already, omit --graph"
        )
    return named_graph(graph, classes, revealing)


class Place(NamedTuple):
    """A model and where it is kept."""

    name: str
    folder: Path


def places_of(folders: Sequence[str]) -> list[Place]:
    """The models that the arguments name.

    >>> [place.name for place in places_of(["data/mail", "b=data/other"])]
    ['mail', 'b']
    """
    places = []
    for text in folders:
        head, separator, tail = text.partition("=")
        if separator and tail and NAME.fullmatch(head):
            places.append(Place(head, Path(tail)))
            continue
        name = Path(text).resolve().name
        if not NAME.fullmatch(name):
            raise UserError(f"the folder {text!r} has no name for an address: give one, as in mail={text}")
        places.append(Place(name, Path(text)))
    names = [place.name for place in places]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two models are called {twice!r}: give each a name of its own, as in NAME=FOLDER")
    return places


def champions_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Which model shadows which.

    >>> champions_of(["b=a"], ["a", "b"])
    {'b': 'a'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, champion = text.partition("=")
        for each in (name, champion):
            if each not in names:
                raise unknown(each, "model for --shadow NAME=CHAMPION called", names)
        found[name] = champion
    for name, champion in found.items():
        if champion in found:
            raise UserError(f"{name!r} cannot shadow {champion!r}, which is a shadow itself: name one that decides")
    if names[0] in found:
        raise UserError(f"the first model {names[0]!r} is the one that decides at /v1/act: name another first")
    return found


def learners_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, str | None]:
    """The learner of each model, where one is given.

    >>> learners_of(["auto", "b=banditron:gamma=0.1"], ["a", "b"])
    {'a': 'auto', 'b': 'banditron:gamma=0.1'}
    """
    common: str | None = None
    single: dict[str, str] = {}
    for text in texts:
        head, separator, tail = text.partition("=")
        if separator and head in names:
            single[head] = tail
        else:
            common = text
    return {name: single.get(name, common) for name in names}


def rows_of(vectors: bool, features: int | None, columns: dict[str, list[str] | None]) -> dict[str, Any]:
    """What x is, as options of a model; none where nothing was said of it."""
    from gappletron.data.records.encoder import Encoder

    given: dict[str, Any] = {kind: names for kind, names in columns.items() if names}
    if vectors:
        if given:
            raise UserError("--vectors takes numbers, which have no columns: omit --text, --numeric and the like")
        return {"features": "grow" if features is None else features}
    if features is not None:
        given["features"] = features
    return {"encoder": Encoder(**given)} if given else {}


def opened(folder: Path, learner: str | None, options: dict[str, Any]) -> Online:
    """The model of a folder, or a new one."""
    from gappletron.data.records.encoder import Encoder
    from gappletron.online.folder import FolderStore
    from gappletron.online.model import Online

    store = FolderStore(folder)
    if store.settings() is None:
        if "graph" not in options:
            store.close()
            raise UserError(
                f"there is no model in {str(folder)!r} yet, and a new one needs a graph: give one, as in --graph "
                "filtering --classes ham,spam"
            )
        if "features" not in options:
            options = {"encoder": Encoder(), **options}
    return Online.open(store, learner, **options)


def hosted_models(
    models: dict[str, Online], champions: dict[str, str], max_waiting: int | None, alpha: float, *, strict: bool
) -> list[HostedModel]:
    """The models in the order given, each with its shadows, which take what their champions take."""
    from gappletron.service.models import HostedModel

    shadows = {name: HostedModel(name, models[name], alpha=alpha) for name in champions}
    return [
        shadows[name]
        if name in shadows
        else HostedModel(
            name,
            model,
            shadows=[shadows[each] for each, champion in champions.items() if champion == name],
            max_waiting=max_waiting,
            alpha=alpha,
            strict=strict,
        )
        for name, model in models.items()
    ]

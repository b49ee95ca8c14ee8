"""``gappletron serve``: models over HTTP, with a page that shows how they do."""

from __future__ import annotations

import logging
import re
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.base.text import unknown
from gappletron.cli import options
from gappletron.cli.options import ALPHA, given_options, model_option, option
from gappletron.cli.output import tell
from gappletron.graphs.presets import PRESETS
from gappletron.online.database import NAME as DEFAULT, URLS, name_place

if TYPE_CHECKING:  # they need the extra `serve`
    from gappletron.service.app import Service
    from gappletron.service.standby import Standby
    from gappletron.service.tokens import Token

EXAMPLES = """\
gappletron serve mail.sqlite --graph filtering --classes ham,spam
gappletron serve mail.sqlite --host 0.0.0.0 --token-file tokens.txt --access-log
gappletron serve mail.sqlite new=new.sqlite --shadow new=mail --learner new=one-against-all"""

NAME = re.compile(r"[A-Za-z0-9_.-]+")
LEVELS = ("debug", "info", "warning", "error")
log = logging.getLogger("gappletron.serve")


@dataclass(frozen=True)
class ModelOptions:
    """What the models are."""

    title: ClassVar[str] = "Models"
    learner: list[str] | None = option(
        None, "For new models, or for one of them: NAME=LEARNER; repeatable. Default: auto.", metavar="[NAME=]LEARNER"
    )
    vectors: bool = option(False, "For a new model: x is a vector of numbers. Default: a record.", "--vectors")
    max_features: int | None = model_option("max_features", metavar="NUMBER", min=1)
    strict: bool = option(
        False, "Refuse records with other columns than those that were declared. Default: they are counted.", "--strict"
    )
    shadow: list[str] | None = option(
        None, "NAME decides nothing, and learns from what CHAMPION decides; repeatable.", metavar="NAME=CHAMPION"
    )
    standby: bool = option(
        False,
        "Where another server leads a model in PostgreSQL, follow it, answer predictions, and take over when it is "
        "gone; where none does, lead.",
        "--standby",
    )
    replica: bool = option(False, "Follow, answer predictions, and never take over.", "--replica")
    max_waiting: int | None = option(
        None, "Refuse decisions while this many receipts wait, in place of letting the oldest expire.", min=1
    )


@dataclass(frozen=True)
class StorageOptions:
    """What is kept of a model, and how safely."""

    title: ClassVar[str] = "Storage"
    durability: str = option(
        "disk",
        "What answers survive: a power failure (disk, the default), or a crash of the process (os).",
        metavar="disk|os",
    )
    snapshot_every: int = option(
        1_000_000,
        "Events between snapshots: fewer make a start after a crash quicker. Default: 1000000.",
        metavar="EVENTS",
        min=1,
    )
    pending: int = model_option("pending", default=1_000_000, min=1)
    pending_bytes: int | None = model_option("pending_bytes", metavar="BYTES", min=1)
    pending_age: float | None = model_option("pending_age", metavar="SECONDS")
    keep_rows: int | None = option(None, "Keep the features of at least this many last rounds. Default: all.", min=0)


@dataclass(frozen=True)
class ServerOptions:
    """Where the server listens, to whom, and what it prints."""

    title: ClassVar[str] = "Server"
    host: str = option(
        "127.0.0.1",
        "The address to listen at. All but those of this machine need --token-file. Default: 127.0.0.1.",
        metavar="HOST",
    )
    port: int = option(8080, "The port; 0 for one that is free. Default: 8080.", min=0, max=65535)
    token_file: Path | None = option(
        None, "A file of tokens, one per line, perhaps after a name; requests need one.", metavar="PATH"
    )
    admin_token_file: Path | None = option(
        None, "A file of the tokens that may change models; those of --token-file then may not.", metavar="PATH"
    )
    max_body: int = option(16_000_000, "The largest body of a request. Default: 16000000.", metavar="BYTES", min=1)
    max_connections: int = option(1_000, "How many connections may be open; more are refused. Default: 1000.", min=1)
    access_log: bool = option(
        False, "Print a line for each request: when, from where, what, the status and the time it took.", "--access-log"
    )
    log_level: str = option(
        "info", "The lowest level that is printed: debug, info (the default), warning or error.", metavar="LEVEL"
    )


def serve(
    stores: Annotated[
        list[str],
        typer.Argument(
            metavar="STORE [NAME=STORE ...]",
            help="Where each model is kept: a file, made if it is not there, or the URL of a PostgreSQL database. "
            "The first is also at /v1/act. Its name is that of the file, unless it is given.",
        ),
    ],
    *,
    graph: options.GraphName = None,
    preset: options.GraphOptions,
    columns: options.ColumnOptions,
    hosting: ModelOptions,
    memory: options.Memory = None,
    seed: options.Seed = None,
    limits: options.LimitOptions,
    storage: StorageOptions,
    server: ServerOptions,
    alpha: options.Alpha = ALPHA,
) -> None:
    """Serve models over HTTP, with a page at / that shows how well they do.

    The options of the graph, of columns and features, the seed and the memory are for a new model, which needs a graph.
    """
    try:
        from gappletron.service import app
        from gappletron.service.columns import nothing_declared
        from gappletron.service.models import host_models
        from gappletron.service.serving import bind_socket
    except ImportError as error:
        raise UserError(
            f"the service needs {error.name}: pip install '.[serve]' in a clone of the repository"
        ) from None

    set_log_level(server)
    places = parse_places(stores)
    names = list(places)
    champions = parse_shadows(hosting.shadow or [], names)
    learners = parse_learners(hosting.learner or [], names)
    tokens = read_access(server)
    own = given_options(seed=seed, memory=memory, max_features=hosting.max_features, **vars(storage))
    known = {**make_rows(hosting.vectors, columns), **own, **limits.parse()}
    if graph is not None:
        known["graph"] = make_graph(graph, preset)
    elif given_options(preset):
        raise UserError("--classes, --revealing and --cost are parts of a graph: give --graph as well, or omit them")
    if hosting.strict and graph is not None and "encoder" not in known and not hosting.vectors:
        raise nothing_declared(names[0])  # before anything is made
    check_following(hosting, places)
    with bind_socket(server.host, server.port) as listening:
        log.info("opening %s", ", ".join(show_place(name, place) for name, place in places.items()))
        with progress("opening"):
            about = {"max_waiting": hosting.max_waiting, "alpha": alpha, "strict": hosting.strict}
            seats = {name: (place, name, learners[name], known) for name, place in places.items()}
            standbys = []
            if hosting.standby or hosting.replica:
                standbys = [follow_model(*seat, about, is_replica=hosting.replica) for seat in seats.values()]
                hosted = [standby.hosted for standby in standbys]
            else:
                hosted = host_models({name: open_model(*seat) for name, seat in seats.items()}, champions, **about)
            check_kinds(hosting, [each.takes_records for each in hosted])
            application = app.create_app(
                hosted, tokens=tokens, max_body=server.max_body, logs_access=server.access_log, standbys=standbys
            )
        run(application, listening, server, ", ".join(names))


def set_log_level(server: ServerOptions) -> None:
    """Print what is at least of the level of the options."""
    if server.log_level not in LEVELS:
        raise unknown(server.log_level, "level for --log-level called", LEVELS)
    logging.getLogger("gappletron").setLevel(server.log_level.upper())


def read_access(server: ServerOptions) -> list[Token]:
    """Return the tokens of the server, if it may listen where it is to listen."""
    from gappletron.service.tokens import check_host, read_tokens

    files = [path for path in (server.token_file, server.admin_token_file) if path is not None]
    tokens = [token for path in files for token in read_tokens(path, may_change=path is files[-1])]
    for path in files:
        if path.stat().st_mode & stat.S_IROTH:
            tell(f"warning: every user of this machine may read the tokens in {path}: chmod o-r it")
    check_host(server.host, tokens)
    return tokens


def make_address(listening: socket.socket, server: ServerOptions) -> str:
    """Return the address of the server, as its host names it."""
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"http://{host}:{listening.getsockname()[1]}/"


def run(application: Service, listening: socket.socket, server: ServerOptions, what: str) -> None:
    """Serve until a signal comes; say where, and whether everything was stored."""
    from gappletron.service.serving import serve

    address = make_address(listening, server)
    serve(
        application,
        listening,
        server.max_connections,
        ready=lambda: tell(f"serving {what}: the page is at {address}"),
        log_level=server.log_level,
    )
    if application.failures:
        raise UserError(f"stopped, and not everything was stored: {application.failures[0]}")
    tell("stopped: everything is stored")


def make_graph(graph: str, preset: options.GraphOptions) -> gp.FeedbackGraph:
    """Return the graph of the options. A preset needs its classes: a number that nobody has chosen would stay for ever.

    >>> make_graph("bandit", options.GraphOptions())
    Traceback (most recent call last):
        ...
    gappletron.UserError: the preset 'bandit' does not say which labels there are: give --classes, as in \
--classes ham,spam; for a model that is there already, omit --graph
    """
    if not preset.classes and not graph.endswith(".json") and graph.partition(":")[0] in PRESETS:
        raise UserError(
            f"the preset {graph!r} does not say which labels there are: give --classes, as in --classes ham,spam; for "
            "a model that is there already, omit --graph"
        )
    return preset.add_costs(preset.open_alone(graph))


def parse_places(stores: Sequence[str]) -> dict[str, str]:
    """Return the names of the models that the arguments name, and their stores.

    >>> parse_places(["data/mail.sqlite", "b=postgresql://host/models"])
    {'mail': 'data/mail.sqlite', 'b': 'postgresql://host/models'}
    """
    places: dict[str, str] = {}
    for text in stores:
        name, separator, place = text.partition("=")
        if not (separator and place and NAME.fullmatch(name)):
            name, place = Path(text).resolve().stem, text
            if place.startswith(URLS):  # it may hold a password
                raise UserError("a database has no name for an address: give one, as in mail=postgresql://host/models")
            if not NAME.fullmatch(name):
                raise UserError(f"the store {text!r} has no name for an address: give one, as in mail={text}")
        if name in places:
            raise UserError(f"two models are called {name!r}: give each a name of its own, as in NAME=STORE")
        places[name] = place
    return places


def parse_shadows(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return which model shadows which.

    >>> parse_shadows(["b=a"], ["a", "b"])
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


def parse_learners(texts: Sequence[str], names: Sequence[str]) -> dict[str, str | None]:
    """Return the learner of each model, where one is given.

    >>> parse_learners(["auto", "b=banditron:gamma=0.1"], ["a", "b"])
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


def make_rows(vectors: bool, columns: options.ColumnOptions) -> dict[str, Any]:
    """Return what x is, as options of a model; none where nothing was said of it."""
    given = given_options(columns)
    if not vectors:
        return {"encoder": gp.Encoder(**given)} if given else {}
    if columns.kinds or columns.names:
        raise UserError("--vectors takes numbers, which have no columns: omit --text, --numeric, --names and the like")
    return {"features": "grow", **given}


def check_following(hosting: ModelOptions, places: dict[str, str]) -> None:
    """Refuse options that do not go together with following another server.

    >>> check_following(ModelOptions(standby=True), {"mail": "mail.sqlite"})
    Traceback (most recent call last):
        ...
    gappletron.UserError: --standby needs PostgreSQL, and 'mail.sqlite' is a file: give the URL of a database, or \
--replica
    """
    if hosting.standby and hosting.replica:
        raise UserError("--standby takes over and --replica never does: give one of them")
    if (hosting.standby or hosting.replica) and hosting.shadow:
        raise UserError("--shadow needs the server that decides: omit it, or --standby and --replica")
    for place in places.values():
        if hosting.standby and not place.startswith(URLS):
            raise UserError(
                f"--standby needs PostgreSQL, and {place!r} is a file: give the URL of a database, or --replica"
            )


def check_kinds(hosting: ModelOptions, takes_records: list[bool]) -> None:
    """Refuse options about what x is that do not fit the models."""
    if hosting.vectors and any(takes_records):
        raise UserError("--vectors was given, and a model takes records: omit it, or use another store")
    if hosting.strict and not any(takes_records):
        raise UserError("--strict is about the columns of records, and no model takes records: omit it")


def follow_model(
    place: str, name: str, learner: str | None, known: dict[str, Any], about: dict[str, Any], *, is_replica: bool
) -> Standby:
    """Return what follows a stored model, and leads where nobody does; then a new one is made where there is none.

    :param about: options of a hosted model.
    """
    from gappletron.online.follower import Follower
    from gappletron.online.journal import Policy
    from gappletron.online.opening import is_stored
    from gappletron.service.models import HostedModel
    from gappletron.service.standby import Standby

    stored_as = find_stored_name(place, name)
    if not is_replica and not is_stored(place, stored_as):
        open_model(place, name, learner, known).close()
    names = {field.name for field in fields(Policy)}
    policy = Policy(**{option: value for option, value in known.items() if option in names})
    given = {option: value for option, value in known.items() if option not in names} | given_options(learner=learner)
    make = partial(Follower, place, name=stored_as)
    follower = make()
    try:
        follower.check(given)  # now, and not when it takes over
    except BaseException:
        follower.close()
        raise
    hosted = HostedModel(name, follower.model, follower=follower, **about)
    return Standby(hosted, make, None if is_replica else lambda each: each.take_over(policy, given))


def show_place(name: str, place: str) -> str:
    """Return a model and its file for the log; a URL may hold a password.

    >>> show_place("mail", "mail.sqlite"), show_place("mail", "postgresql://me:secret@host/models")
    ('mail (mail.sqlite)', 'mail')
    """
    return name if place.startswith(URLS) else f"{name} ({place})"


def find_stored_name(place: str, name: str) -> str:
    """Return the name of a model in its store: in PostgreSQL it is the one that it is served under."""
    return name if place.startswith(URLS) else DEFAULT


def open_model(place: str, name: str, learner: str | None, known: dict[str, Any]) -> gp.Online:
    """Return the model of a store, or a new one."""
    from gappletron.online.opening import is_stored

    stored_as = find_stored_name(place, name)
    if not is_stored(place, stored_as):
        if "graph" not in known:
            raise UserError(
                f"there is no model in {name_place(place)!r} yet, and a new one needs a graph: give one, as in "
                "--graph filtering --classes ham,spam"
            )
        if "features" not in known:
            known = {"encoder": gp.Encoder(), **known}
    return gp.Online.open(place, learner, name=stored_as, **known)

"""``gappletron fleet``: all models of a database over HTTP, opened by their first request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.cli import options
from gappletron.cli.options import ALPHA, given_options, model_option, option
from gappletron.cli.serve import (
    ServerOptions,
    StorageOptions,
    make_address,
    make_graph,
    make_rows,
    read_access,
    run,
    set_log_level,
)
from gappletron.online.database import URLS

EXAMPLES = """\
gappletron fleet postgresql://host/models --graph filtering --classes ham,spam --text message
gappletron fleet postgresql://host/models --host 0.0.0.0 --address http://10.0.0.5:8080 --token-file tokens.txt
gappletron fleet models.sqlite --graph filtering --classes ham,spam --model-memory 200000000"""


@dataclass(frozen=True)
class FleetOptions:
    """What new models are, and what holds for all."""

    title: ClassVar[str] = "Models"
    learner: str | None = option(None, "For new models. Default: auto.")
    vectors: bool = option(False, "For new models: x is a vector of numbers. Default: a record.", "--vectors")
    max_features: int | None = model_option("max_features", metavar="NUMBER", min=1)
    max_waiting: int | None = option(
        None, "Refuse decisions while this many receipts of a model wait, in place of letting the oldest expire.", min=1
    )
    model_memory: int = option(
        1_000_000_000,
        "Where the open models take more memory than this, the least recently used are closed. Default: 1000000000.",
        metavar="BYTES",
        min=1,
    )
    address: str | None = option(
        None,
        "Where clients and other processes reach this one, as in http://10.0.0.5:8080. Default: --host and --port.",
        metavar="URL",
    )


@dataclass(frozen=True)
class FleetStorageOptions(StorageOptions):
    """What is kept of the models, and how safely."""

    snapshot_every: int = option(
        1_000,
        "Events of a model between snapshots: fewer make it open quicker. Default: 1000.",
        metavar="EVENTS",
        min=1,
    )


def fleet(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE",
            help="The URL of a PostgreSQL database, which several processes may serve, or a file for one process.",
        ),
    ],
    *,
    graph: options.GraphName = None,
    preset: options.GraphOptions,
    columns: options.ColumnOptions,
    models: FleetOptions,
    memory: options.Memory = None,
    seed: options.Seed = None,
    limits: options.LimitOptions,
    storage: FleetStorageOptions,
    server: ServerOptions,
    alpha: options.Alpha = ALPHA,
) -> None:
    """Serve all models of a database over HTTP: one for each customer, for example.

    With --graph new ones may be made: they are as the options of the graph, of columns and features, the seed and the
    memory say. Limits and storage are those of all models.
    """
    try:
        from gappletron.online.shared import Shared
        from gappletron.service.fleet import Fleet, FleetService
        from gappletron.service.serving import bind_socket
    except ImportError as error:
        raise UserError(
            f"the service needs {error.name}: pip install '.[serve]' in a clone of the repository"
        ) from None

    set_log_level(server)
    tokens = read_access(server)
    if models.address is not None and not models.address.startswith(("http://", "https://")):
        raise UserError(f"--address {models.address!r} is not the address of a server: write http://host:port")
    if models.address is None and server.host in ("0.0.0.0", "::") and store.startswith(URLS):
        raise UserError(f"the host {server.host!r} is no address that others can be sent to: give --address as well")
    own = given_options(seed=seed, memory=memory, learner=models.learner, max_features=models.max_features)
    new = {**make_rows(models.vectors, columns), **own}
    if graph is not None:
        new = {"encoder": gp.Encoder(), "graph": make_graph(graph, preset), **new}
        if models.vectors:
            del new["encoder"]
    elif new or given_options(preset):
        raise UserError("options of new models were given, and none can be made without a graph: give --graph as well")
    known = {**new, **limits.parse(), **given_options(**vars(storage))}
    with bind_socket(server.host, server.port) as listening:
        with progress("opening"):
            shared = Shared(store, storage.durability, models.address or make_address(listening, server))
            hosting = {"max_waiting": models.max_waiting, "alpha": alpha}
            found = Fleet(shared, known, makes=graph is not None, most_bytes=models.model_memory, hosting=hosting)
            found.warm_up()
        run(FleetService(found, tokens, server.max_body, logs_access=server.access_log), listening, server, "a fleet")

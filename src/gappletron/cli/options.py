"""The options that commands share: each is declared once, with its help.

A command declares groups of options as parameters; :func:`take_groups` lets Typer see their fields. An option that
stands alone is a type. Options of a model (seed, limits, ...) have the names and the help of
:class:`gappletron.play.options.Options`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer

import gappletron as gp
from gappletron.base.errors import UserError
from gappletron.base.progress import progress
from gappletron.base.text import read_classes, split_settings, unknown
from gappletron.cli.output import tell
from gappletron.graphs.presets import PRESETS
from gappletron.play.options import Options

KINDS = ("text", "numeric", "categorical", "drop")
GRAPHS = f"{', '.join(PRESETS)}, or a FILE.json"
ALPHA = 0.05

# The groups of options in a help.
DATA, GRAPH, LEARNER, RESULTS = "Data", "Graph", "Learner", "Results"


def option(default: Any, help: str, *names: str, title: str | None = None, **settings: Any) -> Any:
    """Declare an option of the command line: a field of a group, whose title heads it in the help unless another is
    given.
    """
    declared = typer.Option(*names, help=help, **settings)
    return dataclasses.field(default=default, metadata={"option": declared, "title": title})


def model_option(name: str, more: str = "", default: Any = None, **settings: Any) -> Any:
    """Declare an option of a model, which is not given by default."""
    return option(default, f"{Options.help(name)}{more}", **settings)


def column_option(help: str) -> Any:
    """Declare an option that names columns of a table."""
    return option(None, f"Tables: {help}; repeatable.", metavar="COLUMN")


def take_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer: each parameter that is a group of options is replaced by the group's fields.

    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: int = option(3, "How wide.")
    >>> def draw(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> draw.__annotations__ = {"name": str, "size": Size}
    >>> take_groups(draw)(name="box", width=4)
    box Size(width=4)
    """
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        if not dataclasses.is_dataclass(group):
            kind, *rest = get_args(group) or (group,)
            parameters.append(keyword.replace(annotation=_show(kind, rest[0]) if rest else group))
            continue
        groups[parameter.name] = group
        types = get_type_hints(group)
        for field in dataclasses.fields(group):
            shown = keyword.replace(name=field.name, default=field.default)
            title = field.metadata.get("title") or getattr(group, "title", None)
            parameters.append(shown.replace(annotation=_show(types[field.name], field.metadata["option"], title)))

    @functools.wraps(command)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _show(kind: Any, declared: Any, title: str | None = None) -> Any:
    """Return the annotation of an option: in the group of its help, and with a word in place of the type."""
    shown = copy.copy(declared)
    shown.rich_help_panel = shown.rich_help_panel or title
    kinds = set(get_args(kind) or (kind,))
    if shown.metavar is None and bool not in kinds:
        shown.metavar = "NUMBER" if kinds & {int, float} else "PATH" if Path in kinds else "NAME"
    return Annotated[kind, shown]


def given_options(*groups: Any, **single: Any) -> dict[str, Any]:
    """Return the options of these groups that were given, and single ones that are not None, by their names."""
    given = {name: value for name, value in single.items() if value is not None}
    for group in groups:
        for field in dataclasses.fields(group):
            if getattr(group, field.name) != field.default:
                given[field.name] = getattr(group, field.name)
    return given


# ------------------------------------------------------------------------------------------------------- single options


PlaceArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="What Online.open or gappletron serve writes to: a file, or a URL.")
]
ModelName = Annotated[str, typer.Option("--name", help="Which model of the store.", rich_help_panel="Store")]
RowsArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A file of the kind that the model was made from; '-' for a pipe.")
]
Seed = Annotated[int | None, typer.Option(help=Options.help("seed"), rich_help_panel=LEARNER)]
Memory = Annotated[
    int | None, typer.Option(help=Options.help("memory"), metavar="ROUNDS", min=1, rich_help_panel=LEARNER)
]
Learners = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LEARNER",
        rich_help_panel=LEARNER,
        help="A learner (see `gappletron learners`), with parameters as in banditron:gamma=0.1; repeatable. Default: "
        "auto.",
    ),
]
Alpha = Annotated[
    float,
    typer.Option(
        help="Intervals of estimates have the confidence 1 - alpha. Default: 0.05.",
        min=0.0,
        max=0.5,
        rich_help_panel=RESULTS,
    ),
]
JsonPath = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="PATH",
        help="Write all results to this file; - for the standard output.",
        rich_help_panel=RESULTS,
    ),
]
PlotPath = Annotated[
    Path | None, typer.Option(help="Draw it: PNG, SVG or PDF.", metavar="PATH", rich_help_panel=RESULTS)
]
Results = Annotated[
    Path,
    typer.Option(
        help="The folder of `gappletron reproduce`. Default: results.", metavar="DIR", rich_help_panel=RESULTS
    ),
]


# ---------------------------------------------------------------------------------------------------------------- data


@dataclass(frozen=True)
class TableOptions:
    """What a file is."""

    title: ClassVar[str] = DATA
    label: str | None = option(None, "Tables: the column of the labels.", metavar="COLUMN")
    format: str | None = option(
        None,
        "csv, tsv, jsonl, parquet, vw or svmlight. Default: by the end of the file's name, or by its first line.",
        metavar="FORMAT",
    )
    columns: str | None = option(None, "CSV and TSV without a header: the names, as in label,message.", metavar="NAMES")
    scores: list[str] | None = option(
        None,
        "Tables: the column that holds your own model's score of a class, as in ham=p_ham; once for each class. It is "
        "no feature.",
        metavar="CLASS=COLUMN",
    )

    @property
    def column_names(self) -> list[str] | None:
        """The names of the columns, where they were given."""
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]

    @property
    def score_columns(self) -> dict[str, str] | None:
        """The columns of the scores by their classes, where they were given."""
        found: dict[str, str] = {}
        for text in self.scores or ():
            name, equals, column = text.partition("=")
            if not equals or not column or name in found:
                raise UserError(f"--scores {text} is not of the form CLASS=COLUMN, once for each class: correct it")
            found[name] = column
        return found or None


@dataclass(frozen=True)
class ColumnOptions:
    """What the columns of a table, or of records, are, and how many features come of them."""

    title: ClassVar[str] = DATA
    text: list[str] | None = column_option("a column of text, whose words are features")
    numeric: list[str] | None = column_option("a column of numbers")
    categorical: list[str] | None = column_option("a column of categories, also where they are numbers")
    drop: list[str] | None = column_option("a column to ignore")
    features: int | None = option(
        None,
        "svmlight: the number of features, which replaces a scan of the file. Tables and records: hash into this many "
        "places; by default no two values share one. Vectors of a service: by default as many as come.",
    )
    names: bool = option(
        False,
        "Tables and records: keep the names of columns, categories and words, for `gappletron weights`.",
        "--names",
    )

    @property
    def kinds(self) -> dict[str, Any]:
        """The columns that were named, by their kinds."""
        return {kind: names for kind in KINDS if (names := getattr(self, kind))}


@dataclass(frozen=True)
class DataOptions(ColumnOptions, TableOptions):
    """All that can be said of data that is played or taught."""

    def open(
        self,
        data: str,
        classes: str | None,
        model: gp.Online | None = None,
        *,
        max_norm: float | None = None,
        rounds: int | None = None,
    ) -> gp.Stream:
        """Return the stream, ready to be played; with a model, encoded as the model does it."""
        encoder, features, kinds = None if model is None else model.encoder, self.features, self.kinds
        if encoder is not None and (kinds or features or self.names):
            raise UserError(
                "the model has its own columns: omit --text, --numeric, --categorical, --drop, --features and --names"
            )
        stream = gp.open_stream(
            data,
            label=self.label,
            format=self.format,
            columns=self.column_names,
            scores=self.score_columns,
            encoder=encoder,
            features=model.features if model is not None and encoder is None and features is None else features,
            classes=None if classes is None else classes.split(","),
            max_norm=max_norm,
            rounds=rounds,
            names=self.names,
            **kinds,
        )
        with progress("reading") as show:
            stream.prepare(show)
        if model is not None and encoder is None and stream.encoder is not None:
            raise UserError(
                f"{stream.name} is a table, and the model was made without an encoder: it takes svmlight files, or "
                "rows of numbers in Python"
            )
        if model is not None and encoder is not None:
            model.encoder = stream.encoder  # columns that are new have a kind from now on
        if stream.encoder is not None:
            tell_columns(stream.encoder, stream.label, self.score_columns or {})
        return stream


def tell_columns(encoder: gp.Encoder, label: str | None, scores: dict[Any, str]) -> None:
    """Say, on the standard error, what the columns of a table were taken for."""
    parts = [f"label: {label}"] if label in encoder.drop else []
    if scores:
        parts.append(f"scores: {', '.join(f'{column} ({name})' for name, column in scores.items())}")
    for kind in KINDS:
        names = [name for name in getattr(encoder, kind) if name not in (label, *scores.values())]
        if names:
            parts.append(f"{kind}: {', '.join(names)}")
    if parts:
        tell(f"columns: {'; '.join(parts)}")


# --------------------------------------------------------------------------------------------------------------- graphs


GraphName = Annotated[
    str | None,
    typer.Option(
        help=f"What is seen after which action: {GRAPHS}; the revealing class as in filtering:revealing=ham.",
        metavar="GRAPH",
        rich_help_panel=GRAPH,
    ),
]


def read_preset(graph: str, classes: str | None = None, revealing: str | None = None) -> gp.FeedbackGraph:
    """Return the graph of a name or a file; a preset without classes gets 4, or as many as it is for."""
    from gappletron.graphs.open import open_graph

    if graph.endswith(".json") and classes:
        raise UserError("--classes is only for presets, and a file has its own classes: omit it")
    preset = PRESETS.get(graph.partition(":")[0])
    default = 4 if preset is None or preset.n_classes is None else preset.n_classes
    return open_graph(graph, read_classes(classes or str(default)), revealing)


@dataclass(frozen=True)
class PresetOptions:
    """What a preset needs to know."""

    title: ClassVar[str] = GRAPH
    classes: str | None = option(
        None,
        "The labels, as in ham,spam; they replace a scan of the file. For a preset a number will do.",
        metavar="NAMES",
    )
    revealing: str | None = option(
        None, "Filtering and apple tasting: the class that reveals. Default: the first of --classes.", metavar="CLASS"
    )

    def check(self, graph: str | None) -> None:
        """Raise UserError for a graph that cannot be opened, whatever the data are."""
        if graph is None or graph.endswith(".json"):
            return
        name, _ = split_settings(graph)
        if name not in PRESETS:
            raise unknown(name, "graph", [*PRESETS, "FILE.json"])

    def open_alone(self, graph: str) -> gp.FeedbackGraph:
        """Return the graph of a command without a stream."""
        return read_preset(graph, self.classes, self.revealing)


@dataclass(frozen=True)
class GraphOptions(PresetOptions):
    """What a preset needs to know, and what actions cost."""

    cost: list[str] | None = option(
        None,
        "What an action costs at a label, as in spam,ham=10; * for every class; repeatable.",
        metavar="ACTION,CLASS=NUMBER",
    )

    def add_costs(self, graph: gp.FeedbackGraph) -> gp.FeedbackGraph:
        """Return the graph with these costs, in addition to those of its file."""
        from gappletron.graphs.open import read_costs

        entries = [entry for text in self.cost or () for entry in read_costs(text, graph.actions, graph.classes)]
        return graph.with_costs(entries) if entries else graph

    def check(self, graph: str | None) -> None:
        """Raise UserError for a graph that cannot be opened, whatever the data are."""
        super().check(graph)
        names = (self.classes or "").split(",")
        if len(names) > 1 and not (graph or "").endswith(".json"):
            from gappletron.graphs.open import open_graph

            self.add_costs(open_graph(graph or "bandit", names, self.revealing))

    def open(self, graph: str | None, stream: gp.Stream) -> gp.FeedbackGraph:
        """Return the graph for a stream that is played or taught."""
        from gappletron.graphs.open import open_graph

        known = stream.classes_given
        return self.add_costs(open_graph(graph or "bandit", stream.classes, self.revealing, classes_given=known))


# --------------------------------------------------------------------------------------------------------------- models


@dataclass(frozen=True)
class LimitOptions:
    """How much may be explored."""

    title: ClassVar[str] = "Limits on exploration"
    min_propensity: float | None = model_option("min_propensity")
    budget: str | None = model_option(
        "budget",
        " Written as 50/1000 (decisions), 50/hour or 50/day; none takes that of a stored model away. A query costs 1; "
        "without queries every action that is not the greedy class.",
        metavar="LIMIT/WINDOW",
    )

    def parse(self) -> dict[str, Any]:
        """Return the limits that were given, as options of a model."""
        given = given_options(self)
        if self.budget is None:
            return given
        return {**given, "budget": None if self.budget == "none" else gp.Budget.parse(self.budget)}


def load_model(path: Path, given: dict[str, Any]) -> gp.Online:
    """Return a saved model; options that it has values for cannot be given again."""
    refused = [name.replace("_", "-") for name in given if name != "classes"]
    if refused:
        raise UserError(f"--{refused[0]} was given, and the model of {str(path)!r} has its own: omit it")
    return gp.Online.load(path)

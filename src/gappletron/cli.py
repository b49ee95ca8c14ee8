"""The command line: ``gappletron reproduce``, ``export``, ``run``, ``graph``, ``learners``, ``bound`` and ``demo``.

This module reads options and shows results; what it runs is the library's public interface. Tables go to the standard
output, progress and errors to the standard error; an error of the user's is one sentence and exit code 2.
"""

from __future__ import annotations

import difflib
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gappletron import __version__
from gappletron._validate import Label, UserError, listing, shortened, unknown
from gappletron.progress import progress, sweep_view

if TYPE_CHECKING:
    from gappletron.graphs import FeedbackGraph
    from gappletron.history import Histories
    from gappletron.learners.gappletron import Gappletron
    from gappletron.learners.learner import Learner
    from gappletron.runs import Runs
    from gappletron.streams.stream import Stream
    from gappletron.theory import Bound

INTERRUPTED = 130
USAGE_ERROR: Any = typer.BadParameter.__mro__[
    1
]  # click's UsageError, which some versions of typer carry inside themselves

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Online classification when what you see depends on what you predict.",
)


def main() -> None:
    """What the ``gappletron`` command runs."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name need not fit the terminal's encoding
    try:
        sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except UserError as error:
        typer.echo(f"gappletron: {' '.join(str(error).splitlines())}", err=True)
        sys.exit(2)
    except USAGE_ERROR as error:
        typer.echo(
            f"gappletron: {' '.join(error.format_message().split()).rstrip('.')}: see {_help_of(error)}", err=True
        )
        sys.exit(2)
    except typer.Abort:
        typer.echo("stopped before anything was measured", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        sys.exit(0)


def _help_of(error: Any) -> str:
    """The page of help that a usage error is about."""
    return f"{error.ctx.command_path if error.ctx is not None else 'gappletron'} --help"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gappletron {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""


# ---------------------------------------------------------------------------------------------------------------- paper


@app.command()
def reproduce(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for results.sqlite, results.csv, figures/ and report.html.")
    ] = Path("results"),
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Only this figure or sweep, such as bandit-theory or lower-full; can be repeated. Default: all.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="The number of rounds T; the paper does not give it.")] = 100_000,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Runs of each randomized learner. Default: 10 as in the paper, 20 and 40 against the adversaries."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at the same time. Default: one per core.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Run on the Dask cluster of the scheduler at this address, such as tcp://127.0.0.1:8786.",
        ),
    ] = None,
) -> None:
    """Run the paper's experiments: figures, claims, bounds and lower bounds.

    Finished runs are stored; after an interruption the same command continues.
    """
    import contextlib

    from gappletron.experiments.reproduce import carry_out, planned

    plan = planned(figure or (), rounds, repeats)  # errors in the options come before the connection to a cluster
    try:
        with contextlib.ExitStack() as stack:
            executor = in_flight = None
            if scheduler is not None:
                from gappletron.experiments.cluster import dask_executor

                executor, in_flight = stack.enter_context(
                    dask_executor(scheduler, lambda line: typer.echo(line, err=True))
                )
            view = stack.enter_context(sweep_view())
            done = carry_out(
                plan,
                out,
                jobs=jobs,
                executor=executor,
                in_flight=in_flight if jobs is None else None,
                view=view,
            )
    except KeyboardInterrupt:
        typer.echo(
            f"stopped: the finished runs are stored in {out}, and the same command continues from there", err=True
        )
        raise typer.Exit(INTERRUPTED) from None
    if done.verdicts:
        held = sum(verdict.holds for verdict in done.verdicts)
        typer.echo(f"{held} of {len(done.verdicts)} claims hold")
    typer.echo(f"{len(done.results):,} runs; the report is {out / 'report.html'}")


@app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; its name ends in .csv or .parquet.")],
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder of `gappletron reproduce`.")] = Path(
        "results"
    ),
) -> None:
    """Write all stored runs as a CSV or Parquet table."""
    from gappletron._files import check_writable
    from gappletron.experiments.store import read_results, table_kind, write_table

    table_kind(file)
    check_writable(file)
    runs = read_results(results)
    write_table(runs, file)
    typer.echo(f"{len(runs):,} runs in {file}")


# ------------------------------------------------------------------------------------------------------------------ run


@app.command()
def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A svmlight file (plain or gzip), '-' for a pipe, 'digits', or "
            "'synthetic:K=9,d=120,noise=0.05,T=100000,seed=0'.",
        ),
    ],
    graph: Annotated[
        str,
        typer.Option(
            help="bandit, full, filtering, label-efficient, apple-tasting, disease-prevention, or a FILE.json."
        ),
    ] = "bandit",
    revealing: Annotated[
        str | None, typer.Option(help="Filtering: the class that reveals. Default: the first.")
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help="A learner (see `gappletron learners`), with numbers of your own as "
            "in banditron:gamma=0.1; repeatable. Default: gapsmh."
        ),
    ] = None,
    exploration: Annotated[
        str | None,
        typer.Option(
            help="Gappletron's: top-up (default: the least that shows every "
            "label often enough), or paper (Algorithm 1 to the letter)."
        ),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(help="The exploration parameter of all that explore. Gappletron's: 1.")
    ] = None,
    tuning: Annotated[
        str | None,
        typer.Option(
            help="Set the parameters from the data: theory or only-t for every learner; for "
            "Gappletron also expectation, expectation-separable, high-probability, "
            "high-probability-separable."
        ),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            help="Gappletron's: adaptive-ogd (default), projected-ogd, fixed-ogd, "
            "ada-grad or scale-free-ftrl; numbers as in "
            "projected-ogd:radius=5."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each learner, on the same data.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the learners' randomness.")] = 0,
    rounds: Annotated[int | None, typer.Option(help="Play only the first so many.")] = None,
    normalize: Annotated[str, typer.Option(help="Rows of raw data: none, unit, or log1p-unit (for counts).")] = "none",
    bias: Annotated[bool, typer.Option("--bias", help="Add a feature that is always 1.")] = False,
    features: Annotated[int | None, typer.Option(help="The number of features, instead of a scan of the file.")] = None,
    classes: Annotated[str | None, typer.Option(help="The labels, as in 0,1,2, instead of a scan of the file.")] = None,
    max_norm: Annotated[
        float | None, typer.Option(help="The largest norm of a row, instead of a scan of the file.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads. Default: one a core.")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write every run to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Draw the error curves: PNG, SVG or PDF.")] = None,
) -> None:
    """Play a stream with one learner or several, and show the mistakes."""
    from gappletron.runs import Runs
    from gappletron.streams import open_stream

    if gamma is not None and tuning is not None:
        raise UserError("--gamma and --tuning were both given, and both set gamma: give one of them")
    _check_outputs(json_path, plot, inputs=(data, graph))
    learners = _configured(learner or ["gapsmh"], exploration, optimizer, gamma, tuning)
    stream = open_stream(
        data,
        features=features,
        classes=None if classes is None else classes.split(","),
        max_norm=max_norm,
        rounds=rounds,
        normalize=normalize,
        bias=bias,
    )
    with progress("reading") as show:
        stream.prepare(show)
    feedback = _graph(graph, stream.classes, revealing)
    learners = {name: _tuned(learner, tuning, feedback, stream) for name, learner in learners.items()}
    with progress("compiling"):
        runs = Runs(learners, stream, feedback, repeats=repeats, seed=seed, jobs=jobs)
    outcome = _played(runs)
    histories = runs.histories()
    typer.echo(_table(histories))
    if json_path is not None:
        _write_json(json_path, runs, histories)
    if plot is not None:
        histories.plot(plot)
    if isinstance(outcome, UserError):
        raise outcome
    if outcome is not None:
        raise typer.Exit(INTERRUPTED)


def _check_outputs(json_path: Path | None, plot: Path | None, inputs: tuple[str, ...] = ()) -> None:
    """Refuse what could not be written, or would destroy an input, before anything is played."""
    from gappletron._files import check_writable, figure_kind

    if plot is not None:
        figure_kind(plot)
    for path in (json_path, plot):
        if path is not None:
            check_writable(path)
            if any(_same_file(path, name) for name in inputs):
                raise UserError(f"{str(path)!r} is read and would be written over: name another file for the result")
    if json_path is not None and plot is not None and json_path.resolve() == plot.resolve():
        raise UserError(f"--json and --plot both name {str(plot)!r}: name two files")


def _same_file(path: Path, name: str) -> bool:
    try:
        return path.is_file() and path.samefile(name)
    except (OSError, ValueError):  # the name need not be that of a file
        return False


def _played(runs: Runs) -> UserError | KeyboardInterrupt | None:
    """Play to the end, or as far as the stream and the user's patience go; what was measured stays in `runs`."""
    try:
        with progress("playing") as show:
            for played in runs:
                show(played, runs.stream.rounds)
    except KeyboardInterrupt as stop:
        rounds = min(run.rounds for run in runs.histories())
        typer.echo(f"stopped: what follows is what was measured, {rounds:,} rounds", err=True)
        return stop
    except UserError as error:
        if not any(run.rounds for run in runs.histories()):
            raise
        return error
    return None


def _graph(name: str, classes: tuple[Label, ...], revealing: str | None) -> FeedbackGraph:
    from gappletron.graphs import FeedbackGraph

    if name.endswith(".json"):
        if revealing is not None:
            raise UserError("--revealing goes with a preset, and a file says itself what reveals: leave it out")
        return FeedbackGraph.from_json(name)
    return FeedbackGraph.preset(name, classes, None if revealing is None else _by_text(revealing, classes))


def _by_text(text: str, classes: tuple[Label, ...]) -> Label:
    """The class that a user means who can only type text."""
    for name in classes:
        if str(name) == text:
            return name
    raise unknown(text, "class", [str(name) for name in classes])


def _configured(
    names: list[str], exploration: str | None, optimizer: str | None, gamma: float | None, tuning: str | None
) -> dict[str, Learner]:
    """The learners as the options ask for them, each option for those that have such a part; a tuning waits for the
    data.
    """
    from gappletron._dispatch import parsed
    from gappletron.exploration import Paper, TopUp
    from gappletron.learners import named
    from gappletron.learners.gappletron import Gappletron
    from gappletron.optimizers import Optimizer

    rules = {"top-up": TopUp(), "paper": Paper()}
    changes: dict[str, Any] = {}
    if exploration is not None:
        if exploration not in rules:
            raise unknown(exploration, "exploration rule", list(rules))
        changes["exploration"] = rules[exploration]
    if optimizer is not None:
        changes["optimizer"] = parsed(Optimizer, optimizer, "optimizer")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"--learner {twice[0]} was given twice: name it once, and use --repeats for more runs of it")
    learners = [named(name) for name in names]
    if changes and not any(isinstance(learner, Gappletron) for learner in learners):
        raise UserError(
            f"--{next(iter(changes))} is for the Gappletrons, and none plays: leave it out, or add --learner gapsmh"
        )
    learners = [learner._replace(**changes) if isinstance(learner, Gappletron) else learner for learner in learners]
    if gamma is not None:
        if not any(learner.has_gamma for learner in learners):
            raise UserError(f"--gamma was given, and none of {listing(names)} explores: leave it out")
        learners = [learner.with_gamma(gamma) if learner.has_gamma else learner for learner in learners]
    for learner in learners:
        if tuning is not None and tuning not in learner.tunings:
            raise unknown(tuning, f"tuning of {learner.name}", learner.tunings)
    return dict(zip(names, learners, strict=True))


def _tuned(learner: Learner, tuning: str | None, graph: FeedbackGraph, stream: Stream) -> Learner:
    from gappletron.tuning import tuned

    if tuning is None:
        return learner
    return tuned(learner, tuning, graph, rounds=stream.rounds, features=stream.features, max_norm=stream.max_norm)


def _table(histories: Histories) -> str:
    """The runs as a table: drawn with lines on a terminal, plain text elsewhere."""
    if not sys.stdout.isatty():
        return str(histories)
    from rich.console import Console
    from rich.table import Table

    from gappletron.history import HEADER

    table = Table(title=histories.title, title_justify="left", title_style="bold")
    for column in HEADER:
        table.add_column(column, justify="left" if column == HEADER[0] else "right")
    for row in histories.rows():
        table.add_row(*row)
    console = Console()
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip("\n")


def _write_json(path: Path, runs: Runs, histories: Histories) -> None:
    from gappletron import _files

    with _files.replacing(path) as file:
        file.write(json.dumps(document(runs, histories), indent=2, allow_nan=False).encode() + b"\n")


def document(runs: Runs, histories: Histories) -> dict[str, Any]:
    """What ``--json`` writes."""
    from gappletron._dispatch import json_ready, spelled

    graph = runs.graph
    return {
        "version": __version__,
        "data": {
            "name": runs.stream.name,
            "rounds": max(run.rounds for run in histories),
            "features": int(runs.stream.features),
            "classes": len(runs.stream.classes),
        },
        "graph": {
            "name": graph.name,
            "actions": graph.n_actions,
            "classes": graph.n_classes,
            "revealing": list(graph.revealing),
            "dominating_set": list(graph.dominating_set),
            "rho": graph.rho,
        },
        "runs": [
            {
                "learner": run.name,
                "repeat": run.repeat,
                "seed": run.seed,
                "parameters": json_ready(spelled(run.learner)),
                "rounds": run.rounds,
                "mistakes": run.mistakes,
                "error_rate": run.error_rate,
                "labels_seen": run.labels_seen,
                "seconds": run.seconds,
            }
            for run in histories
        ],
    }


# ------------------------------------------------------------------------------------------------------- other commands


def _named_graph(graph: str, classes: str, revealing: str | None) -> FeedbackGraph:
    """The graph of a command that has no stream to take the classes from."""
    from gappletron.graphs import FeedbackGraph

    if graph.endswith(".json") and classes:
        raise UserError("--classes goes with a preset, and a file names its own: leave it out")
    given = classes or ("2" if graph == "apple-tasting" else "4")
    labels: tuple[Label, ...] = tuple(given.split(","))
    if given.isascii() and given.isdigit():
        if len(given) > 5 or not 2 <= int(given) <= 10_000:
            raise UserError(f"--classes {shortened(given)} is not a number of classes: choose 2 to 10000")
        labels = tuple(range(int(given)))
    if not graph.endswith(".json") and graph not in FeedbackGraph.PRESETS:
        raise unknown(graph, "graph", [*FeedbackGraph.PRESETS, "FILE.json"])
    return _graph(graph, labels, revealing)


@app.command("graph")
def explain_graph(
    graph: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE",
            help="bandit, full, filtering, label-efficient, apple-tasting, disease-prevention, or a FILE.json.",
        ),
    ],
    classes: Annotated[str, typer.Option(help="For a preset: how many classes, or their names as in spam,ham.")] = "",
    revealing: Annotated[
        str | None, typer.Option(help="Filtering: the class that reveals. Default: the first.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Draw it: PNG, SVG or PDF.")] = None,
) -> None:
    """Explain a feedback graph in words and numbers, and draw it."""
    _check_outputs(None, plot, inputs=(graph,))
    feedback = _named_graph(graph, classes, revealing)
    typer.echo(feedback.describe())
    typer.echo()
    typer.echo(feedback.as_text())
    if plot is not None:
        feedback.draw(plot)
        typer.echo(f"\ndrawn into {plot}")


@app.command("learners")
def list_learners() -> None:
    """List every learner: its name, its kind of feedback, its parameters, where it comes from."""
    from gappletron.learners import named, names

    for name in names():
        learner = named(name)
        typer.echo(
            f"{name}\n    feedback    {learner.setting}\n    parameters  {_parameters(learner)}\n"
            f"    reference   {learner.reference}"
        )


def _parameters(learner: Learner) -> str:
    """The fields with their default values."""
    return (
        ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in learner._asdict().items()
        )
        or "none"
    )


@app.command("bound")
def show_bounds(
    learner: Annotated[
        str | None, typer.Argument(metavar="[LEARNER]", help="A Gappletron: gapsmh, gaphin, gaplog2, gaplog.")
    ] = None,
    graph: Annotated[str, typer.Option(help="A preset, or a FILE.json.")] = "bandit",
    classes: Annotated[
        str,
        typer.Option(
            help="For a preset: how many classes, or their names as in spam,ham. Default: 4 (2 for apple-tasting)."
        ),
    ] = "",
    revealing: Annotated[
        str | None, typer.Option(help="Filtering: the class that reveals. Default: the first.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="T.")] = 100_000,
    max_norm: Annotated[float, typer.Option(help="X, the largest norm of the features.")] = 1.0,
    radius: Annotated[
        float | None,
        typer.Option(
            help="B, the radius of the ball in which weights are sought. Default: 1, or "
            "that of the stored run's optimizer."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="The allowed probability of failure.")] = 0.05,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="ID",
            help="A stored run, by its id in results.csv: its own numbers, its best comparator, its surrogate regret.",
        ),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder that holds the stored run.")] = Path(
        "results"
    ),
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A stored run: draw its mistakes with the bounds over them.")
    ] = None,
) -> None:
    """Print the right-hand side of every theorem of the paper: each for the gamma it is proved with, or for a stored
    run.
    """
    if (learner is None) == (run is None):
        raise UserError("name either a learner, as in `gappletron bound gapsmh`, or a stored run with --run ID")
    if run is not None:
        if (graph, classes, revealing, rounds, max_norm) != ("bandit", "", None, 100_000, 1.0):
            raise UserError(
                "a stored run has its own graph, rounds and norm: with --run give only --results, --radius, "
                "--delta and --plot"
            )
        _show_bounds_of_run(run, results, radius, delta, plot)
        return
    if plot is not None:
        raise UserError("--plot draws a stored run: name one with --run ID")
    from gappletron.learners import named
    from gappletron.learners.gappletron import Gappletron
    from gappletron.optimizers import ProjectedOGD
    from gappletron.theory import THEOREMS, bounds
    from gappletron.tuning import tuned

    feedback = _named_graph(graph, classes, revealing)
    chosen = named(learner or "")
    if not isinstance(chosen, Gappletron):
        raise UserError(
            f"the theorems are about Gappletron, and {learner!r} is another learner: choose for example 'gapsmh'"
        )
    projected = chosen._replace(optimizer=ProjectedOGD(1.0 if radius is None else radius))
    numbers = f"T = {rounds:,}, X = {max_norm:g}, delta = {delta:g}"
    lines = [
        f"{projected.loss!r} with {projected.optimizer!r} on {feedback}, {numbers}",
        _constants(projected, feedback, max_norm),
    ]
    for position, theorem in enumerate(THEOREMS):
        player = (
            tuned(projected, theorem.tuning, feedback, max_norm=max_norm, delta=delta) if theorem.tuning else projected
        )
        bound = bounds(player, feedback, rounds=rounds, max_norm=max_norm, delta=delta)[position]
        lines.append(_bound_line(bound, f"{f'gamma = {player.exploration.gamma:.4g}' if theorem.tuning else '':16} "))
    typer.echo("\n".join(lines))


def _constants(learner: Gappletron, graph: FeedbackGraph, max_norm: float) -> str:
    """The letters of the theorems on a problem."""
    from gappletron.learners.gappletron import constants
    from gappletron.learners.learner import Problem

    c = constants(learner, Problem(graph, max_norm=max_norm))
    return (
        f"constants: K = {graph.n_classes}, K' = {c.K:g}, rho = {c.rho}, Q = {max(1, len(graph.revealing_classes))}, "
        f"L = {c.L:.4g}, h = {c.h:.4g}, lmax = {c.lmax:.4g}"
    )


def _bound_line(bound: Bound, gamma: str = "") -> str:
    what = f"does not apply: it {bound.refusal}" if bound.refusal else f"{bound.statement}, value = {bound.value:,.1f}"
    return f"{bound.theorem:32} {gamma}{what}"


def _show_bounds_of_run(run: str, results: Path, radius: float | None, delta: float, plot: Path | None) -> None:
    from gappletron.experiments.runner import graph_of
    from gappletron.experiments.store import read_results
    from gappletron.experiments.theorems import examined

    _check_outputs(None, plot)
    stored = {result.task.id: result for result in read_results(results)}
    if not stored:
        raise UserError(f"no run in {str(results)!r} is finished: run `gappletron reproduce --out {results}` first")
    if run not in stored:
        begun = [name for name in stored if name.startswith(run)]
        near = begun[:1] or difflib.get_close_matches(run, stored, n=1, cutoff=0.0)
        raise UserError(
            f"there is no stored run {run!r}; the closest id is {near[0]!r}: all ids are in "
            f"{str(results / 'results.csv')!r}"
        )
    with progress("comparing") as show:
        found = examined(stored[run], radius, delta, show)
    task, outcome, graph = stored[run].task, stored[run].outcome, graph_of(stored[run].task)
    typer.echo(
        f"{run}\n{found.learner!r}\non {graph}, T = {task.rounds:,}, n = {outcome.blind_rounds:,}, "
        f"X = {outcome.max_norm:.4g}, delta = {delta:g}, sum l_t(W_t) = {outcome.loss_sum:,.1f}\n"
        f"{_constants(found.learner, graph, outcome.max_norm)}\n"
        f"best comparator with norm at most {found.radius:g} (--radius sets another): loss "
        f"{found.comparator.loss:,.1f} "
        f"(the minimum is at most {found.comparator.gap:,.1f} lower)\n"
        f"mistakes {outcome.mistakes:,}, surrogate regret {found.regret:,.1f}"
    )
    for bound in found.bounds:
        typer.echo(_bound_line(bound))
    if plot is not None:
        from gappletron._files import save_figure
        from gappletron.experiments.theorem_figures import mistakes_and_bounds

        save_figure(mistakes_and_bounds(found), plot)


DEMO = {
    "bandit": "you learn whether your guess was right",
    "filtering": "only the first class shows the label",
    "label-efficient": "a label costs a round",
    "full": "every label is shown",
}


@app.command()
def demo(
    rounds: Annotated[int, typer.Option(help="Rounds of the paper's synthetic stream.")] = 100_000,
    repeats: Annotated[int, typer.Option(help="Runs of each learner.")] = 5,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the plot goes.")] = Path("demo"),
) -> None:
    """Play four feedback graphs with the three Gappletrons of the paper, and draw the error curves."""
    from matplotlib.figure import Figure

    from gappletron._files import cannot_write, check_writable, save_figure
    from gappletron.runs import Runs

    data = f"synthetic:K=9,d=120,noise=0.05,T={rounds},seed=0"
    picture = out / "error-curves.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(picture, error.strerror or str(error)) from None
    check_writable(picture)
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for (preset, what), ax in zip(DEMO.items(), panels, strict=True):
        with progress("compiling"):
            runs = Runs(["gaplog", "gaphin", "gapsmh"], data, preset, repeats=repeats)
        outcome = _played(runs)
        histories = runs.histories()
        typer.echo(_table(histories) + "\n")
        if outcome is not None:
            raise typer.Exit(INTERRUPTED)
        histories.plot(ax=ax)
        ax.set_title(f"{preset}: {what}", fontsize=10)
    figure.suptitle(f"Gappletron on {data}: mean of {repeats} runs, band from least to most")
    save_figure(figure, picture)
    typer.echo(f"The error curves are drawn in {picture}")


if __name__ == "__main__":
    main()

"""Drawings of feedback graphs: nodes and arrows, the matrix of a large graph, or a summary of a very large one."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from gappletron.base import files
from gappletron.base.checks import Label
from gappletron.base.text import shorten
from gappletron.graphs.graph import FeedbackGraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A graph with more nodes or arrows than this is drawn as its matrix.
DRAWN_ACTIONS, DRAWN_EDGES, DRAWN_EXTRA = 24, 100, 6

# A graph with more actions than the first is drawn as a summary, with at most as many rows as the second.
MATRIX_ROWS, SUMMARY_ROWS = 1000, 500

# Okabe and Ito, and two greys.
_BLUE, _SKY, _ORANGE, _VERMILLION = "#0072B2", "#56B4E9", "#E69F00", "#D55E00"
_GREY, _PALE = "#555555", "#f2f2f2"


def draw(graph: FeedbackGraph, path: str | os.PathLike[str] | None, ax: Axes | None) -> Figure:
    """Draw the figure of :meth:`FeedbackGraph.draw`."""
    if path is not None:
        files.figure_kind(path)
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(6.4, 6.4), layout="constrained").add_subplot()
    extra = graph.n_actions - graph.n_classes
    if graph.n_actions <= DRAWN_ACTIONS and graph.n_edges <= DRAWN_EDGES and extra <= DRAWN_EXTRA:
        _draw_nodes(graph, ax)
    else:
        _draw_matrix(graph, ax)
    figure: Figure = cast("Any", ax.figure).figure  # the whole figure, also where the axes are in a subfigure
    if path is not None:
        files.save_figure(figure, path)
    return figure


def _shorten_name(name: Label, most: int = 14) -> str:
    """Return a name for a figure: short, and without characters that cannot be printed."""
    text = str(name)
    return shorten(text if text.isprintable() and text.strip() else repr(name), most)


def _draw_nodes(graph: FeedbackGraph, ax: Axes) -> None:
    from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

    n_classes, visible = graph.n_classes, graph.visible
    captions = [_shorten_name(item) for item in graph.actions]
    radius = min(0.17, 0.72 * math.sin(math.pi / n_classes))
    centres = _place_centres(graph)
    inside = max(map(len, captions)) <= 3 and radius > 0.1
    nodes: list[Any] = []
    for i, (x, y) in enumerate(centres.tolist()):
        fill = _ORANGE if i in graph.revealing_indices else "white"
        edge, line = (_BLUE, 3.2) if i in graph.dominating_indices else ("black", 1.0)
        looks: dict[str, Any] = {"facecolor": fill, "edgecolor": edge, "linewidth": line, "zorder": 3}
        if i < n_classes:
            nodes.append(ax.add_patch(Circle((x, y), radius, **looks)))
        else:
            half = radius * 0.9 if graph.n_actions == n_classes + 1 else radius * 0.65
            nodes.append(ax.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, **looks)))
        if inside:
            ax.text(x, y, captions[i], ha="center", va="center", zorder=4, parse_math=False)
        elif i < n_classes:
            # Beyond the node, and beyond its loop when it has one.
            far = 1.0 + radius * (3.35 if visible[i, i] else 1.45)
            level = "left" if x > 0.2 else "right" if x < -0.2 else "center"
            upright = "bottom" if y > 0.85 else "top" if y < -0.85 else "center"
            ax.text(x * far, y * far, captions[i], ha=level, va=upright, zorder=4, parse_math=False)
        else:
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2.0}
            low = y - half - radius * 0.22
            ax.text(x, low, captions[i], ha="center", va="top", zorder=2, parse_math=False, bbox=box)
    for i, y in np.argwhere(visible).tolist():
        colour, width = (_VERMILLION, 1.3) if i in graph.revealing_indices else (_GREY, 1.1)
        # Bent, so that there and back do not coincide.
        bend = 0.16 if i < n_classes and visible[y, i] else 0.0
        way: dict[str, Any] = {"posA": centres[i], "posB": centres[y], "patchA": nodes[i], "patchB": nodes[y]}
        course = {"path": _make_loop(centres[i], radius)} if i == y else way | {"connectionstyle": f"arc3,rad={bend}"}
        head = "-|>,head_length=5,head_width=2.6"
        ax.add_patch(FancyArrowPatch(**course, arrowstyle=head, color=colour, linewidth=width, zorder=1))
    reach = 1.0 + radius * 3.3
    high = reach + (0.0 if inside else 0.2)
    ax.set(xlim=(-reach, reach), ylim=(-high, high), aspect="equal")
    ax.set_title(_shorten_name(graph.caption, 90), parse_math=False)
    ax.set_axis_off()
    _add_legend(graph, ax)


def _place_centres(graph: FeedbackGraph) -> NDArray[np.float64]:
    """Place the classes on the unit circle, clockwise from the top, and extra actions on a small one in the middle."""
    extra = graph.n_actions - graph.n_classes
    # Half a step off, so that the straight lines to the classes do not cover the extra actions.
    inner = 0.4 if extra > 1 else 0.0
    angles = np.concatenate([np.arange(graph.n_classes) / graph.n_classes, (np.arange(extra) + 0.5) / max(extra, 1)])
    lengths = np.repeat([1.0, inner], [graph.n_classes, extra])
    return np.asarray(np.column_stack([np.sin(2 * np.pi * angles), np.cos(2 * np.pi * angles)]) * lengths[:, None])


def _make_loop(centre: NDArray[np.float64], radius: float) -> Any:
    """Return a curve that leaves a node, turns outside the circle, and comes back."""
    from matplotlib.path import Path as Curve

    out = centre / max(float(np.linalg.norm(centre)), 1e-9)
    side = np.array([-out[1], out[0]])
    leave, back = out + 0.75 * side, out - 0.75 * side
    points = [
        centre + radius * 1.06 * leave / np.linalg.norm(leave),
        centre + radius * (3.4 * out + 1.9 * side),
        centre + radius * (3.4 * out - 1.9 * side),
        centre + radius * 1.06 * back / np.linalg.norm(back),
    ]
    return Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])


def _add_legend(graph: FeedbackGraph, ax: Axes) -> None:
    from matplotlib.lines import Line2D

    def marker(text: str, shape: str = "o", fill: str = "white", edge: str = "black", width: float = 1.0) -> Line2D:
        looks: dict[str, Any] = {"mfc": fill, "mec": edge, "mew": width}
        return Line2D([], [], linestyle="none", marker=shape, markersize=11, label=text, **looks)

    entries = [marker("class")]
    if graph.n_actions > graph.n_classes:
        entries.append(marker("extra action", shape="s"))
    if graph.revealing:
        entries.append(marker("reveals every label", fill=_ORANGE))
    entries.append(marker("dominating set", edge=_BLUE, width=3.0))
    entries.append(Line2D([], [], color=_GREY, marker=">", markevery=[1], label="the action reveals the class"))
    ax.legend(handles=entries, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False)


def _draw_matrix(graph: FeedbackGraph, ax: Axes) -> None:
    """Draw the matrix; of a very large one square blocks, for each the fraction of its entries that are edges."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap, PowerNorm
    from matplotlib.patches import Patch

    block, title, entries = 1, graph.caption, []
    if graph.n_actions <= MATRIX_ROWS:
        shades = graph.visible.astype(np.int8)
        shades[list(graph.revealing_indices)] = 2
        ax.imshow(shades, cmap=ListedColormap([_PALE, _SKY, _ORANGE]), vmin=0, vmax=2, interpolation="nearest")
        if graph.revealing:
            entries.append(Patch(facecolor=_ORANGE, label="reveals every label"))
        entries.append(Patch(facecolor=_SKY, label="revealed"))
        entries.append(Patch(facecolor=_PALE, edgecolor="#999999", label="hidden"))
    else:
        block = math.ceil(graph.n_actions / SUMMARY_ROWS)
        title = f"summary in blocks of {block} x {block}: {title}"
        shares = _average_blocks(graph.visible, block)
        colours = LinearSegmentedColormap.from_list("edges", [_PALE, _SKY, _BLUE])
        image = ax.imshow(shares, cmap=colours, norm=PowerNorm(0.25, 0.0, float(shares.max())), interpolation="nearest")
        cast("Any", ax.figure).colorbar(image, ax=ax, shrink=0.7, pad=0.1, label="fraction of entries that are edges")
    for axis, names in ((ax.yaxis, graph.actions), (ax.xaxis, graph.classes)):
        places = range(0, len(names), block * math.ceil(len(names) / block / 30))
        axis.set_ticks(
            [place // block for place in places],
            [_shorten_name(names[i]) for i in places],
            fontsize=7,
            parse_math=False,
        )
    ax.tick_params(axis="x", rotation=90)
    ax.set(xlabel="class", ylabel="action played", aspect="equal")
    ax.set_title(_shorten_name(title, 90), parse_math=False)
    if graph.n_actions > graph.n_classes:
        ax.axhline(graph.n_classes / block - 0.5, color="black", linewidth=0.8)
    members = sorted({place // block for place in graph.dominating_indices})
    beside: dict[str, Any] = {"clip_on": False, "transform": ax.get_yaxis_transform()}
    dots = ax.plot([1.02] * len(members), members, "<", markersize=5, color=_BLUE, label="dominating set", **beside)
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.06)}
    ax.legend(handles=[*entries, *dots], ncols=4, frameon=False, fontsize=8, **place)


def _average_blocks(visible: NDArray[np.bool_], block: int) -> NDArray[np.float64]:
    """Return the mean of each block of rows and columns; the last ones may be smaller.

    >>> _average_blocks(np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=bool), 2)
    array([[0.25, 1.  ],
           [1.  , 0.  ]])
    """
    rows, columns = (np.arange(0, size, block) for size in visible.shape)
    sums = np.add.reduceat(np.add.reduceat(visible, rows, axis=0, dtype=np.float64), columns, axis=1)
    return sums / np.outer(np.diff([*rows, len(visible)]), np.diff([*columns, visible.shape[1]]))

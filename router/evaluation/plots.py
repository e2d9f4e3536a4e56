"""Draw plots as SVG that takes its ink from the page, so that dark mode works.

matplotlib writes the shapes; whatever is drawn in ``_INK`` becomes ``currentColor``, and text
stays text. The other colours are told apart on white and on black, and by colour-blind eyes
(Okabe & Ito, "Color Universal Design", 2008).
"""

from __future__ import annotations

import io
import itertools
import re
from html import escape
from typing import Any

from router.evaluation.blocks import BarPlot, Line, LinePlot

_INK = "#010203"
_EMPHASIS = "#d55e00"
_COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f", "#8a63d2")
_PARTS = ("#009e73", "#56b4e9", "#7f7f7f", "#d55e00")
_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
# Any: matplotlib types the keys as a closed set that grows with its versions.
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fastslow",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": _INK,
    "legend.frameon": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def draw_lines(plot: LinePlot, prefix: str) -> str:
    """Return a line plot as one ``<svg>`` element.

    Args:
        plot: What to draw.
        prefix: Makes the element's ids unique on the page.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        figure, axes = _figure(6.4, 4.6)
        colours = itertools.cycle(_COLOURS)
        # Emphasis last, so that it lies on top.
        for line in sorted(plot.lines, key=lambda each: each.emphasis):
            _draw_line(axes, line, colours)
        for label, at in plot.marks:
            axes.axvline(at, color=_INK, linewidth=0.8, linestyle=":")
            place = {"xycoords": ("data", "axes fraction"), "va": "top", "ha": "right"}
            axes.annotate(label, (at, 1.0), rotation=90, **place)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        axes.grid(visible=True, color=_INK, alpha=0.12, linewidth=0.7)
        figure.legend(loc="outside lower center", ncols=3, fontsize=9.5)
        return _svg(figure, plot.title, prefix)


def draw_bars(plot: BarPlot, prefix: str) -> str:
    """Return a bar plot as one ``<svg>`` element; arguments as :func:`draw_lines`."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        figure, axes = _figure(6.4, 1.4 + 0.38 * len(plot.groups))
        left = [0.0] * len(plot.groups)
        for (name, shares), colour in zip(plot.parts, itertools.cycle(_PARTS)):
            axes.barh(plot.groups, shares, left=left, height=0.7, color=colour, label=name)
            left = [start + share for start, share in zip(left, shares, strict=True)]
        axes.invert_yaxis()
        axes.set_xlim(0.0, 1.0)
        axes.set_xlabel("share of the rows")
        figure.legend(loc="outside lower center", ncols=2, fontsize=9.5)
        return _svg(figure, plot.title, prefix)


def _draw_line(axes: Any, line: Line, colours: Any) -> None:
    if line.emphasis:
        style = {"color": _EMPHASIS, "linewidth": 2.6}
    elif line.dashed:
        style = {"color": _INK, "linewidth": 1.1, "linestyle": "--", "alpha": 0.7}
    else:
        style = {"color": next(colours), "linewidth": 1.4}
    if line.low:
        below = [y - low for y, low in zip(line.y, line.low, strict=True)]
        above = [high - y for y, high in zip(line.y, line.high, strict=True)]
        axes.errorbar(
            line.x, line.y, yerr=[below, above], label=line.name, marker="o", capsize=2, **style
        )
    else:
        axes.plot(line.x, line.y, label=line.name, **style)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Any, title: str, prefix: str) -> str:
    written = io.StringIO()
    nothing = {"Date": None, "Creator": None}
    figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Ids are unique within one file only, and the page holds several.
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    # Without width and height the element takes those of its place.
    opening = rf'<svg viewBox="\1" role="img" aria-label="{escape(title)}" {_NAMESPACES}>'
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', opening, svg, count=1)
    return svg.strip()

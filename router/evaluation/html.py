"""Write a report as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from router.evaluation.blocks import BarPlot, Block, Heading, LinePlot, Paragraph, Table
from router.evaluation.plots import draw_bars, draw_lines

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --yes: #12805c; --no: #c4320a; }
@media (prefers-color-scheme: dark) { :root { --yes: #4cc38a; --no: #ff8b6b; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 76rem; }
h1 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
h3 { margin-top: 2rem; }
p { max-width: 46rem; }
nav { columns: 14rem; } nav a { display: block; padding: .2rem 0; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
td:last-child, th:last-child { padding-right: 0; }
td:first-child, th:first-child { position: sticky; left: 0; background: Canvas;
  padding-right: 1rem; }
.wide td:first-child { white-space: normal; min-width: 11rem; }
.wide td:last-child { white-space: normal; min-width: 16rem; }
tr:hover td { background: color-mix(in srgb, Canvas 92%, CanvasText); }
.yes { color: var(--yes); font-weight: 600; } .no { color: var(--no); font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr));
  gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: .3rem; }
svg { width: 100%; height: auto; max-width: 40rem; display: block; }
svg text { font-family: system-ui, sans-serif; }
"""


def page(blocks: Sequence[Block], *, title: str) -> str:
    """Return the page; without matplotlib it says so where plots would be."""
    parts: list[str] = []
    headings = [b for b in blocks if isinstance(b, Heading) and b.level == 2]
    plots: list[str] = []
    for number, block in enumerate(blocks):
        if isinstance(block, LinePlot | BarPlot):
            plots.append(_figure(block, f"p{number}"))
            continue
        if plots:
            parts.append(f'<div class="plots">{"".join(plots)}</div>')
            plots = []
        parts.append(_html(block))
        if isinstance(block, Heading) and block.level == 1:
            links = (f'<a href="#{_anchor(h.text)}">{escape(h.text)}</a>' for h in headings)
            parts.append(f"<nav>{''.join(links)}</nav>")
    if plots:
        parts.append(f'<div class="plots">{"".join(plots)}</div>')
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Heading | Paragraph | Table) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{_anchor(block.text)}">{escape(block.text)}</h{block.level}>'
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
    met = block.header.index("met") if "met" in block.header else None
    rows = "".join(
        "<tr>" + "".join(_cell(cell, i == met) for i, cell in enumerate(row)) + "</tr>\n"
        for row in block.rows
    )
    kind = ' class="wide"' if met is not None else ""
    return (
        f'<div class="scroll"><table{kind}>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>"
    )


def _cell(text: str, is_verdict: bool) -> str:  # noqa: FBT001 - private, called once
    kind = f' class="{text}"' if is_verdict and text else ""
    return f"<td{kind}>{escape(text)}</td>"


def _figure(block: LinePlot | BarPlot, prefix: str) -> str:
    try:
        drawn = (
            draw_lines(block, prefix) if isinstance(block, LinePlot) else draw_bars(block, prefix)
        )
    except ImportError as error:
        drawn = f"<p>No plot: {escape(str(error))}.</p>"
    return f"<figure><figcaption>{escape(block.title)}</figcaption>{drawn}</figure>"


def _anchor(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())

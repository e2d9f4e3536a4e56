"""Write a report as Markdown; plots are left to the page."""

from __future__ import annotations

from collections.abc import Sequence

from router.evaluation.blocks import Block, Heading, Paragraph, Table


def markdown(blocks: Sequence[Block]) -> str:
    """Return the blocks as GitHub-flavoured Markdown."""
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {block.text}")
        elif isinstance(block, Paragraph):
            parts.append(block.text)
        elif isinstance(block, Table):
            parts.append(table(block))
    return "\n\n".join(parts) + "\n"


def table(block: Table) -> str:
    """Return one table."""
    lines = [_row(block.header), _row(["---"] * len(block.header))]
    return "\n".join(lines + [_row(row) for row in block.rows])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

"""Read the configuration file: YAML of bounded size, in which no key stands twice.

The file may come from a template or another team, so what would make it mean less or more than
it says is refused: a key given twice, of which YAML readers silently keep the last one, and
aliases within aliases, which grow a few lines to billions of values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from router.errors import ConfigError

MAX_FILE_BYTES = 1024 * 1024
# The full example has about 150 values.
MAX_VALUES = 20_000


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the sections in a file, ``{}`` for an empty one.

    Raises:
        ConfigError: Naming the file, with the line where there is one, if it cannot be read, is
            over a limit, is not YAML, gives a key twice, or is no mapping at the top.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    if len(raw) > MAX_FILE_BYTES:
        msg = f"{path}: has more than {MAX_FILE_BYTES} bytes"
        raise ConfigError(msg)
    try:
        content = yaml.load(raw.decode("utf-8"), Loader=_StrictLoader)  # noqa: S506 - a safe one
    except _Refused as error:
        msg = f"{path}, line {error.line}: {error}"
        raise ConfigError(msg) from None
    except RecursionError:
        msg = f"{path}: nested too deep"
        raise ConfigError(msg) from None
    # The constructors of dates and numbers raise what Python raises.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        msg = f"{path}{line}: not YAML"
        raise ConfigError(msg) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        msg = f"{path}: expected a mapping of sections at the top"
        raise ConfigError(msg)
    return content


class _Refused(Exception):  # noqa: N818 - not an error of YAML's
    """The file is YAML, but not what a configuration may be."""

    def __init__(self, message: str, node: yaml.Node) -> None:
        super().__init__(message)
        self.line: int = node.start_mark.line + 1


class _StrictLoader(yaml.SafeLoader):
    """`yaml.SafeLoader` that checks the parsed tree before any value is made of it."""

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _check(node, {})
        return node


def _check(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values ``node`` comes to with every alias written out.

    Args:
        node: What is counted.
        sizes: Size by node's identity; 0 = not known yet, which is met again in a loop only.
    """
    known = sizes.get(id(node))
    if known == 0:
        msg = "an alias stands inside of what it names"
        raise _Refused(msg, node)
    if known is not None:
        return known
    sizes[id(node)] = 0
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        parts = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    size = 1 + sum(_check(part, sizes) for part in parts)
    if size > MAX_VALUES:
        msg = f"more than {MAX_VALUES} values, aliases written out"
        raise _Refused(msg, node)
    sizes[id(node)] = size
    return size


def _check_keys(mapping: yaml.MappingNode) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if (key.tag, key.value) in seen:
            msg = f"the key {key.value[:64]!r} stands here for the second time"
            raise _Refused(msg, key)
        seen.add((key.tag, key.value))

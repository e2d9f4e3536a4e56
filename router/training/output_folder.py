"""Put a finished folder in its place, or nothing."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from router.artifact import SUMS
from router.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputRefused(ConfigError):  # noqa: N818 - named for what it says to the user
    """The place is taken or cannot be written."""


def check_output(out: Path, *, force: bool) -> None:
    """Make sure that a new folder may take the place of ``out``.

    Raises:
        OutputRefused: If it exists without ``force``, is anything but an artifact or an empty
            folder, or cannot be looked at.
    """
    try:
        if not out.exists() and not out.is_symlink():
            return
        replaceable = (
            not out.is_symlink()
            and out.is_dir()
            and ((out / SUMS).is_file() or not any(out.iterdir()))
        )
    except OSError as error:
        msg = f"--out {out}: cannot be looked at: {error.strerror}"
        raise OutputRefused(msg) from error
    if not force:
        msg = f"--out {out}: exists; --force replaces it"
        raise OutputRefused(msg)
    if not replaceable:
        msg = f"--out {out}: exists and is no artifact folder, so --force does not replace it"
        raise OutputRefused(msg)


@contextmanager
def placed_whole(out: Path, *, force: bool) -> Iterator[tuple[Path, Path]]:
    """Give an empty work folder and the folder to fill, which moves to ``out`` at the end.

    Both lie beside ``out`` and are gone afterwards, whatever happened; an earlier ``out`` stays
    where it is until the new one is whole.

    Raises:
        OutputRefused: If nothing can be written there, or something that :func:`check_output`
            refuses came to be there meanwhile.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        msg = f"--out {out}: cannot be written: {error.strerror}"
        raise OutputRefused(msg) from error
    try:
        filled, earlier = work / "filled", work / "earlier"
        filled.mkdir()
        yield work, filled
        check_output(out, force=force)
        had_one = out.exists()
        if had_one:
            out.rename(earlier)
        try:
            filled.rename(out)
        except BaseException:
            if had_one:
                earlier.rename(out)
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)

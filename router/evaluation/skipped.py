"""Say why a section of the report has no figures."""

from __future__ import annotations


class SectionSkipped(Exception):  # noqa: N818 - no error, the section does not apply
    """A section cannot be measured on this artifact or data folder; the message says why."""

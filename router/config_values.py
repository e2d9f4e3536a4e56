"""What every section of the configuration is made of: checked values, secrets, the base."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from router.errors import ConfigError

Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0.0, le=86_400.0 * 365, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0 * 365, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
Host = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_.:%-]+$")]


def _can_name_a_file(value: str) -> str:
    """Refuse what the operating system would answer with an exception of its own."""
    try:
        readable = bool(value.strip()) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        readable = False
    if not readable:
        msg = "must name a file or folder: not empty, without NUL"
        raise ValueError(msg)
    return value


PathText = Annotated[str, AfterValidator(_can_name_a_file)]
FilePath = Annotated[
    Path, BeforeValidator(lambda v: _can_name_a_file(v) if isinstance(v, str) else v)
]


def _without_effect(value: Any) -> Any:
    """Refuse a reserved setting: accepted silently, it would seem to work."""
    if value:
        msg = "has no effect in this version; leave it out"
        raise ValueError(msg)
    return value


Reserved = Annotated[None, BeforeValidator(_without_effect)]
ReservedList = Annotated[tuple[()], BeforeValidator(_without_effect)]


def _holds_a_number(annotation: Any) -> bool:
    return (
        annotation is int or annotation is float or any(map(_holds_a_number, get_args(annotation)))
    )


class Section(BaseModel):
    """Base of every section: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and _holds_a_number(annotation):
            msg = "must be a number, not true or false"
            raise ValueError(msg)
        return value


class Secret(Section):
    """Where a secret is read from; exactly one of the two.

    Attributes:
        env: Name of an environment variable.
        file: Path of a file; surrounding white space is stripped.
    """

    env: str | None = None
    file: FilePath | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_literal_secret(cls, value: Any) -> Any:
        if isinstance(value, str):
            msg = "a secret may not stand in the file; write {env: NAME} or {file: PATH}"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Secret:
        if (self.env is None) == (self.file is None):
            msg = "give exactly one of env (a variable's name) and file (a path)"
            raise ValueError(msg)
        return self

    @property
    def origin(self) -> str:
        """Where the secret is read from, in words."""
        return f"file {self.file}" if self.env is None else f"environment variable {self.env}"

    def read(self, key: str) -> SecretStr:
        """Return the secret.

        Raises:
            ConfigError: Naming ``key`` and the variable or file that is missing or empty.
        """
        if self.env is not None:
            value = os.environ.get(self.env, "")
        else:
            try:
                value = Path(str(self.file)).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                msg = f"{key}: cannot read {self.origin}: {type(error).__name__}"
                raise ConfigError(msg) from error
        if not value.strip():
            msg = f"{key}: {self.origin} is empty or not set"
            raise ConfigError(msg)
        return SecretStr(value.strip())

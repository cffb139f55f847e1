"""Kinds of jobs that extras bring, by the registry kind "job": its name is the key of a job file that tells it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from synth import extras
from synth.errors import JobError
from synth.validation import parse_toml, read_given


@dataclass(frozen=True)
class JobKind:
    """`run` gives the exit code; its first argument is the job file, and its others are those of `understudy run`.
    `check` reads the job with all its files. `spec`: of the file; `None` where no JSON Schema tells of it.
    """

    run: Callable[..., int]
    check: Callable[[Path], Any]
    spec: type[BaseModel] | None = None


def kind_of(path: Path) -> JobKind | None:
    """The kind of a job file; `None` for one of one table."""
    content = parse_toml(read_given(path, "job", JobError), "job", JobError)
    return next((extras.load("job")[key] for key in extras.entries("job") if key in content), None)

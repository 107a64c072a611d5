"""The pipeline spec: one YAML, one model, for command line, Spark jobs and Airflow alike.

`spec_file.load_spec` reads it; field by field this is the reference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from semistream.pipeline.spec_fields import (
    ByteSize,
    Column,
    Columns,
    FilePlace,
    Folder,
    MySQLPlace,
    Name,
    Schema,
    SpecModel,
)

Algorithm = Literal[
    "auto",
    "inlj",
    "meshjoin",
    "rmeshjoin",
    "hybridjoin",
    "xhybridjoin",
    "cinlj",
    "cmeshjoin",
    "chybridjoin",
    "ssbj",
]
SURROGATE_KEY = "surrogate_key"


class FileStream(FilePlace):
    """Files that appear in a folder. Their columns are declared: guessed types may change."""

    columns: Schema = Field(alias="schema")


class KafkaStream(SpecModel):
    """A Kafka topic of JSON values."""

    format: Literal["kafka"]
    servers: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    columns: Schema = Field(alias="schema")


class MySQLStream(MySQLPlace):
    """The changes of a MySQL table."""

    columns: Schema = Field(alias="schema")


Stream = Annotated[FileStream | KafkaStream | MySQLStream, Field(discriminator="format")]
RawMaster = Annotated[FilePlace | MySQLPlace, Field(discriminator="format")]


class JoinSpec(SpecModel):
    """One master joined; `on` maps columns that are there by now to master columns."""

    master: Name
    on: Annotated[dict[Column, Column], Field(min_length=1)]
    select: Columns | None = None


class ParquetSink(SpecModel):
    """A folder with one subfolder per micro-batch, which appears whole."""

    format: Literal["parquet"]
    path: Folder


class MySQLSink(MySQLPlace):
    """A table that exists; a micro-batch and its ledger row are one transaction."""


Sink = Annotated[ParquetSink | MySQLSink, Field(discriminator="format")]


class Unmatched(SpecModel):
    """Where tuples without a master tuple go, with their reason."""

    path: Folder = "{home}/unmatched/{name}"


class Rejected(SpecModel):
    """Where rows and files go that cannot be read; above `share` of a batch the run stops."""

    path: Folder = "{home}/rejected/{name}"
    share: float = Field(default=0.05, ge=0, le=1)


class Engine(SpecModel):
    """The join: its algorithm and the bytes all joins of the pipeline share, per worker."""

    algorithm: Algorithm = "auto"
    memory: ByteSize = 256 << 20


class Shedding(SpecModel):
    """What would make a micro-batch late is set aside; beyond `backlog`, intake slows instead."""

    deadline_s: float = Field(gt=0)
    path: Folder = "{home}/shed/{name}"
    backlog: ByteSize = 1 << 30


class Retention(SpecModel):
    """How many published versions stay, besides those that somebody holds."""

    versions: int = Field(default=3, ge=1)


class Publish(SpecModel):
    """A table that also gets every published version."""

    mysql: MySQLPlace


class MasterSpec(SpecModel):
    """A master: where its rows come from and what is promised about them."""

    source: RawMaster = Field(alias="from")
    key: Columns
    columns: Schema | None = Field(default=None, alias="schema")
    unique: bool = False
    surrogate_key: Column | None = SURROGATE_KEY
    retention: Retention = Retention()
    publish: Publish | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len(set(self.key)) < len(self.key):
            raise ValueError("key names a column twice: give each once")
        if self.surrogate_key in self.key:
            raise ValueError("surrogate_key is a column of the key: give it a name of its own")
        return self


class PipelineSpec(SpecModel):
    """One pipeline: a stream, the masters it is joined with, and where its tuples go."""

    name: Name
    stream: Stream
    joins: Annotated[list[JoinSpec], Field(min_length=1)]
    compute: dict[Column, str] = Field(default_factory=dict)
    drop: list[Column] = Field(default_factory=list)
    sink: Sink
    unmatched: Unmatched = Unmatched()
    rejected: Rejected = Rejected()
    engine: Engine = Engine()
    shedding: Shedding | None = None
    masters: Annotated[dict[Name, MasterSpec], Field(min_length=1)]

    _home: Path = PrivateAttr(default=Path())
    _file: str = PrivateAttr(default="")

    @property
    def home(self) -> Path:
        """The folder under which pipelines and masters keep what they know."""
        return self._home

    @property
    def file(self) -> str:
        """The file this was read from, for messages."""
        return self._file

    @property
    def state(self) -> Path:
        """What this pipeline keeps for itself: leases, ledger, staging."""
        return self._home / "pipelines" / self.name

    def outputs(self) -> dict[str, str]:
        """The folder of every output that is one."""
        places = {"unmatched": self.unmatched.path, "rejected": self.rejected.path}
        if isinstance(self.sink, ParquetSink):
            places["matched"] = self.sink.path
        if self.shedding is not None:
            places["shed"] = self.shedding.path
        return places

"""A table as a stream: every row once, in bounded batches, whatever its indexes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.stores.mysql.address import MySQLAddress, Password, quoted
from semistream.stores.mysql.columns import Column, read_columns
from semistream.stores.mysql.decode import decode
from semistream.stores.mysql.pool import Patience, Pool
from semistream.stores.mysql.wire import Request

_BATCH_ROWS, _BATCH_BYTES = 1 << 15, 2 << 20


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table or view, read by one statement whose rows wait on the server until they are taken.

    All rows are those of one moment. Memory: a batch, raw and decoded. A server that goes away in
    the middle ends the stream with `StoreUnavailable`, never with its rows so far.
    """

    path: str
    schema: pa.Schema
    _pool: Pool
    _columns: tuple[Column, ...]

    @property
    def is_text(self) -> bool:
        return False

    @classmethod
    def open(
        cls,
        url: str,
        *,
        password: Password | None = None,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> TableSource:
        """Open `mysql://user@host:port/database/table`; reads its columns, no rows."""
        address = MySQLAddress.parse(url)
        password = password or Password.from_environment()
        pool = Pool(address, password, patience or Patience(), sleep=sleep)
        try:
            columns = pool.run(lambda session: read_columns(session, address))
        finally:
            pool.drop_idle()
        schema = pa.schema([pa.field(c.name, c.arrow, c.is_nullable) for c in columns])
        return cls(str(address), schema, pool, columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in no particular order; each call reads them anew."""
        address = self._pool.address
        names = ", ".join(column.sql for column in self._columns)
        sql = f"SELECT {names} FROM {quoted(address.database)}.{quoted(address.table)}"  # noqa: S608
        types = [column.arrow for column in self._columns]
        for reply in self._pool.stream(Request(sql), _BATCH_ROWS, _BATCH_BYTES):
            if len(reply.starts):
                yield pa.RecordBatch.from_arrays(decode([reply], types), schema=self.schema)

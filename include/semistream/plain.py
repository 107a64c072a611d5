"""Batches in plain types: without dictionaries, run-ends and views, at any depth.

Arrow can gather neither views nor run-ends, a partition must be readable without a dictionary
kept elsewhere, and the size of a row must not depend on a dictionary it shares. So both sides of
a join are made plain where they come in, and the output is plain.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from semistream.errors import InputError


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with the type every column has once it is plain.

    >>> plain_schema(pa.schema([("a", pa.dictionary(pa.int8(), pa.string_view()))])).field("a").type
    DataType(string)
    """
    return pa.schema([_plain_field(field) for field in schema])


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` in the types of `schema`, which is the `plain_schema` of the batch's own."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(_plain_array(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"column {field.name!r} of type {column.type} cannot be read as {field.type} "
                f"({error}): cast it before the join"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_field(field: pa.Field) -> pa.Field:
    plain = _plain_type(field.type)
    return field if plain == field.type else field.with_type(plain)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pat.is_dictionary(type_) or pat.is_run_end_encoded(type_):
        return _plain_type(type_.value_type)
    if pat.is_string_view(type_):
        return pa.string()
    if pat.is_binary_view(type_):
        return pa.binary()
    if pat.is_struct(type_):
        return pa.struct([_plain_field(type_.field(i)) for i in range(type_.num_fields)])
    if pat.is_map(type_):
        return pa.map_(_plain_field(type_.key_field), _plain_field(type_.item_field))
    if pat.is_list(type_):
        return pa.list_(_plain_field(type_.value_field))
    if pat.is_large_list(type_):
        return pa.large_list(_plain_field(type_.value_field))
    if pat.is_fixed_size_list(type_):
        return pa.list_(_plain_field(type_.value_field), type_.list_size)
    return type_


def _plain_array(array: pa.Array, plain: pa.DataType) -> pa.Array:
    if array.type == plain:
        return array
    if pat.is_run_end_encoded(array.type):
        return _plain_array(pc.run_end_decode(array), plain)
    if pat.is_dictionary(array.type):
        values = _plain_array(array.dictionary, plain)
        return values.take(array.indices)
    return array.cast(plain)

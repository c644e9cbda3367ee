"""Tables for facts in a schema of a test's own, as the store has them."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from tidegauge.relations import COMMON, RELATIONS

_TYPES: Mapping[str, Any] = {
    "int64": sa.BigInteger(),
    "int32": sa.Integer(),
    "string": sa.Text(),
    "bool": sa.Boolean(),
    "int32[]": sa.ARRAY(sa.Integer()),
    "string[]": sa.ARRAY(sa.Text()),
    "json": JSONB(none_as_null=True),
}


def fact_tables(schema: str) -> Mapping[str, sa.Table]:
    """Relation -> a table with its columns and the run's id."""
    metadata = sa.MetaData(schema=schema)
    return {
        relation.name: sa.Table(
            relation.name,
            metadata,
            sa.Column("run_id", sa.Text),
            *(sa.Column(c.name, _TYPES[c.type]) for c in (*COMMON, *relation.columns)),
            prefixes=["UNLOGGED"],
        )
        for relation in RELATIONS.values()
    }


def made_anew(connection: sa.Connection, schema: str) -> Mapping[str, sa.Table]:
    """The tables, empty, in a schema that is emptied first."""
    tables = fact_tables(schema)
    connection.execute(sa.text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
    connection.execute(sa.text(f"CREATE SCHEMA {schema}"))
    next(iter(tables.values())).metadata.create_all(connection)
    return tables

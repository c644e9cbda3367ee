"""What a store's schema has."""

from typing import Any

from tidegauge import store


def rows(url: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with store.connect(url, "look") as connection, connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def inventory(url: str) -> list[tuple[Any, ...]]:
    """Every relation of it with its columns and their types."""
    return rows(
        url,
        "SELECT c.relkind::text, c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
        "AND NOT a.attisdropped WHERE n.nspname = 'tidegauge' ORDER BY 1, 2, a.attnum",
    )

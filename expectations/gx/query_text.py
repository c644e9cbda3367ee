"""SQL as the library takes it: it fills `{batch}` into a query by `str.format`, so every other brace is doubled."""


def as_template(sql: str) -> str:
    """The SQL with its braces as text."""
    return sql.replace("{", "{{").replace("}", "}}")

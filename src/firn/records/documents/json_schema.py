"""JSON schemas: checked when a table is created, and documents by them.

By the library `jsonschema`, the reference of the specification's authors, which interprets schemas; faster ones
make Python source of them, and this schema comes from a bucket. Nothing is ever fetched: a schema refers to
itself only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from firn.errors import InvalidInputError
from firn.records.names.json_values import plain_json

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class JsonSchema:
    """A JSON schema of draft 3 to 2020-12, by its `$schema`; without one, 2020-12.

    `format` is not checked, as the specification has it; `pattern` is.

    Raises:
        InvalidInputError: it isn't a JSON schema, is of another dialect, or refers to another document.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema: dict[str, Any] = plain_json(schema, "the schema")
        _ = self._validator

    @cached_property
    def _validator(self) -> Any:
        # Most tables have no JSON schema, and these imports take as long as all of Firn's.
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        dialect = (
            validator_for(self.schema, default=None) if "$schema" in self.schema else Draft202012Validator
        )
        if dialect is None:
            raise InvalidInputError(
                f"the JSON schema is of the dialect {self.schema['$schema']!r}, which isn't known: drafts 3 to "
                "2020-12 are."
            )
        _check_parts(self.schema)
        try:
            dialect.check_schema(self.schema)
        except SchemaError as error:
            raise InvalidInputError(f"not a JSON schema: {error.message} at {error.json_path}.") from None
        return dialect(self.schema, registry=Registry())

    def check(self, document: Any) -> None:
        """Refuse a document that doesn't follow the schema.

        Raises:
            InvalidInputError: with the place in the document, and what was expected there.

        >>> JsonSchema({"properties": {"n": {"type": "integer"}}}).check({"n": "x"})
        Traceback (most recent call last):
        firn.errors.InvalidInputError: by the table's JSON schema, 'x' is not of type 'integer' at $.n.
        """
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        try:
            error = best_match(self._validator.iter_errors(document))
        except Unresolvable as missing:
            raise InvalidInputError(
                f"the table's JSON schema refers to {missing.ref!r}, which it lacks."
            ) from None
        except RecursionError:
            raise InvalidInputError("the table's JSON schema refers to itself without an end.") from None
        if error is not None:
            said = error.message if len(error.message) <= 300 else error.message[:300] + "…"
            raise InvalidInputError(f"by the table's JSON schema, {said} at {error.json_path}.")


def _check_parts(schema: Any) -> None:
    """Refuse references to other documents, and patterns that aren't regular expressions."""
    if isinstance(schema, list):
        for part in schema:
            _check_parts(part)
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            raise InvalidInputError(
                f"the JSON schema refers to {value!r}: copy that into its own $defs, nothing is fetched."
            )
        # A property may be called "pattern" too.
        patterns: list[str] = [value] if key == "pattern" and isinstance(value, str) else []
        if key == "patternProperties" and isinstance(value, dict):
            patterns = list(value)
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidInputError(
                    f"the JSON schema's pattern {pattern!r} isn't one: {error}."
                ) from None
        _check_parts(value)

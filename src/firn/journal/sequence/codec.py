"""JSON of records, horizon and packs, in the journals' envelope.

A body must be canonical JSON: an object as `orjson.dumps(document, option=orjson.OPT_SORT_KEYS)` spells it. It is
embedded as it is, so that a record can be read by eye and by any tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final, get_args

import orjson

from firn.journal.envelope import Envelopes, number, text, truth
from firn.journal.sequence.model import (
    Catalog,
    Ddl,
    DdlVerb,
    DocumentRules,
    Horizon,
    IndexStage,
    IndexState,
    Isolation,
    LogRecord,
    LogTransaction,
    Pack,
    RowWrite,
    TableState,
)

_ENVELOPES: Final = Envelopes(
    "the log of record tables",
    {
        "commit": "Copy the object back from a backup; nobody can read or commit before.",
        "horizon": "Copy the object back from a backup; nobody can read or commit before.",
        "pack": "Copy the object back from a backup; only clients that stalled for long need it.",
    },
    frozenset({"catalog", "definition", "each"}),
)

REFERS: Final = "catalog"  # frozen
"""The feature of objects in which a number stands for a catalog, or which have one for those that refer to it."""

ALTERED: Final = "definition"  # frozen
"""The feature of objects with a table that was altered, from the change on."""

EACH: Final = "each"  # frozen
"""The feature of objects with an index of the elements of lists, and of the change that makes one."""

WHOLE_BYTES: Final = 2 << 10
"""Bytes up to which each record holds the catalog. For a larger one, records name another record that has it."""

CatalogOf = Callable[[int], Catalog]
"""The definitions before the record of that number, whose object has them."""


def _nowhere(base: int) -> Catalog:
    raise ValueError(f"it names commit {base} for its catalog")


def encode_record(record: LogRecord) -> bytes:
    """A record's bytes."""
    return _ENVELOPES.encode("commit", _record_fields(record), _needs([record]))


def decode_record(expected: int, data: bytes, *, where: str, catalog_of: CatalogOf = _nowhere) -> LogRecord:
    """Record `expected`; `where` is the object's full name, for messages. `catalog_of` is asked where it names
    another record for its catalog.

    Raises:
        CorruptObjectError: it isn't what any Firn writes, or has another number.
        UnsupportedError: it needs a newer Firn.
    """

    def read(raw: dict[str, Any]) -> LogRecord:
        record = _record(raw, catalog_of)
        if record.number != expected:
            raise ValueError(f"it calls itself commit {record.number}")
        return record

    return _ENVELOPES.decode("commit", data, where, read)


def encode_horizon(horizon: Horizon) -> bytes:
    """The horizon's bytes."""
    fields: dict[str, Any] = {"horizon": horizon.horizon, "lo": horizon.lo, "applied": horizon.applied}
    if horizon.catalog is not None:
        fields["catalog"] = _catalog_fields(horizon.catalog)
    needs = [] if horizon.catalog is None else [REFERS, *_defined(horizon.catalog)]
    return _ENVELOPES.encode("horizon", fields, needs)


def decode_horizon(data: bytes, *, where: str) -> Horizon:
    """The horizon. Errors as `decode_record`."""
    return _ENVELOPES.decode(
        "horizon",
        data,
        where,
        lambda raw: Horizon(
            number(raw["horizon"]),
            number(raw["lo"]),
            number(raw["applied"]),
            _catalog(raw["catalog"]) if "catalog" in raw else None,
        ),
    )


def encode_pack(pack: Pack, *, whole_bytes: int = WHOLE_BYTES) -> bytes:
    """A pack's bytes. Its records refer to one another alone, so that it can be read by itself."""
    records: list[LogRecord] = []
    whole, refers = None, False
    for record in pack.records:
        if whole is None or (record.catalog is not whole.catalog and record.catalog != whole.catalog):
            whole, refers = record, is_large(record.catalog, whole_bytes)
        records.append(replace(record, base=whole.number if refers and record is not whole else 0))
    fields = {"hi": pack.hi, "records": [_record_fields(record) for record in records]}
    return _ENVELOPES.encode("pack", fields, _needs(records))


def is_large(catalog: Catalog, whole_bytes: int = WHOLE_BYTES) -> bool:
    """Whether records refer to it rather than have it."""
    return len(orjson.dumps(_catalog_fields(catalog))) > whole_bytes


def decode_pack(first: int, data: bytes, *, where: str) -> Pack:
    """The pack that begins with record `first`. Errors as `decode_record`."""

    def read(raw: dict[str, Any]) -> Pack:
        catalogs: dict[int, Catalog] = {}
        records: list[LogRecord] = []
        for fields in raw["records"]:
            records.append(
                _record(fields, lambda base: catalogs[base] if base in catalogs else _nowhere(base))
            )
            if not records[-1].base:
                catalogs[records[-1].number] = records[-1].catalog
        numbers = [record.number for record in records]
        if not records or numbers != list(range(first, number(raw["hi"]) + 1)):
            raise ValueError(f"it has the commits {numbers} instead of those from {first} to {raw['hi']}")
        return Pack(tuple(records))

    return _ENVELOPES.decode("pack", data, where, read)


def canonical(document: Mapping[str, Any]) -> bytes:
    """A document as bodies spell it.

    A result of orjson keeps its buffer, of 4 KB and more, and bodies stay in memory by the thousand: so a copy.
    """
    return bytes(memoryview(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)))


def _record_fields(record: LogRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "group": [_transaction_fields(member) for member in record.group],
        "applied": record.applied,
        "done": list(record.done),
        "catalog": record.base or _catalog_fields(record.catalog),
    }


def _needs(records: Iterable[LogRecord]) -> set[str]:
    """The features that a reader of these records must know."""
    needs: set[str] = set()
    for record in records:
        if record.base:
            needs.add(REFERS)
        for member in record.group:
            if member.ddl is not None and member.ddl.verb == "alter":
                needs.add(ALTERED)
            if member.ddl is not None and member.ddl.each:
                needs.add(EACH)
        if not needs >= {ALTERED, EACH}:
            needs |= _defined(record.catalog)
    return needs


def _defined(catalog: Catalog) -> set[str]:
    """The features that a reader of these definitions must know."""
    needs = set()
    for table in catalog.values():
        if table.is_altered:
            needs.add(ALTERED)
        if any(index.each for index in table.fields.values()):
            needs.add(EACH)
    return needs


def _record(raw: Mapping[str, Any], catalog_of: CatalogOf) -> LogRecord:
    own, applied = number(raw["number"], least=1), number(raw["applied"])
    done = tuple(number(n) for n in raw["done"])
    if not applied < own or any(not applied < n < own for n in done):
        raise ValueError(f"it says that {applied} and {done} are applied before {own}")
    group = tuple(_transaction(member) for member in raw["group"])
    if isinstance(raw["catalog"], dict):
        return LogRecord(own, group, applied, done, _catalog(raw["catalog"]))
    base = number(raw["catalog"], least=1)
    if not base < own:
        raise ValueError(f"it names commit {base} for its catalog, which is behind {own}")
    return LogRecord(own, group, applied, done, catalog_of(base), base)


def _transaction_fields(member: LogTransaction) -> dict[str, Any]:
    return {
        "txid": member.txid,
        "snapshot": member.snapshot,
        "writes": [_write_fields(write) for write in member.writes],
        "claims": list(member.claims),
        "ddl": None if member.ddl is None else _ddl_fields(member.ddl),
    }


def _transaction(raw: Mapping[str, Any]) -> LogTransaction:
    return LogTransaction(
        txid=text(raw["txid"]),
        snapshot=number(raw["snapshot"]),
        writes=tuple(_write(write) for write in raw["writes"]),
        claims=tuple(text(claim) for claim in raw["claims"]),
        ddl=None if raw["ddl"] is None else _ddl(raw["ddl"]),
    )


def _write_fields(write: RowWrite) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "table": write.table,
        "id": write.id,
        "op": "delete" if write.deletes else "put",
        "entries": list(write.entries),
    }
    return {**fields, **body_fields(write.body, write.ref)}


def _write(raw: Mapping[str, Any]) -> RowWrite:
    body, ref = body_of(raw)
    write = RowWrite(
        text(raw["table"]), text(raw["id"]), body, ref, tuple(text(entry) for entry in raw["entries"])
    )
    if raw["op"] != ("delete" if write.deletes else "put"):
        raise ValueError(f"it has a {raw['op']} of {write.id!r} that isn't one")
    return write


def body_fields(body: bytes | None, ref: str | None) -> dict[str, Any]:
    """How a body, a reference to one, or neither stands in an object."""
    if body is not None:
        return {"body": orjson.Fragment(body)}
    return {} if ref is None else {"ref": ref}


def body_of(raw: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """The opposite."""
    check_body(raw)
    return (canonical(raw["body"]), None) if "body" in raw else (None, raw.get("ref"))


def check_body(raw: Mapping[str, Any]) -> None:
    """A ValueError unless it is one of these."""
    if "body" in raw:
        if not isinstance(raw["body"], dict) or "ref" in raw:
            raise ValueError("a body isn't one JSON object")
    elif "ref" in raw:
        text(raw["ref"])


def _ddl_fields(ddl: Ddl) -> dict[str, Any]:
    fields = {**asdict(ddl), "indices": dict(ddl.indices), "properties": dict(ddl.properties)}
    if ddl.verb != "alter":
        del fields["properties"]
    if not ddl.each:
        del fields["each"]
    return _with_rules(fields, ddl.documents, dict(ddl.comments))


def _with_rules(
    fields: dict[str, Any], rules: DocumentRules | None, comments: Mapping[str, str | None]
) -> dict[str, Any]:
    """The fields with what is altered of documents, where anything is."""
    del fields["documents"], fields["comments"]
    if rules is not None:
        columns = None if rules.columns is None else [list(column) for column in rules.columns]
        fields["documents"] = {"columns": columns, "schema": rules.schema, "gone": dict(rules.gone)}
    return {**fields, "comments": dict(comments)} if comments else fields


def _rules(raw: Mapping[str, Any]) -> DocumentRules | None:
    if "documents" not in raw:
        return None
    rules = raw["documents"]
    columns, schema = rules["columns"], rules["schema"]
    if columns is not None:
        columns = tuple((text(name), text(kind)) for name, kind in columns)
    if schema is not None and not isinstance(schema, dict):
        raise ValueError(f"{schema!r} isn't a JSON schema")
    return DocumentRules(columns, schema, {name: text(kind) for name, kind in rules["gone"].items()})


def _ddl(raw: Mapping[str, Any]) -> Ddl:
    return Ddl(
        verb=_one_of(raw["verb"], DdlVerb),
        table=text(raw["table"]),
        isolation=_one_of(raw["isolation"], Isolation),
        indices=tuple((text(name), truth(unique)) for name, unique in raw["indices"].items()),
        field=text(raw["field"]),
        unique=truth(raw["unique"]),
        generation=number(raw["generation"]),
        built=number(raw["built"]),
        properties=tuple((text(name), value) for name, value in raw.get("properties", {}).items()),
        each=tuple(text(name) for name in raw.get("each", ())),
        documents=_rules(raw),
        comments=tuple(
            (name, None if said is None else text(said)) for name, said in raw.get("comments", {}).items()
        ),
    )


def _table_fields(table: TableState) -> dict[str, Any]:
    fields = {**asdict(table), "fields": {name: _index_fields(each) for name, each in table.fields.items()}}
    if not table.properties:
        del fields["properties"]
    if not table.altered:
        del fields["altered"]
    return _with_rules(fields, table.documents, table.comments)


def _index_fields(index: IndexState) -> dict[str, Any]:
    fields = asdict(index)
    if not index.each:
        del fields["each"]
    return fields


def _catalog_fields(catalog: Catalog) -> dict[str, Any]:
    return {name: _table_fields(table) for name, table in catalog.items()}


def _catalog(raw: Mapping[str, Any]) -> Catalog:
    return {text(name): _table(table) for name, table in raw.items()}


def _table(raw: Mapping[str, Any]) -> TableState:
    fields = {
        text(name): IndexState(
            stage=_one_of(index["stage"], IndexStage),
            unique=truth(index["unique"]),
            built=number(index["built"]),
            ready=number(index["ready"]),
            generation=number(index["generation"]),
            each=truth(index.get("each", False)),
        )
        for name, index in raw["fields"].items()
    }
    gone = {text(name): number(count, least=1) for name, count in raw["gone"].items()}
    isolation = _one_of(raw["isolation"], Isolation)
    properties = {text(name): value for name, value in raw.get("properties", {}).items()}
    return TableState(
        number(raw["since"]),
        isolation,
        fields,
        gone,
        number(raw["generation"]),
        properties,
        number(raw.get("altered", 0)),
        _rules(raw),
        {name: text(said) for name, said in raw.get("comments", {}).items()},
    )


def _one_of(value: Any, names: Any) -> Any:
    if value not in get_args(names):
        raise ValueError(f"{value!r} is none of {', '.join(get_args(names))}")
    return value

"""The bytes on the pages of the formats are those that the code writes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from firn.journal.leaderless.format.codec import decode
from firn.journal.leaderless.replay.replay import fold
from firn.journal.manifest.codec import decode_manifest, decode_pointer, decode_snapshot
from firn.journal.manifest.layout import NO_MANIFEST, ManifestLayout
from firn.journal.manifest.model import L0File
from firn.journal.manifest.walk import walk
from firn.journal.sequence import SequenceLayout
from firn.journal.sequence.codec import decode_horizon, decode_pack
from firn.journal.sequence.codec import decode_record as decode_commit
from firn.journal.writer.federation.definition import WriterDefinition
from firn.journal.writer.format.actions import Add
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.format.metadata import decode_record
from firn.lake.definition.definition import LakeDefinition
from firn.records.definition.definition import RecordDefinition
from firn.records.load.copy_cursor import decode_cursor
from firn.records.objects.row import decode_row
from firn.records.objects.single_version_row import SingleVersion
from firn.records.objects.single_version_row import decode_row as decode_lone_row

ROOT = Path(__file__).parents[2]


def load_script():
    path = ROOT / "scripts/write_format_examples.py"
    spec = importlib.util.spec_from_file_location("write_format_examples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()
WRITTEN = {page.name: examples() for page, examples in SCRIPT.PAGES.items()}
SHOWN = {
    page.name: {
        found[2]: found[3].removesuffix("\n") for found in SCRIPT.BLOCK.finditer(page.read_text("utf-8"))
    }
    for page in SCRIPT.PAGES
}


@pytest.mark.parametrize("page", WRITTEN)
def test_every_example_is_shown(page):
    assert SHOWN[page].keys() == WRITTEN[page].keys()


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page in WRITTEN for name in sorted(WRITTEN[page])]
)
def test_shown_is_what_is_written(page, name):
    assert SHOWN[page][name] == WRITTEN[page][name], (
        "the format changed, or the page: `make docs` writes it anew"
    )


def test_the_examples_are_one_life():
    """The logs on the page, applied by hand."""
    shown = SHOWN["leaderless-log.md"]
    keys = shown["keys"].splitlines()
    claim = json.loads(shown["claim"])
    append = decode("1767258000753_web-7-0.jsonl", shown["append"].encode(), where="append")
    batch = decode(claim["log"], shown["batch-append"].encode(), where="batch-append")
    intent = json.loads(shown["lock-intent"])["intent"]
    merge = decode(intent.rpartition("/")[2], shown["merge"].encode(), where="merge")
    reservation = decode(merge.name, shown["reservation"].encode(), where="reservation")
    cleaned = decode(merge.name, shown["cleaned"].encode(), where="cleaned")

    assert reservation.is_reservation
    assert fold([append, batch]).snapshot().files == (*append.files, *batch.files)
    live = fold([append, batch, merge]).live
    assert {f.path for f in live} == {key for key in keys if "/_data/" in key}
    assert {f.path for f in fold([cleaned]).live} == {f.path for f in live}
    assert sum(f.rows or 0 for f in live) == sum(f.rows or 0 for f in (*append.files, *batch.files))


def test_the_catalog_on_the_page_is_one_whole():
    """What its examples say of one another, read from the page alone."""
    shown = SHOWN["writer-catalog.md"]
    keys = shown["catalog-keys"].splitlines()
    data = bytes.fromhex(shown["transaction"])
    transaction = decode_transaction(data, where="transaction")
    (add,) = (action for action in transaction.actions if isinstance(action, Add))
    record = decode_record(shown["file-metadata"], where="file-metadata")
    definition = WriterDefinition.decode(shown["definition"].encode(), "definition")
    lake = LakeDefinition.decode(definition.spec, "definition")
    hint = json.loads(shown["hint"])
    layout = WriterLayout("prod", definition.writer, json.loads(shown["database"])["database"])

    assert add.file.path in keys
    assert layout.transaction_key(transaction.revision, transaction.uuid) in keys
    assert layout.checkpoint_key(hint["revision"], hint["uuid"]) in keys
    assert (record.uuid, record.revision, record.previous) == (
        transaction.uuid,
        transaction.revision,
        transaction.commit.previous,
    )
    assert layout.is_stamped(add.file.path, record.uuid)
    assert (
        (record.table, record.columns) == (add.table, add.columns) == ("flights", tuple(lake.columns.items()))
    )


def test_the_manifests_on_the_page_are_one_life():
    """Pointer, manifests and snapshot, read from the page alone, name one another's objects, and the walk is the
    paper's."""
    shown = SHOWN["keyed-manifest.md"]
    keys = [line.partition(" ")[0] for line in shown["manifest-keys"].splitlines()]
    fences = {
        line.partition(" ")[0] for line in shown["manifest-keys"].splitlines() if line.endswith("(a fence)")
    }
    layout = ManifestLayout("prod/delays")
    first, last = (decode_pointer(shown[name].encode(), where=name) for name in ("pointer-first", "pointer"))
    snapshot = decode_snapshot(shown["snapshot"].encode(), where="snapshot")
    full = decode_manifest(snapshot.pointer.manifest, shown["full"].encode(), where="full")
    incremental = decode_manifest(last.manifest, shown["incremental"].encode(), where="incremental")
    files = [
        L0File(name.epoch, name.number, key, 0 if key in fences else 1)
        for key in keys
        if (name := layout.parse_l0(key)) is not None
    ]

    assert (first.manifest, first.infos, first.table_id) == (NO_MANIFEST, (), last.table_id)
    assert (full.base, incremental.base, incremental.chain) == (
        None,
        full.name,
        (full.name, incremental.name),
    )
    assert {layout.manifest_key(name) for name in incremental.chain} <= set(keys)
    assert {layout.sst_key(sst.file) for sst in (*full.adds, *incremental.adds)} <= set(keys)
    assert layout.snapshot_key(full.name, snapshot.id) in keys
    for name, pointer, upto in (
        ("worked-example", snapshot.pointer, full.last_compacted),
        ("after-the-second-commit", last, incremental.last_compacted),
    ):
        walked = walk(pointer.infos, upto, files)
        assert shown[name].splitlines()[1] == f"[{', '.join(f'{f.epoch}.{f.number}' for f in walked)}]"
    assert shown["worked-example"].endswith("[3.7, 3.6, 2.5, 2.4, 2.3, 1.2]")
    assert [(e, n) for e, n, _ in snapshot.l0] == [(3, 7), (3, 6), (2, 5), (2, 4), (2, 3), (1, 2)]


def test_the_fields_on_the_page_are_all_of_the_transaction():
    """The bytes before each value, and the values, are the whole object."""
    shown = SHOWN["writer-catalog.md"]
    data = bytes.fromhex(shown["transaction"])
    lines = [
        (int(line[:5]), bytes.fromhex(line[7:].partition("  ")[0]))
        for line in shown["transaction-fields"].splitlines()
    ]
    assert [start for start, _ in lines] == sorted({start for start, _ in lines})
    assert all(data[start : start + len(head)] == head for start, head in lines)
    ends = [*(start for start, _ in lines[1:]), len(data)]
    for (start, head), end in zip(lines, ends, strict=True):
        value = data[start + len(head) : end]
        assert not value or head[-1] == len(value), "every byte belongs to a value that is shown"


def test_the_log_of_records_is_one_life():
    """The pack and the objects on the page are all of the log, and nothing is there that nobody sees any more."""
    shown = SHOWN["record-log.md"]
    keys = shown["log-keys"].splitlines()
    layout = SequenceLayout("prod")
    horizon = decode_horizon(shown["collected-horizon"].encode(), where="horizon")
    pack = decode_pack(1, shown["pack"].encode(), where="pack")
    left = [number for key in keys if (number := layout.parse_record(key)) is not None]

    assert [record.number for record in pack.records] + left == [1, 2, 3, 4]
    assert pack.hi == horizon.lo == min(horizon.horizon, horizon.applied, left[-1] - 1)
    assert decode_commit(3, SHOWN["records.md"]["commit"].encode(), where="commit") == pack.records[2]
    replaced = {write.id for write in pack.records[2].group[0].writes}
    entries = {(key.split("___")[2], int(key.split("___")[3])) for key in keys if "/indices/" in key}
    assert not {(id, 2) for id in replaced} & entries


def test_the_records_are_one_life():
    """Keys, entries, rows and the commit on the page belong together."""
    shown = SHOWN["records.md"]
    keys = shown["record-keys"].splitlines()
    definition = RecordDefinition.decode(shown["record-definition"].encode(), "definition")
    layout = definition.layout("prod/people")
    named = zip(("row", "tombstone"), [key for key in keys if "/data/" in key], strict=True)
    rows = [decode_row(shown[name].encode(), key=key, where=name) for name, key in named]
    commit = decode_commit(3, shown["commit"].encode(), where="commit")

    assert [layout.row(row.id) for row in rows] == [key for key in keys if "/data/" in key]
    entries = {layout.entry_of_stem(stem, v.seq) for row in rows for v in row.versions for stem in v.entries}
    assert entries == {key for key in keys if "/indices/" in key}
    ((write,),) = [member.writes for member in commit.group]
    newest = rows[0].versions[0]
    assert (write.id, write.body, write.entries, commit.number) == (
        rows[0].id,
        newest.body,
        newest.entries,
        newest.seq,
    )
    assert rows[1].versions[0].deleted
    etag = SingleVersion.from_text(shown["lone-row-etag"])
    lone = decode_lone_row(shown["lone-row"].encode(), "", key="DTW.json", where="row")
    assert lone.version.nonces[1:] == etag.nonces
    coming = decode_cursor(shown["cursor"].encode(), where="cursor")
    done = decode_cursor(shown["cursor-done"].encode(), where="cursor")
    assert (coming.batch_id, coming.settled) == (f"{coming.id}/3-4", False)
    assert done == coming.done() and done.settled

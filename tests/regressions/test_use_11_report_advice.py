"""The report recommended nothing but sweep: neither for small files, nor where nothing was ever compacted."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import firn
from cli_runs import done
from firn.inspect.report.advice import Advice, keyed_advice, lake_advice, records_advice
from firn.inspect.report.facts import table_facts
from firn.inspect.report.keyed_facts import keyed_facts
from firn.inspect.report.report import render_report


def follow(advice: Advice, *more: str) -> None:
    done(*shlex.split(advice.command)[1:], *more)


def lake(table: firn.LakeTable) -> list[Advice]:
    return list(lake_advice(table_facts(table)))


def test_small_files_are_to_be_merged_and_what_is_replaced_swept(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("t")
    assert lake(table) == []
    for n in range(5):
        table.append([{"n": n}])
    (merge,) = lake(table)
    assert "5 small files would become 1, so a scan of all rows makes 4 requests less" in merge.why
    follow(merge)
    (sweep,) = lake(table)
    assert sweep.why.startswith("Sweep: 5 files (")
    follow(sweep, "--older-than", "0s", "--orphans", "0s")
    assert lake(table) == []
    assert table.scan().count() == 5


def test_soft_deletes_are_to_be_merged(tmp_path: Path) -> None:
    table = firn.connect(tmp_path, writer="w").create_table("t", journal="writer")
    table.append([{"n": n} for n in range(5)])
    table.delete("n = 1")
    merge = lake(table)[0]
    assert "1 file with soft deletes would be written without the rows that are deleted" in merge.why
    follow(replace(merge, command=merge.command.replace("ID", "w")))
    assert not any("Merge" in advice.why for advice in lake(table))


def test_partitions_that_no_merge_joins_are_to_be_larger(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("t", partition_by=["n"])
    table.append([{"n": n} for n in range(16)])
    (advice,) = lake(table)
    assert advice.why.startswith("Partition coarser: 16 partitions hold ")
    assert "about 1 file of up to 128.0 MB" in advice.why
    facts = table_facts(table)
    files = tuple(f._replace(size=2**27) for f in facts.snapshot.files)
    assert list(lake_advice(replace(facts, snapshot=replace(facts.snapshot, files=files)))) == []


def test_a_keyed_table_that_was_never_compacted_is_to_be(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("k", kind="keyed")
    assert list(keyed_advice(keyed_facts(table))) == []
    with table.open(compaction=False) as kv:
        for n in range(3):
            kv.put(str(n).encode(), b"v")
    (compact,) = keyed_advice(keyed_facts(table))
    assert "nothing was ever compacted, and a get asks up to 3 sorted runs" in compact.why
    follow(compact)
    advice = list(keyed_advice(keyed_facts(table)))
    assert [a.why.partition(":")[0] for a in advice] == ["Sweep"]
    follow(advice[0], "--older-than", "0s")
    assert list(keyed_advice(keyed_facts(table))) == []


def test_deletes_and_checkpoints_of_a_keyed_table(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("k", kind="keyed")
    with table.open(compaction=False) as kv:
        kv.put(b"a", b"1")
    table.compact()
    table.checkpoint("monday")
    (advice,) = [a for a in keyed_advice(keyed_facts(table)) if "never expire" in a.why]
    assert advice.why.endswith("monday.")
    follow(replace(advice, command=advice.command.replace("NAME", "monday")))
    facts = keyed_facts(table)
    assert not any("never expire" in a.why for a in keyed_advice(facts))
    runs = (replace(facts.runs[0], entries=10, deletes=5),)
    assert "5 deletes take room" in next(keyed_advice(replace(facts, runs=runs))).why


def test_a_long_log_of_record_tables_is_to_be_swept() -> None:
    assert list(records_advice("./prod/r", commits=999)) == []
    (advice,) = records_advice("./prod/r", commits=5000)
    assert "the log holds 5,000 commits" in advice.why
    assert advice.command == "firn records sweep ./prod/r"


def test_the_page_shows_advice_of_all_kinds(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    for n in range(2):
        db.create_table(f"t{n}").append([{"n": 1}])
        db.table(f"t{n}", kind="lake").append([{"n": 1}])
    db.create_table("k", kind="keyed")
    db.create_table("r", kind="records").insert("a", {})
    text = render_report(db)[0]
    assert text.count("What to do next") == 4
    assert text.count("Nothing: all is in order.") == 2
    assert f"<code>firn merge {db.bucket.uri('t1')}</code>" in text

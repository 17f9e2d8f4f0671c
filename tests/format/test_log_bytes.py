"""The bytes of a log are frozen: those that this version writes, and that what it reads it writes again."""

from __future__ import annotations

import icedb_reader
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.errors import CorruptObjectError
from firn.journal.leaderless.format.codec import Log, decode, encode
from firn.journal.leaderless.replay.replay import fold
from firn.journal.model import DataFile

NAME = "1767258000753_web-7-fd07db979162f80a.jsonl"
MERGE_NAME = "1767261660766_m_web-7-b9bd7a5a019e0d4d.jsonl"

APPEND = Log(
    NAME,
    1767258000753,
    {"date": "TIMESTAMP", "größe": "DECIMAL(3,2)"},
    [DataFile("db/t/_data/date_month=2001-01/part-a-0.parquet", 2440, 1767258000001, {"rows": 120})],
    notes={"op": "append", "adds": 1, "rows": 120, "bytes": 2440, "batch": "b/1"},
    nonce="56f0a391",
)
APPEND_BYTES = (
    '{"v":1,"sch":1,"f":3,"t":1767258000753,"firn":{"v":1,"id":"56f0a391","crc":2595669035,"head":129078065}}\n'
    '{"date":"TIMESTAMP","größe":"DECIMAL(3,2)"}\n'
    '{"firn":{"op":"append","adds":1,"rows":120,"bytes":2440,"batch":"b/1"}}\n'
    '{"p":"db/t/_data/date_month=2001-01/part-a-0.parquet","b":2440,"t":1767258000001,"firn":{"rows":120}}'
).encode()

MERGE = Log(
    MERGE_NAME,
    1767261660766,
    {"date": "TIMESTAMP"},
    [DataFile("db/t/_data/a.parquet", 10, 1), DataFile("db/t/_data/b.parquet", 20, 2)],
    dead={"db/t/_data/a.parquet": 1767261660766},
    tombstones={f"db/t/_log/{NAME}": 1767261660766},
    notes={"op": "merge", "complete": True},
    nonce="3aba3260",
)
MERGE_BYTES = (
    b'{"v":1,"sch":1,"f":4,"t":1767261660766,"tmb":3,"firn":{"v":1,"id":"3aba3260","crc":3296556574,"head":244665934}}\n'
    b'{"date":"TIMESTAMP"}\n'
    b'{"firn":{"op":"merge","complete":true}}\n'
    b'{"p":"db/t/_log/1767258000753_web-7-fd07db979162f80a.jsonl","t":1767261660766}\n'
    b'{"p":"db/t/_data/a.parquet","b":10,"t":1,"tmb":1767261660766}\n'
    b'{"p":"db/t/_data/b.parquet","b":20,"t":2}'
)

EMPTY_BYTES = (
    b'{"v":1,"sch":1,"f":3,"t":5,"firn":{"v":1,"id":"","crc":1118322227,"head":1130282647}}\n'
    b'{}\n{"firn":{"op":"reserve"}}'
)


def test_an_append_is_these_bytes():
    assert encode(APPEND) == APPEND_BYTES


def test_a_merge_is_these_bytes():
    assert encode(MERGE) == MERGE_BYTES


def test_a_reservation_is_these_bytes_and_means_nothing_to_the_reference():
    assert encode(Log("5_m_x.jsonl", 5, notes={"op": "reserve"})) == EMPTY_BYTES
    assert icedb_reader.read({"t/_log/5_m_x.jsonl": EMPTY_BYTES}, "t").markers == {}


def test_these_bytes_are_read_back():
    assert decode(NAME, APPEND_BYTES, where="x") == APPEND
    assert decode(MERGE_NAME, MERGE_BYTES, where="x") == MERGE


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
times = st.integers(min_value=0, max_value=2**53)
extras = st.none() | st.fixed_dictionaries({"rows": st.integers(min_value=0, max_value=2**40), "spec": texts})


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Logs as Firn makes them, of few paths, so that they speak of the same ones."""
    t = draw(st.integers(min_value=10**12, max_value=10**12 + 20))
    maintenance = draw(st.booleans())
    paths = draw(st.lists(st.sampled_from([f"t/_data/{n}.parquet" for n in "abcde"]), unique=True))
    files = [DataFile(path, draw(times), draw(times), draw(extras)) for path in paths]
    buried = draw(st.lists(st.sampled_from(paths), unique=True)) if paths else []
    return Log(
        f"{t}_{'m_' if maintenance else ''}host-{draw(st.integers(0, 999))}.jsonl",
        t,
        draw(st.dictionaries(texts, st.just("BIGINT"), max_size=3)),
        files,
        {path: draw(times) for path in paths if path in buried},
        draw(st.dictionaries(texts.map(lambda name: f"t/_log/{name}"), times, max_size=3)),
        draw(st.dictionaries(texts, times, max_size=2)),
        draw(texts),
    )


@given(logs())
def test_encode_and_decode_are_inverse(log):
    data = encode(log)
    assert decode(log.name, data, where="x") == log
    assert encode(decode(log.name, data, where="x")) == data


@given(logs(), st.integers(0, 2**20), st.booleans())
def test_a_bit_that_flips_in_a_log_and_a_log_that_is_cut_are_noticed(log, at, header):
    data = encode(log)
    place = at % (8 * (data.index(b"\n") + 1 if header else len(data)))
    flipped = bytearray(data)
    flipped[place // 8] ^= 1 << place % 8
    for damaged in (bytes(flipped), data[: place // 8]):
        with pytest.raises(CorruptObjectError, match="the log"):
            decode(log.name, damaged, where="the log")


@given(st.lists(logs(), max_size=5, unique_by=lambda log: log.name))
def test_the_reference_folds_the_same_state(made):
    theirs = icedb_reader.read({f"t/_log/{log.name}": encode(log) for log in made}, "t")
    ours = fold(made)
    assert {f.path for f in ours.live} == theirs.alive
    assert {p: f.size for p, f in ours.files.items()} == {p: m.size for p, m in theirs.markers.items()}
    assert dict(ours.dead) == {p: m.tombstone for p, m in theirs.markers.items() if m.tombstone is not None}

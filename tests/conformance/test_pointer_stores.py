"""One suite over every place where a keyed table's pointer can live: each kind of bucket, and DynamoDB."""

from __future__ import annotations

import contextlib
import pickle
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from firn.bucket import Bucket, open_bucket
from firn.errors import FencedError, ObjectChangedError, ObjectExistsError, TableExistsError
from firn.journal.manifest import BucketPointerStore, ManifestJournal, PointerStore
from firn.journal.manifest.dynamo import DynamoPointerStore
from stores.servers import Server

Opener = Callable[[], PointerStore]
"""A client of one and the same pointer, anew each time."""


@pytest.fixture(
    params=[
        "memory",
        "directory",
        "s3-moto",
        "dynamodb-moto",
        pytest.param("s3-versitygw", marks=pytest.mark.stores),
        pytest.param("azurite", marks=pytest.mark.stores),
    ]
)
def opener(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    servers: Callable[[str], Server],
    monkeypatch: pytest.MonkeyPatch,
) -> Opener:
    kind: str = request.param
    if kind == "dynamodb-moto":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        endpoint = servers("s3-moto").options["endpoint"]
        table = f"pointers-{uuid.uuid4().hex[:12]}"
        boto3.client("dynamodb", region_name="us-east-1", endpoint_url=endpoint).create_table(
            TableName=table,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return lambda: DynamoPointerStore.from_url(
            f"dynamodb://{table}/db/delays?region=us-east-1&endpoint={endpoint}"
        )
    if kind in ("memory", "directory"):
        url = f"memory://{uuid.uuid4().hex}" if kind == "memory" else str(tmp_path)
        return lambda: BucketPointerStore(open_bucket(url), "db/pointer")
    server = servers(kind)
    url = server.new_bucket()
    return lambda: BucketPointerStore(open_bucket(url, options=server.options), "db/pointer")


@pytest.fixture
def pointers(opener: Opener) -> PointerStore:
    return opener()


def body(text: str) -> tuple[bytes, str]:
    """A body with a nonce of its own."""
    nonce = uuid.uuid4().hex
    return f'{{"n": "{text}", "nonce": "{nonce}"}}'.encode(), nonce


def put(pointers: PointerStore, text: str, etag: str | None = None) -> str:
    data, nonce = body(text)
    return pointers.create(data, nonce=nonce) if etag is None else pointers.swap(data, etag, nonce=nonce)


def test_it_is_created_once(pointers: PointerStore) -> None:
    assert pointers.get() is None
    etag = put(pointers, "1")
    found = pointers.get()
    assert found is not None and found.etag == etag and b'"n": "1"' in found.data
    with pytest.raises(ObjectExistsError):
        put(pointers, "2")
    again = pointers.get()
    assert again is not None and again.data == found.data


def test_only_the_version_that_was_read_is_replaced(pointers: PointerStore) -> None:
    first = put(pointers, "1")
    second = put(pointers, "2", first)
    assert first != second
    with pytest.raises(ObjectChangedError):
        put(pointers, "3", first)
    found = pointers.get()
    assert found is not None and (found.etag, b'"n": "2"' in found.data) == (second, True)


def test_what_was_there_before_is_another_version(pointers: PointerStore) -> None:
    """A, B, A: the nonce tells them apart."""
    first = put(pointers, "A")
    put(pointers, "A", put(pointers, "B", first))
    with pytest.raises(ObjectChangedError):
        put(pointers, "C", first)


def test_where_there_is_none(pointers: PointerStore) -> None:
    etag = put(pointers, "1")
    pointers.delete()
    pointers.delete()
    assert pointers.get() is None
    with pytest.raises(ObjectChangedError):
        put(pointers, "2", etag)
    put(pointers, "3")


def test_its_name_is_in_messages(pointers: PointerStore) -> None:
    put(pointers, "1")
    with pytest.raises(ObjectExistsError) as raised:
        put(pointers, "2")
    assert pointers.where in str(raised.value)


def test_of_many_creators_one_wins(opener: Opener) -> None:
    won = []

    def work(name: str) -> None:
        with contextlib.suppress(ObjectExistsError):
            won.append((name, put(opener(), name)))

    _at_once(work, 8)
    found = opener().get()
    assert len(won) == 1 and found is not None
    assert found.etag == won[0][1] and won[0][0].encode() in found.data


def test_no_swap_is_lost(opener: Opener) -> None:
    """Each adds to what it has read; all that were answered with success are in the end."""
    put(opener(), ".")
    done: list[str] = []

    def work(name: str) -> None:
        pointers = opener()
        for n in range(5):
            while True:
                found = pointers.get()
                assert found is not None
                told = found.data.decode().split('"')[3]
                try:
                    put(pointers, f"{told}{name}{n}.", found.etag)
                    break
                except ObjectChangedError:
                    continue
            done.append(f".{name}{n}.")

    _at_once(work, 4)
    found = opener().get()
    assert found is not None and len(done) == 20
    assert all(found.data.decode().count(each) == 1 for each in done)


def _at_once(work: Callable[[str], None], number: int) -> None:
    failures: list[BaseException] = []

    def guarded(name: str) -> None:
        try:
            work(name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(chr(97 + n),)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_it_goes_where_its_table_goes(opener: Opener) -> None:
    """To another process, but for the one that lives in this."""
    pointers = opener()
    etag = put(pointers, "1")
    if "memory" not in pointers.where:
        found = pickle.loads(pickle.dumps(pointers)).get()
        assert found is not None and found.etag == etag


def test_a_table_over_it(opener: Opener, tmp_path: Path) -> None:
    """The whole protocol: writers that fence each other, a compactor, a snapshot, a sweep."""
    bucket: Bucket = open_bucket(str(tmp_path / "data"))

    def journal() -> ManifestJournal:
        return ManifestJournal(bucket, "db/t", pointers=opener())

    journal().create({}, first_epoch=1)
    with pytest.raises(TableExistsError):
        journal().create({}, first_epoch=2)
    first = journal().open_writer()
    first.put_l0(0, b"flush 0")
    first.confirm(0)
    second = journal().open_writer(strict=True)
    assert (second.epoch, second.next_number) == (2, 1)
    with pytest.raises(FencedError):
        first.put_l0(1, b"of a zombie")
        first.confirm(1)
    second.put_l0(1, b"flush 1")
    second.confirm(1)
    kept = journal().snapshot(name="kept", expires_ms=None)
    compactor = journal().open_compactor()
    compactor.commit(adds=[], deletes=[], last_compacted=1)
    journal().collect(l0_min_age_s=0, buffer_s=0)
    assert [file.number for file in journal().view_of(kept).l0] == [1, 0]
    view = journal().read()
    assert view.l0 == () and view.last_l0 == 1
    journal().open_compactor()
    with pytest.raises(FencedError):
        compactor.commit(adds=[], deletes=[], last_compacted=1)
    assert not bucket.list("db/t/_metadata/current_manifest").objects or "dynamodb" not in opener().where
    journal().drop()
    assert not journal().exists()

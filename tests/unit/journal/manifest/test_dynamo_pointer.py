"""The pointer in DynamoDB, against moto's."""

from __future__ import annotations

import pickle
import sys

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoRegionError,
    ReadTimeoutError,
)
from moto import mock_aws

from firn.errors import (
    AccessDeniedError,
    FencedError,
    FirnError,
    InvalidInputError,
    NotFoundError,
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
    StoreUnavailableError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.manifest import ManifestJournal
from firn.journal.manifest.dynamo import MAX_ITEM_BYTES, DynamoPointerStore, open_pointers
from firn.testing import SimStore
from manifest_tables import names, put

NONCE = "0123456789abcdef"


@pytest.fixture(autouse=True)
def service(monkeypatch):
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "nobody"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "eu-west-1"),
    ):
        monkeypatch.setenv(name, value)
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="pointers",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield


@pytest.fixture
def pointers():
    return DynamoPointerStore("pointers", "prod/delays")


class Faulty:
    """A client whose next put fails: before it reaches the service, or after."""

    def __init__(self, pointers, error, *, lands, meanwhile=None):
        self.client = pointers._client()
        self.error, self.lands, self.meanwhile = error, lands, meanwhile
        pointers._connected = self

    def put_item(self, **call):
        error, self.error = self.error, None
        if error is None or self.lands:
            answer = self.client.put_item(**call)
        if error is not None:
            if self.meanwhile is not None:
                self.meanwhile()
            raise error
        return answer

    def __getattr__(self, name):
        return getattr(self.client, name)


def refused(code, status=400, retries=0, operation="PutItem"):
    metadata = {"HTTPStatusCode": status, "RetryAttempts": retries}
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": metadata}, operation)


TIMEOUT = ReadTimeoutError(endpoint_url="http://x")
CLOSED = ConnectionClosedError(endpoint_url="http://x")


def test_it_is_created_once_and_swapped_by_version(pointers):
    assert pointers.get() is None
    first = pointers.create(b"1", nonce="n1")
    with pytest.raises(ObjectExistsError, match="dynamodb://pointers/prod/delays exists already"):
        pointers.create(b"x", nonce="n2")
    second = pointers.swap(b"2", first, nonce="n2")
    with pytest.raises(ObjectChangedError, match="changed or deleted by somebody else"):
        pointers.swap(b"3", first, nonce="n3")
    found = pointers.get()
    assert (found.data, found.etag, found.modified_ms) == (b"2", second, None)
    pointers.delete()
    pointers.delete()
    assert pointers.get() is None
    with pytest.raises(ObjectChangedError):
        pointers.swap(b"3", second, nonce="n3")


def test_items_of_one_table_are_apart(pointers):
    other = DynamoPointerStore("pointers", "prod/flights")
    pointers.create(b"1", nonce="n1")
    assert other.get() is None
    other.create(b"2", nonce="n2")
    assert pointers.get().data == b"1"


@pytest.mark.parametrize(
    "error", [TIMEOUT, CLOSED, refused("InternalServerError", 500), refused("Throttling", retries=2)]
)
def test_a_put_that_landed_unanswered_is_known_by_its_nonce(pointers, error):
    Faulty(pointers, error, lands=True)
    etag = pointers.create(b"1", nonce="n1")
    Faulty(pointers, error, lands=True)
    assert pointers.swap(b"2", etag, nonce="n2") == "n2"


def test_a_refusal_that_is_the_echo_of_a_retry_is_a_success(pointers):
    Faulty(pointers, refused("ConditionalCheckFailedException", retries=1), lands=True)
    etag = pointers.create(b"1", nonce="n1")
    Faulty(pointers, refused("ConditionalCheckFailedException", retries=1), lands=True)
    assert pointers.swap(b"2", etag, nonce="n2") == "n2"


@pytest.mark.parametrize(
    "error", [TIMEOUT, refused("InternalServerError", 500), refused("Throttling", retries=2)]
)
def test_a_put_that_may_yet_land_is_in_doubt(pointers, error):
    Faulty(pointers, error, lands=False)
    with pytest.raises(OutcomeUnknownError, match="may yet happen"):
        pointers.create(b"1", nonce="n1")
    etag = pointers.create(b"1", nonce="n1")
    Faulty(pointers, error, lands=False)
    with pytest.raises(OutcomeUnknownError, match="may yet happen"):
        pointers.swap(b"2", etag, nonce="n2")


def test_a_put_in_doubt_that_somebody_overtook_can_land_no_more(pointers):
    rival = DynamoPointerStore("pointers", "prod/delays")
    Faulty(pointers, TIMEOUT, lands=False, meanwhile=lambda: rival.create(b"r", nonce="r1"))
    with pytest.raises(ObjectExistsError):
        pointers.create(b"1", nonce="n1")
    Faulty(pointers, TIMEOUT, lands=False, meanwhile=lambda: rival.swap(b"r", "r1", nonce="r2"))
    with pytest.raises(ObjectChangedError):
        pointers.swap(b"2", "r1", nonce="n2")


def test_a_doubt_that_cannot_be_looked_into_stays_one(pointers):
    faulty = Faulty(pointers, TIMEOUT, lands=True)

    def get_item(**call):
        raise EndpointConnectionError(endpoint_url="http://x")

    faulty.get_item = get_item
    with pytest.raises(OutcomeUnknownError, match="reading it back failed"):
        pointers.create(b"1", nonce="n1")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refused("ThrottlingException"), StoreUnavailableError),
        (refused("ProvisionedThroughputExceededException"), StoreUnavailableError),
        (refused("ValidationException"), StoreUnavailableError),
        (refused("AccessDeniedException"), AccessDeniedError),
        (refused("UnrecognizedClientException"), AccessDeniedError),
        (NoRegionError(), AccessDeniedError),
        (refused("ResourceNotFoundException"), NotFoundError),
    ],
)
def test_what_is_known_not_to_have_happened_is_said_so(pointers, error, kind):
    Faulty(pointers, error, lands=False)
    with pytest.raises(kind, match="dynamodb://pointers/prod/delays"):
        pointers.create(b"1", nonce="n1")
    assert pointers.get() is None


def test_a_missing_table_says_what_to_create():
    with pytest.raises(
        NotFoundError, match="no table 'nowhere' there; create it with the string hash key 'id'"
    ):
        DynamoPointerStore("nowhere", "x").get()
    with pytest.raises(FirnError):
        DynamoPointerStore("nowhere", "x").delete()


def test_an_item_is_bounded(pointers):
    pointers.create(b"x" * (MAX_ITEM_BYTES - 200), nonce=NONCE)
    with pytest.raises(UnsupportedError, match="400000 at most"):
        pointers.swap(b"x" * MAX_ITEM_BYTES, NONCE, nonce="n2")
    assert len(pointers.get().data) == MAX_ITEM_BYTES - 200


def test_urls():
    store = DynamoPointerStore.from_url(
        "dynamodb://pointers/prod%20a/delays?region=eu-west-1&endpoint=http%3A//x%3A1"
    )
    assert store.where == "dynamodb://pointers/prod a/delays"
    assert (store._region, store._endpoint) == ("eu-west-1", "http://x:1")
    for bad in (
        "dynamodb://pointers",
        "dynamodb:///item",
        "s3://bucket/item",
        "dynamodb://key:secret@pointers/item",
        "dynamodb://pointers/item?secret=x",
        f"dynamodb://pointers/{'x' * 2049}",
    ):
        with pytest.raises(InvalidInputError) as caught:
            DynamoPointerStore.from_url(bad)
        assert "key:secret" not in str(caught.value)


def test_credentials_are_the_buckets_where_it_has_any(monkeypatch):
    options = {
        "AWS_ACCESS_KEY_ID": "them",
        "aws_secret_access_key": "secret",
        "endpoint": "http://s3",
        "timeout": "5s",
    }
    store = open_pointers("dynamodb://pointers/x", options)
    credentials = store._client()._request_signer._credentials
    assert (credentials.access_key, credentials.secret_key) == ("them", "secret")
    assert "dynamodb.eu-west-1" in store._client().meta.endpoint_url
    assert store.get() is None
    assert "secret" not in repr(store)


def test_without_boto3_it_says_what_to_install(pointers, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'firn\[dynamodb\]'"):
        pointers.get()


def test_it_travels(pointers):
    pointers.create(b"1", nonce="n1")
    assert pickle.loads(pickle.dumps(pointers)).get().data == b"1"


def test_a_table_whose_pointer_is_there(pointers):
    """The whole protocol: writers, fences, compaction, snapshots, collection. The bucket holds no pointer."""
    store = SimStore()

    def journal():
        bucket = store.bucket()
        return ManifestJournal(bucket, "t", pointers=pointers, clock=bucket.clock)

    with pytest.raises(TableNotFoundError, match="dynamodb://pointers/prod/delays does not exist"):
        journal().read()
    journal().create({}, 1)
    with pytest.raises(TableExistsError):
        journal().create({}, 1)
    old = journal().open_writer()
    old.put_l0(0, b"0")
    new = journal().open_writer(strict=True)
    new.put_l0(1, b"1")
    new.confirm(1)
    with pytest.raises(FencedError):
        old.put_l0(1, b"zombie")
    with pytest.raises(FencedError):
        old.poll()
    session = journal().open_compactor()
    session.commit(adds=[put(session)], deletes=[], last_compacted=0)
    assert journal().read() == session.view
    assert names(session.view) == [(2, 1)]
    ref = journal().snapshot()
    assert journal().view_of(ref).version == session.view.version
    assert journal().collect(l0_min_age_s=0, buffer_s=0).l0
    assert "t/_metadata/current_manifest" not in store
    journal().drop()
    assert not journal().exists()

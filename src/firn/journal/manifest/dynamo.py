"""The pointer in DynamoDB, or in whatever speaks its protocol: one item with a conditional put.

For stores that have no compare-and-swap of their own, or that bill it by the request. Needs boto3, the extra
`dynamodb`.

    id     string, the table's hash key: which pointer it is
    body   string: the pointer's JSON, as in the bucket
    etag   string: the pointer's nonce, new with each version

DynamoDB doesn't tell when an item was written by its own clock. So rule 20 never finds the pointer old enough,
and fences above last_compacted stay until compaction has passed them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from firn.errors import (
    AccessDeniedError,
    FirnError,
    InvalidInputError,
    NotFoundError,
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
    UnsupportedError,
)
from firn.journal.generations import directory
from firn.journal.manifest.pointer_store import StoredPointer

MAX_ITEM_BYTES: Final = 400_000
"""DynamoDB's bound on an item, names of attributes included: "400 KB", in the smaller reading."""

_CREDENTIALS: Final[tuple[str, ...]] = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_OVERHEAD: Final = 100  # names, the etag and what DynamoDB counts beside values
_REFUSED: Final = "ConditionalCheckFailedException"
_MISSING_TABLE: Final = "ResourceNotFoundException"
_DENIED: Final = re.compile(
    "AccessDenied|UnrecognizedClient|ExpiredToken|InvalidSignature|MissingAuth|InvalidClientTokenId"
)
_NOT_TAKEN: Final = re.compile("Throttling|ThroughputExceeded|RequestLimitExceeded|LimitExceeded")


class DynamoPointerStore:
    """A pointer store over one item of a DynamoDB table. Safe to use from several threads; picklable.

    Args:
        table: a table whose hash key is the string `id`; it has to exist.
        item: which item, up to 2,048 bytes: the keyed table's URL is a good one.
        region, endpoint: as boto3 takes them; by default from the environment, like the credentials.
        credentials: boto3's `aws_access_key_id`, `aws_secret_access_key` and `aws_session_token`.
    """

    def __init__(
        self,
        table: str,
        item: str,
        *,
        region: str | None = None,
        endpoint: str | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        if not table or not 0 < len(item.encode()) <= 2048:
            raise InvalidInputError(
                f"dynamodb://{table}/{item} is no pointer: it takes a table, and an item of 1 to 2,048 bytes"
            )
        self._table, self._item, self._region, self._endpoint = table, item, region, endpoint
        self._credentials = dict(credentials or {})
        self._connected: Any = None

    @classmethod
    def from_url(
        cls, url: str, *, credentials: Mapping[str, str] | None = None, generation: int = 0
    ) -> DynamoPointerStore:
        """The store of `dynamodb://table/item?region=…&endpoint=…`, as the table property `pointer_url` has it. The
        item is percent-decoded and may have slashes; that of a later table of the name ends in its generation. No
        request.

        Example:
            >>> DynamoPointerStore.from_url("dynamodb://pointers/prod/delays?region=eu-west-1").where
            'dynamodb://pointers/prod/delays'
            >>> DynamoPointerStore.from_url("dynamodb://pointers/prod/delays", generation=2).where
            'dynamodb://pointers/prod/delays~2'
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(options.keys() - {"region", "endpoint"})
        if parts.scheme != "dynamodb" or parts.username or unknown:
            what = f"the option {unknown[0]!r}" if unknown else "its form"
            raise InvalidInputError(
                f"{parts.scheme}://{parts.hostname or ''}{parts.path} is no pointer_url, by {what}: write "
                "dynamodb://table/item, with ?region= and &endpoint= if need be; credentials are the environment's"
            )
        return cls(
            parts.netloc,
            directory(unquote(parts.path.lstrip("/")), generation),
            region=options.get("region"),
            endpoint=options.get("endpoint"),
            credentials=credentials,
        )

    @property
    def where(self) -> str:
        return f"dynamodb://{self._table}/{self._item}"

    def get(self) -> StoredPointer | None:
        """None if there is none. 1 strongly consistent read."""
        client = self._client()
        try:
            answer = client.get_item(TableName=self._table, Key=self._key(), ConsistentRead=True)
        except self._errors() as error:
            raise self._meaning(error, "read") from error
        item = answer.get("Item")
        if item is None:
            return None
        return StoredPointer(str(item["body"]["S"]).encode(), str(item["etag"]["S"]), None)

    def create(self, data: bytes, *, nonce: str) -> str:
        """Errors and cost as `conditional.create`."""
        return self._put(data, None, nonce)

    def swap(self, data: bytes, etag: str, *, nonce: str) -> str:
        """Errors and cost as `conditional.swap`."""
        return self._put(data, etag, nonce)

    def delete(self) -> None:
        """Remove it; a missing one is fine. 1 write."""
        client = self._client()
        try:
            client.delete_item(TableName=self._table, Key=self._key())
        except self._errors() as error:
            raise self._meaning(error, "delete") from error

    def _put(self, data: bytes, etag: str | None, nonce: str) -> str:
        size = len(data) + len(self._item.encode()) + _OVERHEAD
        if size > MAX_ITEM_BYTES:
            raise UnsupportedError(
                f"{self.where} would have {size} bytes, and items of DynamoDB have {MAX_ITEM_BYTES} at most; compact "
                "the table, which forgets old writers, or keep less in its settings"
            )
        item = {**self._key(), "body": {"S": data.decode()}, "etag": {"S": nonce}}
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(id)"}
        if etag is not None:
            condition = {
                "ConditionExpression": "etag = :etag",
                "ExpressionAttributeValues": {":etag": {"S": etag}},
            }
        client = self._client()
        try:
            client.put_item(TableName=self._table, Item=item, **condition)
            return nonce
        except self._errors() as error:
            refused = _code(error) == _REFUSED
            if not refused:
                meaning = self._meaning(error, "write")
                if not isinstance(meaning, OutcomeUnknownError):
                    raise meaning from error
            cause = error
        return self._settle(etag, nonce, refused, cause)

    def _settle(self, etag: str | None, nonce: str, refused: bool, cause: Exception) -> str:
        """A refusal may be the echo of one's own success, and no answer may have been one: read it back."""
        try:
            found = self.get()
        except StoreError as error:
            raise OutcomeUnknownError(
                f"{self.where} was written without a clear answer, and reading it back failed: {error}"
            ) from error
        if found is not None and found.etag == nonce:
            return nonce
        if not refused and (found.etag if found is not None else None) == etag:
            raise OutcomeUnknownError(
                f"{self.where}: a write was sent and not answered; it may yet happen, look before retrying"
            ) from cause
        if etag is None:
            raise ObjectExistsError(f"{self.where} exists already, written by somebody else") from cause
        raise ObjectChangedError(f"{self.where} was changed or deleted by somebody else") from cause

    def _meaning(self, error: Exception, verb: str) -> FirnError:
        code = _code(error)
        if code == _MISSING_TABLE:
            return NotFoundError(
                f"{self.where}: DynamoDB has no table {self._table!r} there; create it with the string hash key 'id'"
            )
        if code is None and _is_unsent(error):
            return AccessDeniedError(
                f"{self.where}: no region or credentials for DynamoDB ({error}); set them in the environment"
            )
        if code is not None and _DENIED.search(code):
            return AccessDeniedError(
                f"{self.where}: no permission to {verb} ({code}); check the credentials' rights"
            )
        clear = code is not None and (_NOT_TAKEN.search(code) or _status(error) < 500) and not _retries(error)
        if clear or verb == "read":
            return StoreUnavailableError(
                f"{self.where}: cannot {verb} ({code or type(error).__name__}); retry later"
            )
        return OutcomeUnknownError(
            f"{self.where}: a {verb} was sent and not answered ({code or type(error).__name__}); look before retrying"
        )

    def _key(self) -> dict[str, Any]:
        return {"id": {"S": self._item}}

    def _client(self) -> Any:
        if self._connected is None:
            boto3, config = _boto3()
            try:
                self._connected = boto3.client(
                    "dynamodb",
                    region_name=self._region,
                    endpoint_url=self._endpoint,
                    **self._credentials,
                    config=config.Config(
                        retries={"mode": "standard", "total_max_attempts": 5},
                        connect_timeout=5,
                        read_timeout=10,
                    ),
                )
            except self._errors() as error:
                raise self._meaning(error, "connect") from error
        return self._connected

    def _errors(self) -> tuple[type[Exception], ...]:
        from botocore import exceptions

        return (exceptions.BotoCoreError, exceptions.ClientError)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connected": None}


def open_pointers(url: str, options: Mapping[str, Any], *, generation: int = 0) -> DynamoPointerStore:
    """The pointer store of a table property `pointer_url`. `options` are the bucket's: credentials are taken of
    them, by their names in either case; endpoints and regions are the store's own, so those stand in the URL. Later
    tables of a name, with a `generation`, have another item. No request.
    """
    given = {str(name).lower(): str(value) for name, value in options.items()}
    credentials = {name: given[name] for name in _CREDENTIALS if name in given}
    return DynamoPointerStore.from_url(url, credentials=credentials, generation=generation)


def _boto3() -> tuple[Any, Any]:
    try:
        import boto3
        from botocore import config
    except ImportError as error:
        raise UnsupportedError(
            "a pointer in DynamoDB needs boto3, which isn't installed: pip install 'firn[dynamodb]'"
        ) from error
    return boto3, config


def _code(error: Exception) -> str | None:
    """The service's own name of the error; None where it didn't answer."""
    response = getattr(error, "response", None)
    return None if response is None else str(response.get("Error", {}).get("Code", ""))


def _status(error: Exception) -> int:
    return int(_metadata(error).get("HTTPStatusCode", 500))


def _retries(error: Exception) -> int:
    """How often boto3 had sent it before: an attempt that wasn't answered may have landed."""
    return int(_metadata(error).get("RetryAttempts", 0))


def _metadata(error: Exception) -> dict[str, Any]:
    response: dict[str, Any] = getattr(error, "response", {})
    metadata: dict[str, Any] = response.get("ResponseMetadata", {})
    return metadata


def _is_unsent(error: Exception) -> bool:
    from botocore import exceptions

    return isinstance(
        error,
        (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.NoRegionError,
            exceptions.ProfileNotFound,
        ),
    )

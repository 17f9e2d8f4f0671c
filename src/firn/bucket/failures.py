"""The meaning of a store's error: an answer, known not to have happened, or in doubt.

obstore tells the HTTP status and the kind of a transport error only in its text, so that text is taken apart here,
once. Firn passes on only the server's own code and message, scrubbed: the text may hold signed URLs.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)


class Meaning(enum.Enum):
    """The first group answers the call, and no retry would change it; the second is worth retrying: a few times
    (what is wrong with this machine or the options stays wrong), or for long."""

    MISSING = "missing"
    NO_BUCKET = "no bucket"
    EXISTS = "exists"
    CHANGED = "changed"
    DENIED = "denied"
    BAD_RANGE = "bad range"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"

    NO_CREDENTIALS = "no credentials"
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    IN_DOUBT = "in doubt"

    @property
    def retriable(self) -> bool:
        return self.lasting or self in (Meaning.FAILED, Meaning.IN_DOUBT)

    @property
    def lasting(self) -> bool:
        """Worth a few attempts only."""
        return self in (Meaning.NO_CREDENTIALS, Meaning.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt; `reason` is fit for a message."""

    meaning: Meaning
    reason: str


_STATUS = re.compile(r"status code: (\d{3})|\bstatus: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z0-9_.]{1,80})</Code>")
_DELETE_CODE = re.compile(r"\(code: ([A-Za-z0-9_.]{1,80})\)")
_MESSAGE = re.compile(r"<Message>(.{1,300}?)(?:</Message>|\n|$)", re.DOTALL)
_CREDENTIAL_SOURCES = re.compile(
    r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|login\.microsoftonline\.com"
    r"|https://sts\.|https://oauth2\.googleapis\.com|credential provider|getting credentials",
    re.IGNORECASE,
)

# A name that nobody knows (a name server that doesn't answer says "Temporary failure"), and a handshake that fails.
_UNREACHABLE = re.compile(
    r"Name or service not known|nodename nor servname|No such host|InvalidCertificate|InvalidMessage|AlertReceived"
)

_NO_SUCH_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "AccountNotFound", "FilesystemNotFound"})
# The other side of a race is still under way; S3 documents that the request is to be sent again.
_UNDECIDED = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_NOT_TAKEN = frozenset(
    {"RequestTimeout", "SlowDown", "ServiceUnavailable", "ServerBusy", "RequestLimitExceeded"}
)
_EXISTS_CODES = frozenset({"", "BlobAlreadyExists", "PathAlreadyExists", "ResourceAlreadyExists"})
_DENIED_CODES = frozenset({"AccessDenied", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"})


def classify(error: BaseException, secrets: Sequence[str] = ()) -> Failure:
    """The meaning of an exception that obstore raised; anything unknown is in doubt."""
    text = str(error)
    status_match = _STATUS.search(text)
    status = int(status_match[1] or status_match[2]) if status_match else None
    code_match = _CODE.search(text) or _DELETE_CODE.search(text)
    code = code_match[1] if code_match else ""
    meaning = _meaning(error, text, status, code)
    return Failure(meaning, _reason(text, status, code, secrets))


def scrub(text: str, secrets: Sequence[str] = ()) -> str:
    """The text without URLs, signatures, tokens and the given secrets."""
    for secret in secrets:
        text = text.replace(secret, "…")
    text = re.sub(r"[a-z][a-z0-9+.-]*://\S+", "…", text, flags=re.IGNORECASE)
    text = re.sub(
        r"\b(x-amz-[a-z-]+|authorization|signature|sig|token|awsaccesskeyid|secret\w*|password)\b(\s*[=:]\s*)\S+",
        r"\1\2…",
        text,
        flags=re.IGNORECASE,
    )
    return re.sub(r"\b(?:AKIA|ASIA)[A-Z0-9]{8,}\b|\bBearer\s+\S+", "…", text)


def _meaning(error: BaseException, text: str, status: int | None, code: str) -> Meaning:
    if _CREDENTIAL_SOURCES.search(text):
        return Meaning.NO_CREDENTIALS
    if code in _UNDECIDED or code in _NOT_TAKEN:
        return Meaning.FAILED
    if code in _NO_SUCH_BUCKET:
        return Meaning.NO_BUCKET
    if code in _DENIED_CODES or isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return Meaning.DENIED
    if isinstance(error, FileNotFoundError):
        return Meaning.MISSING
    if isinstance(error, AlreadyExistsError):
        # obstore reports every 409 as an existing object, whatever the server says.
        return Meaning.EXISTS if status != 409 or code in _EXISTS_CODES else Meaning.REFUSED
    if isinstance(error, PreconditionError):
        return Meaning.CHANGED
    # For operations that a store's driver lacks, like conditional replaces in a directory, obstore raises Python's
    # own error.
    if isinstance(error, NotSupportedError | NotImplementedError):
        return Meaning.UNSUPPORTED
    if status is not None:
        return _by_status(status)
    if "Received redirect without LOCATION" in text or not isinstance(error, BaseError):
        return Meaning.REFUSED
    if "StartTooLarge" in text:  # the memory store's 416
        return Meaning.BAD_RANGE
    if "kind: Builder" in text:  # the client made no request of it, and never will
        return Meaning.REFUSED
    if "kind: Connect" in text:  # refused, unreachable, unknown name, failed handshake: nothing was sent
        return Meaning.UNREACHABLE if _UNREACHABLE.search(text) else Meaning.FAILED
    return Meaning.IN_DOUBT


def _by_status(status: int) -> Meaning:
    if status in (401, 403):
        return Meaning.DENIED
    if status in (408, 425, 429, 503):
        return Meaning.FAILED
    if status == 416:
        return Meaning.BAD_RANGE
    if status == 501:
        return Meaning.UNSUPPORTED
    if 300 <= status < 500:
        return Meaning.REFUSED
    return Meaning.IN_DOUBT


def _reason(text: str, status: int | None, code: str, secrets: Sequence[str]) -> str:
    if status is not None:
        message = _MESSAGE.search(text)
        said = f": {scrub(' '.join(message[1].split()), secrets)}" if message else ""
        return f"{status} {code}".rstrip() + said
    if "kind: Timeout" in text or "TimedOut" in text:
        return "no answer in time"
    if "kind: Builder" in text:
        if "BadScheme" in text:
            return "http:// isn't allowed: set the option allow_http, or use an endpoint with https://"
        return "no request can be made of its address: check the options endpoint and region"
    if "kind: Connect" in text:
        if "dns error" in text:
            return "the host's name is unknown: check the options endpoint and region, and the network"
        if "InvalidCertificate" in text:
            return (
                "the server's certificate isn't trusted: set the option root_certificate to that of its authority, "
                "or allow_invalid_certificates"
            )
        if "InvalidMessage" in text or "AlertReceived" in text:
            return "the server doesn't speak TLS as asked: is its endpoint http:// instead of https://?"
        return "connection refused" if "ConnectionRefused" in text else "no connection"
    if "kind: Request" in text or "kind: Interrupted" in text or "kind: Body" in text:
        return "the connection broke"
    first = text.partition("\n")[0].partition("Debug source")[0]
    return scrub(first[:300], secrets) or "an error without a text"

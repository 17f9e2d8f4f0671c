"""Options of a bucket, sorted into those of the store, of its HTTP client and of Firn itself."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firn.bucket.retry import RetryPolicy
from firn.bucket.urls import Kind
from firn.errors import InvalidInputError
from firn.units import parse_duration

CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_DURATIONS = frozenset({"connect_timeout", "read_timeout", "timeout", "pool_idle_timeout"})

# A stalled connection shows within `read_timeout`; a large body that keeps moving gets `timeout`.
_CLIENT_DEFAULTS: Mapping[str, str] = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "300s"}

_PREFIXES: Mapping[Kind, str] = {"s3": "aws", "gcs": "google", "azure": "azure"}
_ENDPOINTS = ("endpoint_url_s3", "endpoint_url", "endpoint", "storage_endpoint", "base_url")

_ENDPOINT = re.compile(r"https?://[^\s/]+\S*", re.IGNORECASE)

_SECRET_NAME = re.compile(
    r"key|secret|token|password|sas|credential|certificate|header|proxy_url|service_account"
)


@dataclass(frozen=True)
class Options:
    """`store` and `client` are obstore's; the rest is Firn's. Never shown: they may hold credentials."""

    store: Mapping[str, Any] = field(default_factory=dict, repr=False)
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    conditional_put: bool = True
    bulk_delete: bool = False
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class StoreOptions(dict[str, Any]):
    """Options as the user gave them; shown with their secrets hidden, as in a notebook or a traceback.

    >>> StoreOptions({"aws_region": "eu-north-1", "aws_secret_access_key": "hunter2"})
    {'aws_region': 'eu-north-1', 'aws_secret_access_key': '…'}
    """

    def __repr__(self) -> str:
        return repr({name: "…" if _SECRET_NAME.search(str(name).lower()) else self[name] for name in self})

    __str__ = __repr__


def sort_options(kind: Kind, options: Mapping[str, Any] | None) -> Options:
    """Check and sort. Names that only the store can judge stay in `store`; it refuses unknown ones.

    Raises:
        InvalidInputError: a value that is no duration, number or switch, or, for memory and
            directories, which take `conditional_put` alone, any other name.
    """
    given = {str(name).lower(): value for name, value in (options or {}).items()}
    conditional = given.pop("aws_conditional_put", given.pop("conditional_put", None))
    if conditional is None and kind == "s3":
        conditional = os.environ.get("AWS_CONDITIONAL_PUT")
    if conditional not in (None, "etag", "disabled"):
        raise InvalidInputError(f"the option conditional_put is {conditional!r}; say 'etag' or 'disabled'")
    if kind in ("directory", "memory"):
        if given:
            raise InvalidInputError(f"{_names(given)}: a {kind} bucket takes no option but conditional_put")
        return Options(conditional_put=conditional != "disabled")
    retry = _retry_policy(given)
    _settle_endpoint(kind, given)
    client = {**_CLIENT_DEFAULTS, **{name: value for name, value in given.items() if name in CLIENT_OPTIONS}}
    for name in _DURATIONS & client.keys():
        client[name] = f"{round(parse_duration(client[name]) * 1000)}ms"
    store = {name: _plain(name, value) for name, value in given.items() if name not in CLIENT_OPTIONS}
    if kind == "s3":
        store["conditional_put"] = "etag"
    no_bulk = store.get("disable_bulk_delete", store.get("aws_disable_bulk_delete", False))
    return Options(
        store=store,
        client=client,
        secrets=tuple(_secrets(given)),
        conditional_put=conditional != "disabled",
        bulk_delete=kind == "s3" and str(no_bulk).lower() not in ("true", "1"),
        retry=retry,
    )


def _settle_endpoint(kind: Kind, given: dict[str, Any]) -> None:
    """Check that endpoints are URLs, and settle `allow_http`: as it is given or stands in the environment, else by
    whether one of them begins with http://."""
    prefix = _PREFIXES[kind]
    switch = given.pop(f"{prefix}_allow_http", os.environ.get(f"{prefix.upper()}_ALLOW_HTTP"))
    found = False
    for name in (name for end in _ENDPOINTS for name in (end, f"{prefix}_{end}")):
        option = name in given
        endpoint = str(given[name] if option else os.environ.get(name.upper(), ""))
        if endpoint and not _ENDPOINT.fullmatch(endpoint):
            where = f"the option {name}" if option else f"{name.upper()} in the environment"
            raise InvalidInputError(f"{where} is no URL: write it like https://host or http://host:9000")
        found = found or endpoint.lower().startswith("http://")
    if switch is not None:
        given.setdefault("allow_http", switch)
    elif found:
        given.setdefault("allow_http", True)


def _retry_policy(given: dict[str, Any]) -> RetryPolicy:
    default = RetryPolicy()
    retries = given.pop("max_retries", default.attempts - 1)
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise InvalidInputError(f"the option max_retries is {retries!r}; say a number, 0 for none")
    retry_for = parse_duration(given.pop("retry_timeout", default.retry_for))
    return RetryPolicy(attempts=retries + 1, retry_for=retry_for)


def _plain(name: str, value: Any) -> str | bool:
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, os.PathLike)):
        return str(value)
    raise InvalidInputError(f"the option {name} is a {type(value).__name__}; give a string or a switch")


def _secrets(given: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in given.items():
        if _SECRET_NAME.search(name):
            values = value.values() if isinstance(value, Mapping) else [value]
            found += [v for v in values if isinstance(v, str) and len(v) >= 4]
    return found


def _names(given: Mapping[str, Any]) -> str:
    return "unknown option " + ", ".join(sorted(given))

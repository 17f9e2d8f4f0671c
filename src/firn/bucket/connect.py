"""obstore's store objects, made from an address and options; its own retries are off."""

from __future__ import annotations

import re
import threading
from typing import Any

import obstore.store
from obstore.exceptions import BaseError, UnknownConfigurationKeyError

from firn.bucket.failures import scrub
from firn.bucket.options import Options
from firn.bucket.urls import Address
from firn.errors import InvalidInputError

_named: dict[str, Any] = {}
_named_lock = threading.Lock()


def connect(address: Address, options: Options) -> Any:
    """The store behind an address. No request is made.

    Raises:
        InvalidInputError: an option that the store doesn't have, or a value it can't take.
    """
    if address.kind == "memory":
        return _memory(address.name)
    config = dict(options.store)
    if address.account is not None:
        config.setdefault("account_name", address.account)
    arguments = {
        "config": config,
        "client_options": dict(options.client),
        "retry_config": {"max_retries": 0},
    }
    try:
        if address.kind == "s3":
            return obstore.store.S3Store(address.name, **arguments)
        if address.kind == "gcs":
            return obstore.store.GCSStore(address.name, **arguments)
        return obstore.store.AzureStore(address.name, **arguments)
    except UnknownConfigurationKeyError as error:
        found = re.search(r"'([^']*)'", str(error))
        problem = f"unknown option {found[1] if found else ''}"
    except (BaseError, ValueError, TypeError) as error:
        problem = scrub(str(error).partition("\n")[0], options.secrets)
    raise InvalidInputError(f"cannot open {address.root}: {problem}; see the names of obstore's options")


def _memory(name: str) -> Any:
    if not name:
        return obstore.store.MemoryStore()
    with _named_lock:
        return _named.setdefault(name, obstore.store.MemoryStore())

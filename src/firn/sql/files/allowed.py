"""Files outside of the database that COPY may reach: those below the directories and prefixes that were allowed."""

from __future__ import annotations

import glob
import mmap
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from firn.bucket import open_bucket, split_url
from firn.bucket.base import Bucket
from firn.errors import AccessDeniedError, InvalidInputError, ObjectNotFoundError
from firn.sql.relation import SCHEME, BucketFile

_PATTERN: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class FoundFiles:
    """Files to read: paths of this machine, and objects of a bucket by the paths that DuckDB opens."""

    paths: list[str] = field(default_factory=list)
    objects: dict[str, BucketFile] = field(default_factory=dict)


class AllowedFiles:
    """Where COPY may read and write.

    Args:
        roots: directories, and bucket prefixes as URLs. What lies below them may be reached, through symbolic links,
            too, as long as they lead to a place below one of them.
        database: the bucket of the database and its prefix, which nothing reaches.
        options: of the stores of URLs, see `open_bucket`.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]] = (),
        database: tuple[Bucket, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        texts = [os.fspath(root) for root in roots]
        self._directories = [Path(os.path.realpath(text)) for text in texts if "://" not in text]
        self._urls = [text.rstrip("/") + "/" for text in texts if "://" in text]
        self._options = options
        self._database = database

    def read(self, path: str) -> FoundFiles:
        """The files that a path, or a pattern of `*`, `?` and `[…]`, means. Cost: in a bucket 1 LIST sequence.

        Raises:
            AccessDeniedError: a file that isn't below an allowed directory, or is the database's.
            ObjectNotFoundError: there is none.
        """
        if "://" in path:
            return self._objects(path)
        names = [path]
        if _PATTERN.search(path) and not os.path.exists(path):
            fixed = _PATTERN.split(path)[0]
            self._resolved(path, os.path.dirname(fixed) or ".")
            names = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
        found = [self._resolved(path, name) for name in names]
        if not found or not all(file.is_file() for file in found):
            raise ObjectNotFoundError(f"there is no file {path}.")
        return FoundFiles([str(file) for file in found])

    @contextmanager
    def written(self, path: str) -> Iterator[str]:
        """A file of this machine to write, which takes its place when all is written. Cost: in a bucket 1 PUT, of
        bytes that are in memory.

        Raises:
            AccessDeniedError: as of `read`.
        """
        if "://" in path:
            bucket, key = self._place(path)
            with tempfile.TemporaryDirectory(prefix="firn-") as scratch:
                written = os.path.join(scratch, os.path.basename(key))
                yield written
                with open(written, "rb") as file:
                    bucket.put(key, _bytes_of(file))
            return
        target = self._resolved(path, path)
        if target.is_dir():
            raise InvalidInputError(f"{path} is a directory: COPY … TO writes one file.")
        if not target.parent.is_dir():
            raise ObjectNotFoundError(f"{path} can't be written: there is no directory {target.parent}.")
        # the name ends alike, as DuckDB compresses by it
        new = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
        try:
            yield str(new)
            os.replace(new, target)
        finally:
            with suppress(FileNotFoundError):
                new.unlink()

    # -- how

    def _resolved(self, said: str, name: str) -> Path:
        """Where a path leads; `said` is what the statement says."""
        path = Path(os.path.realpath(name))
        if not any(path.is_relative_to(root) for root in self._directories):
            raise self._refusal(said)
        if self._database is not None:
            home = self._database[0].local_path("_firn")
            if home is not None and path.is_relative_to(os.path.realpath(os.path.dirname(home))):
                raise AccessDeniedError(f"COPY can't reach {said}: it lies in the database itself.")
        return path

    def _place(self, url: str) -> tuple[Bucket, str]:
        """A bucket, and a key in it."""
        if not any(url.startswith(root) for root in self._urls) or {"", ".", ".."} & set(url.split("/")[3:]):
            raise self._refusal(url)
        root, key = split_url(url)
        bucket = open_bucket(root, options=self._options)
        if self._database is not None:
            home, prefix = self._database
            if home.url == bucket.url and f"{key}/".startswith(f"{prefix}/" if prefix else ""):
                raise AccessDeniedError(f"COPY can't reach {url}: it lies in the database itself.")
        return bucket, key

    def _objects(self, url: str) -> FoundFiles:
        bucket, key = self._place(url)
        fixed = _PATTERN.split(key)[0]
        wanted = re.compile(_translated(key))
        found = {}
        for info in bucket.list(fixed).objects:
            if info.key == key or wanted.fullmatch(info.key):
                found[f"{SCHEME}copy/{quote(info.key)}"] = BucketFile(bucket, info.key, info.size)
        if not found:
            raise ObjectNotFoundError(f"there is no object {url}.")
        return FoundFiles(objects=found)

    def _refusal(self, said: str) -> AccessDeniedError:
        known = [*map(str, self._directories), *self._urls]
        allowed = f"only below {', '.join(known)}" if known else "nowhere"
        return AccessDeniedError(
            f"COPY may not reach {said}: files may be read and written {allowed}. Connect with allow_files=[…] "
            "(--allow-files) to allow a directory or a bucket's prefix."
        )


def _bytes_of(file: BinaryIO) -> memoryview:
    """A file's bytes, without reading them all at once."""
    if not os.fstat(file.fileno()).st_size:  # which can't be mapped
        return memoryview(b"")
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _translated(pattern: str) -> str:
    """A pattern of keys as a regular expression: `*` and `?` stop at `/`, `**` doesn't."""
    pieces = re.split(r"(\*\*/?|\*|\?|\[[^\]]+\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        known.get(piece)
        or (piece.replace("[!", "[^", 1) if piece[:1] == "[" and number % 2 else re.escape(piece))
        for number, piece in enumerate(pieces)
    )

"""What is particular to a directory as a bucket."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firn.bucket import LocalBucket, open_bucket
from firn.bucket.keys import RESERVED
from firn.errors import (
    AccessDeniedError,
    InvalidInputError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedError,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def bucket(root: Path) -> LocalBucket:
    return LocalBucket(root)


def keys(bucket: LocalBucket, prefix: str = "") -> list[str]:
    return [info.key for info in bucket.list(prefix).objects]


def staged(root: Path) -> list[str]:
    return [entry.name for entry in (root / RESERVED).iterdir() if entry.is_file()]


def failing(error: int, only: Callable[..., bool] = lambda *a: True, real: Any = None) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if only(*args):
            raise OSError(error, os.strerror(error))
        return real(*args, **kwargs)

    return call


def test_an_object_is_a_file(bucket: LocalBucket, root: Path) -> None:
    bucket.put("a/b", b"1")
    assert (root / "a" / "b").read_bytes() == b"1"
    assert bucket.local_path("a/b") == str(root / "a" / "b")
    assert bucket.uri("a/b") == f"file://{root}/a/b"
    (root / "a" / "foreign").write_bytes(b"22")
    assert keys(bucket) == ["a/b", "a/foreign"]
    assert bucket.get("a/foreign").info.size == 2


def test_reading_creates_nothing(bucket: LocalBucket, root: Path) -> None:
    assert keys(bucket) == []
    assert bucket.get_many(["k"]) == [None]
    bucket.delete("k")
    assert not root.exists()


def test_temporary_files_and_locks_are_nowhere_to_be_seen(bucket: LocalBucket, root: Path) -> None:
    etag = bucket.put("k", b"1")
    bucket.put_if_match("k", b"2", etag)
    bucket.put_if_absent("l", b"3")
    for refused in (
        lambda: bucket.put_if_absent("k", b"4"),
        lambda: bucket.put_if_match("k", b"5", etag),
    ):
        with pytest.raises((ObjectExistsError, ObjectChangedError)):
            refused()
    assert (root / RESERVED).is_dir()
    assert staged(root) == []
    assert keys(bucket) == ["k", "l"]
    assert keys(bucket, ".") == []
    assert bucket.list_dirs("") == []


def test_a_version_differs_although_inode_size_and_tick_are_the_same(
    bucket: LocalBucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inodes come back at once, and the clock of a file system stands still for milliseconds."""
    frozen = time.time_ns() // 10**6 * 10**6
    real_utime, real_fstat = os.utime, os.fstat

    def utime(target: Any, *, ns: tuple[int, int]) -> None:
        real_utime(target, ns=(frozen + ns[0] % 10**6, frozen + ns[1] % 10**6))

    monkeypatch.setattr(os, "utime", utime)
    seen = []
    for body in (b"A", b"B", b"C"):
        bucket.put("k", body)
        status = real_fstat(fd := os.open(root / "k", os.O_RDONLY))
        os.close(fd)
        assert status.st_mtime_ns // 10**6 == frozen // 10**6
        seen.append(bucket.head("k").etag.partition("-")[2])  # without the inode
    assert len(set(seen)) == 3
    assert bucket.head("k").modified_ms == frozen // 10**6


def test_the_modification_time_is_the_file_systems(bucket: LocalBucket, tmp_path: Path) -> None:
    (tmp_path / "before").touch()
    bucket.put("k", b"")
    (tmp_path / "after").touch()
    before, after = ((tmp_path / name).stat().st_mtime_ns // 10**6 for name in ("before", "after"))
    assert before <= bucket.head("k").modified_ms <= after


def test_body_then_move_then_directory_are_synced(
    bucket: LocalBucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("a/first", b"")
    events: list[str] = []
    real_fsync, real_replace, real_link = os.fsync, os.replace, os.link

    def fsync(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        events.append("sync file" if stat.S_ISREG(os.fstat(fd).st_mode) else f"sync {Path(path).name}")
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("replace"), real_replace(a, b)))
    monkeypatch.setattr(os, "link", lambda a, b: (events.append("link"), real_link(a, b)))

    bucket.put("a/k", b"1")
    assert events == ["sync file", "replace", "sync a"]
    events.clear()
    bucket.put_if_absent("a/l", b"1")
    assert events == ["sync file", "link", "sync a"]
    events.clear()
    bucket.put("b/k", b"1")
    # The first move finds no directory; it is made, and synced into its parent.
    assert events == ["sync file", "replace", "sync db", "replace", "sync b"]
    events.clear()
    bucket.delete_many(["a/k", "a/l", "b/k"])
    assert events == ["sync a", "sync db"]


def test_replacements_and_deletions_of_a_key_exclude_each_other(
    bucket: LocalBucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a swap could overwrite what was put between its comparison and its move."""
    etag = bucket.put("k", b"1")
    held: list[str] = []
    real_replace, real_unlink = os.replace, os.unlink

    def free() -> bool:
        for lock in (root / RESERVED / "locks").iterdir():
            fd = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            finally:
                os.close(fd)
        return True

    def replace(source: str, target: str) -> None:
        held.append("free" if free() else "held")
        real_replace(source, target)

    def unlink(path: str) -> None:
        held.append("free" if free() else "held")
        real_unlink(path)

    assert free()
    monkeypatch.setattr(os, "replace", replace)
    etag = bucket.put_if_match("k", b"2", etag)
    bucket.put("k", b"3")
    monkeypatch.setattr(os, "unlink", unlink)
    bucket.delete("k")
    assert held == ["held"] * 3
    assert free()


def test_a_crash_before_the_move_leaves_only_what_a_later_writer_removes(
    bucket: LocalBucket, root: Path
) -> None:
    bucket.put("k", b"1")
    abandoned, recent = root / RESERVED / "abandoned", root / RESERVED / "recent"
    for leftover in (abandoned, recent):
        leftover.write_bytes(b"half")
    a_day_ago = time.time() - 25 * 3600
    os.utime(abandoned, (a_day_ago, a_day_ago))
    assert keys(bucket) == ["k"]
    LocalBucket(root).put("l", b"2")
    assert staged(root) == ["recent"]
    assert list((root / RESERVED / "locks").iterdir())


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, StoreUnavailableError),
        (errno.EDQUOT, StoreUnavailableError),
        (errno.EIO, StoreUnavailableError),
        (errno.EACCES, AccessDeniedError),
        (errno.EROFS, AccessDeniedError),
    ],
)
@pytest.mark.parametrize("where", ["write", "fsync"])
def test_a_failed_write_names_the_object_and_changes_nothing(
    bucket: LocalBucket,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[Exception],
    where: str,
) -> None:
    etag = bucket.put("a/k", b"old")
    monkeypatch.setattr(os, where, failing(number))
    for call in (
        lambda: bucket.put("a/k", b"new"),
        lambda: bucket.put_if_match("a/k", b"new", etag),
        lambda: bucket.put_if_absent("a/l", b"new"),
    ):
        with pytest.raises(error, match=r"a/[kl]: .*write.*"):
            call()
    monkeypatch.undo()
    assert staged(root) == []
    assert keys(bucket) == ["a/k"]
    assert bucket.get("a/k").info.etag == etag


def test_a_directory_that_cannot_be_synced_leaves_the_outcome_open(
    bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("k", b"old")
    is_directory: Callable[[int], bool] = lambda fd: stat.S_ISDIR(os.fstat(fd).st_mode)  # noqa: E731
    monkeypatch.setattr(os, "fsync", failing(errno.EIO, is_directory, os.fsync))
    with pytest.raises(OutcomeUnknownError, match="k is written"):
        bucket.put("k", b"new")


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_links_says_so(
    bucket: LocalBucket, root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", failing(number))
    with pytest.raises(UnsupportedError, match="hard links"):
        bucket.put_if_absent("k", b"")
    assert staged(root) == []
    assert keys(bucket) == []


@pytest.mark.parametrize("call", ["get", "head", "list"])
def test_an_unreadable_place_is_no_missing_object(
    bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    bucket.put("a/k", b"1")
    for name in ("open", "stat", "listdir"):
        monkeypatch.setattr(os, name, failing(errno.EACCES))
    with pytest.raises(AccessDeniedError, match=r"a/k.*no permission to (read|list)"):
        getattr(bucket, call)("a/k")


def test_in_a_directory_no_object_lies_below_another(bucket: LocalBucket, root: Path) -> None:
    etag = bucket.put("a/b", b"1")
    for call in (
        lambda: bucket.put("a/b/c", b"2"),
        lambda: bucket.put_if_absent("a/b/c", b"2"),
        lambda: bucket.put("a", b"2"),
        lambda: bucket.put_if_absent("a", b"2"),
    ):
        with pytest.raises(InvalidInputError, match="no object lies below another"):
            call()
    with pytest.raises(ObjectChangedError):
        bucket.put_if_match("a", b"2", etag)
    bucket.delete("a")
    bucket.delete("a/b/c")
    assert staged(root) == []
    assert keys(bucket) == ["a/b"]


def test_an_empty_leftover_directory_is_in_nobodys_way(bucket: LocalBucket, root: Path) -> None:
    for name in ("one", "two"):
        (root / name).mkdir(parents=True)
    bucket.put("one", b"1")
    bucket.put("sub/x", b"1")
    with pytest.raises(InvalidInputError):
        bucket.put_if_absent("sub", b"1")
    bucket.put_if_absent("two", b"1")
    assert keys(bucket) == ["one", "sub/x", "two"]


def test_a_file_that_vanishes_during_the_walk_is_skipped(
    bucket: LocalBucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put_many([(f"a/{n}", b"") for n in range(3)] + [("b/1", b"")])
    listdir = os.listdir

    def late(path: str) -> list[str]:
        names = listdir(path)
        if path.rstrip("/").endswith("/a"):
            (root / "a" / "1").unlink()
        if path.rstrip("/").endswith("/b"):
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return names

    monkeypatch.setattr(os, "listdir", late)
    assert keys(bucket) == ["a/0", "a/2"]


def test_what_no_key_can_name_is_not_listed(bucket: LocalBucket, root: Path, tmp_path: Path) -> None:
    bucket.put("a/k", b"")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"x")
    (root / "a" / "link").symlink_to(tmp_path / "outside")
    (root / "a" / "file-link").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(root / "a" / "pipe")
    (Path(os.fsdecode(os.fsencode(root) + b"/a/\xff"))).write_bytes(b"")
    assert keys(bucket) == ["a/k"]
    assert bucket.list_dirs("a/") == []
    with pytest.raises(ObjectNotFoundError):
        bucket.get("a/pipe")


def test_after_skips_whole_directories(bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put_many([(f"d/{n}/x", b"") for n in range(10)])
    visited: list[str] = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: (visited.append(path), listdir(path))[1])
    assert [i.key for i in bucket.list("d/", after="d/7/x").objects] == ["d/8/x", "d/9/x"]
    assert len(visited) == 1 + 3


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInputError, match="is a file"):
        open_bucket(tmp_path / "file")


def test_relative_paths_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    bucket = open_bucket("./prod/../prod")
    assert bucket.url == f"file://{tmp_path}/prod"
    assert open_bucket("~/db").url == f"file://{tmp_path}/home/db"
    assert open_bucket(bucket.url).url == bucket.url
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(bucket)).url == f"file://{tmp_path}/prod"

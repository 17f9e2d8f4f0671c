"""A sorted run goes to the bucket as SSTs of about one size, several of them in flight.

Compactions and bulk loads write with it, in tasks of any process: it needs the numbers that are its own and
commits nothing. No SST is ever written over: where an object is in the way, or an answer is missing, it takes the
next number and leaves the other to sweep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from firn.bucket.base import Bucket, BytesLike
from firn.errors import ObjectExistsError, ObjectNotFoundError, OutcomeUnknownError
from firn.journal.manifest.model import SSTInfo
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.definition.settings import KeyedSettings
from firn.keyed.memory import give_back
from firn.keyed.sst.writer import Sst, SstWriter

HELD_BYTES = 40 << 20
"""The SST that is made, and those that wait for their PUT, have no more than this together, or are one."""

IN_FLIGHT = 8


class RunWriter:
    """Writes one run, given in order, as SSTs that are cut at `settings.sst_size`.

    An SST is larger than that by less than a block, and its index; where one key has more versions than fit, by
    these, since no key is in two SSTs. Memory: `HELD_BYTES`, or one SST.

    Args:
        definition: the table's; `prefix` is its directory.
        numbers: SST numbers that nobody else uses; not all are needed.
        epoch: the compactor's, which the SSTs are named by.
        level, run: where a manifest is to put them.
        expected_bytes: of the whole run, where that is known: memory for no more is set aside.
    """

    def __init__(
        self,
        bucket: Bucket,
        definition: KeyedDefinition,
        prefix: str,
        *,
        epoch: int,
        numbers: Sequence[int],
        level: int,
        run: int,
        expected_bytes: int | None = None,
    ) -> None:
        self._bucket, self._definition, self._settings = bucket, definition, definition.settings
        self._layout, self._seqs = definition.layout(prefix), definition.seqs
        self._epoch, self._level, self._run = epoch, level, run
        self._numbers = numbers
        self._free = iter(numbers)
        size = self._settings.sst_size
        self._expected = size if expected_bytes is None else min(size, expected_bytes)
        self._writer: SstWriter | None = None
        self._last_key: bytes | None = None
        self._max_loaded = -1
        self._flying: deque[tuple[Future[SSTInfo], int]] = deque()
        self._done: list[SSTInfo] = []
        # A store in memory answers at once, and one that is simulated counts its calls one by one.
        self._pool = ThreadPoolExecutor(IN_FLIGHT, "firn-sst") if bucket.capabilities.shareable else None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        give_back()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add entries that stand above all those before in (key ascending, seq descending).

        Raises what a PUT of an earlier SST met.
        """
        for piece in self._pieces(batch):
            if self._writer is not None and self._writer.size >= self._settings.sst_size:
                same = self._rows_of_last_key(piece)
                if same:
                    self._append(self._writer, piece.slice(0, same))
                    piece = piece.slice(same)
                if not piece.num_rows:
                    continue
                self._close()
            if self._writer is None:
                self._writer = self._definition.sst_writer(self._expected)
            self._append(self._writer, piece)
            self._last_key = piece.column(0)[-1].as_py()

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[SSTInfo]:
        """`add` all, then `finish`."""
        for batch in batches:
            self.add(batch)
        return self.finish()

    def finish(self) -> list[SSTInfo]:
        """Put what is left; every SST of the run, in the order of keys, once all are in the bucket."""
        if self._writer is not None:
            self._close()
        self._land(0)
        return self._done

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Parts of a batch, each no larger than what the SST at work lacks, but of a block or more.

        An SST is smaller than its rows in memory, so the first part leaves a little room and the last ones are
        about a block: asking the writer for its size once a block is all that the cut costs.
        """
        while batch.num_rows:
            held = self._writer.size if self._writer is not None else 0
            room = max(self._settings.sst_size - held, self._settings.block_size)
            rows = max(1, batch.num_rows * room // max(1, batch.nbytes))
            yield batch.slice(0, rows)
            batch = batch.slice(rows)

    def _append(self, writer: SstWriter, piece: pa.RecordBatch) -> None:
        self._land(max(0, HELD_BYTES - writer.size))
        writer.add(piece)
        seq = piece.column(1).to_numpy()
        loaded = seq[(seq & self._seqs.mask) >= self._seqs.half]
        if len(loaded):
            self._max_loaded = max(self._max_loaded, int(loaded.max()))

    def _rows_of_last_key(self, piece: pa.RecordBatch) -> int:
        keys = piece.column(0)
        for row in range(piece.num_rows):
            if keys[row].as_py() != self._last_key:
                return row
        return int(piece.num_rows)

    def _close(self) -> None:
        assert self._writer is not None
        sst, loaded = self._writer.finish(), self._max_loaded
        give_back()
        self._writer, self._max_loaded = None, -1
        if self._pool is None:
            self._done.append(self._put(sst, loaded))
            return
        self._land(max(0, HELD_BYTES - len(sst.data)))
        self._flying.append((self._pool.submit(self._put, sst, loaded), len(sst.data)))

    def _land(self, allowed: int) -> None:
        """Wait until no more than so many bytes are on their way."""
        while self._flying and (
            sum(size for _, size in self._flying) > allowed or len(self._flying) >= IN_FLIGHT
        ):
            self._done.append(self._flying.popleft()[0].result())

    def _put(self, sst: Sst, max_loaded: int) -> SSTInfo:
        for number in self._free:
            file = self._layout.sst_file(self._epoch, number)
            if self._is_put(self._layout.sst_key(file), sst.data):
                return sst.index.info(
                    level=self._level,
                    run=self._run,
                    number=number,
                    file=file,
                    size=len(sst.data),
                    max_loaded=max_loaded,
                    clock=self._definition.clock,
                )
        raise OutcomeUnknownError(
            f"{self._bucket.uri(self._layout.ssts_prefix)}: all {len(self._numbers)} numbers of a task are used up, "
            "so the store refuses or loses far more writes than it should. Nothing was committed; try again"
        )

    def _is_put(self, key: str, data: BytesLike) -> bool:
        """1 PUT; after a refusal or a lost answer 1 GET."""
        try:
            self._bucket.put_if_absent(key, data)
            return True
        except (ObjectExistsError, OutcomeUnknownError):
            try:
                return self._bucket.get(key).data == data
            except ObjectNotFoundError:
                return False


def numbers_needed(bytes_in: int, settings: KeyedSettings) -> int:
    """How many SST numbers a task of so much input should have: more than it will ever use."""
    return int(32 + 8 * (bytes_in // settings.sst_size))

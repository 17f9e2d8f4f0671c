"""Where Parquet writes an SST to: one stretch of memory, made as large as it will be.

Arrow's own stream in memory grows by doubling, and so touches and copies twice what the file has. The stretch is
mapped, not taken from the C library: that would keep it for later, in a pool of the thread that let it go.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BUFFERED = 256 << 10


class Sink:
    """A growing file in memory; `stream` is what Arrow writes to. `room`: the bytes that it will have, about."""

    def __init__(self, room: int) -> None:
        self._room = _Room(room)
        self.stream = pa.BufferedOutputStream(pa.PythonFile(self._room, mode="w"), _BUFFERED)

    def finish(self) -> memoryview:
        """The bytes, which may still be changed."""
        self.stream.flush()
        return self._room.written()


class _Room:
    """The file that Arrow sees. It doesn't know the stream, which holds it where no garbage collector looks: of two
    that hold one another so, neither would ever go."""

    closed = False

    def __init__(self, size: int) -> None:
        self._data = _mapped(max(1, size))
        self._size = 0

    def written(self) -> memoryview:
        return self._data[: self._size].data

    def write(self, data: bytes) -> None:
        end = self._size + len(data)
        if end > len(self._data):
            larger = _mapped(max(end, 2 * len(self._data)))
            larger[: self._size] = self._data[: self._size]
            self._data = larger
        self._data[self._size : end] = np.frombuffer(data, np.uint8)  # unlike bytes, without the GIL
        self._size = end

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _mapped(size: int) -> npt.NDArray[np.uint8]:
    """Bytes that go back to the system as soon as nobody holds them."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    return np.empty(size, np.uint8)

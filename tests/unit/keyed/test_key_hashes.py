"""Hashes by columns are the hashes of Parquet's Bloom filters, of keys of any length, one among others or alone."""

import random

import numpy as np
import pyarrow as pa
import pytest

from firn.arrow.bloom import hash64
from firn.keyed.encoding.key_hashes import key_hashes


@pytest.mark.parametrize("length", [*range(20), *range(28, 40), 63, 64, 65, 100, 131])
@pytest.mark.parametrize("count", [1, 40])
def test_keys_of_one_length(length: int, count: int) -> None:
    keys = [random.Random(f"{length} {n}").randbytes(length) for n in range(count)]
    assert key_hashes(pa.array(keys, pa.binary())).tolist() == list(map(hash64, keys))


def test_keys_of_many_lengths_and_a_part_of_a_column() -> None:
    rng = random.Random(5)
    keys = [rng.randbytes(rng.choice([0, 1, 4, 7, 8, 16, 31, 32, 47])) for _ in range(9_000)]
    keys[500] = rng.randbytes(999)
    column = pa.array(keys, pa.binary())
    assert key_hashes(column).tolist() == list(map(hash64, keys))
    assert key_hashes(column.slice(499, 4_321)).tolist() == list(map(hash64, keys[499:4_820]))


def test_no_keys() -> None:
    found = key_hashes(pa.array([], pa.binary()))
    assert found.dtype == np.uint64 and not len(found)

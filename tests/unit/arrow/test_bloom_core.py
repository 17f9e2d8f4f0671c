"""The Bloom filters of `firn.arrow.bloom` against Parquet's words on them, asked alone and many at once."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.arrow.bloom import Bloom, build, hash64, passing

SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
HASHES = st.integers(0, (1 << 64) - 1)


def as_specified(bits, hashed):
    """Word by word, as Parquet tells it."""
    block = (hashed >> 32) * (len(bits) // 32) >> 32
    words = struct.unpack_from("<8I", bits, 32 * block)
    return all(
        word >> ((((hashed & 0xFFFFFFFF) * salt) & 0xFFFFFFFF) >> 27) & 1
        for word, salt in zip(words, SALT, strict=True)
    )


def filter_of(hashes, bits=10):
    return build([np.array(list(hashes), dtype=np.uint64)], bits)


@given(st.lists(st.sets(HASHES, max_size=60), max_size=6), st.sets(HASHES, max_size=60), st.integers(1, 20))
def test_it_answers_as_parquet_tells(put, others, bits):
    filters = [filter_of(each, bits) for each in put]
    blooms = [Bloom(each) for each in filters]
    asked = [(bloom.pairs, bloom.blocks, at) for at, bloom in enumerate(blooms)]
    for hashed in others.union(*put):
        expected = [as_specified(each, hashed) for each in filters]
        assert all(known for known, each in zip(expected, put, strict=True) if hashed in each)
        assert [bloom.may_contain(hashed) for bloom in blooms] == expected
        assert list(passing(asked, hashed)) == [at for at, known in enumerate(expected) if known]


@pytest.mark.parametrize("word", range(8))
def test_every_word_counts(word):
    bits = bytearray(b"\xff" * 32)
    bits[4 * word : 4 * word + 4] = bytes(4)
    bloom = Bloom(bytes(bits))
    assert not bloom.may_contain(hash64(b"DTW"))
    assert not list(passing([(bloom.pairs, bloom.blocks, 1)], hash64(b"DTW")))


def test_without_a_byte_everything_may_be_there():
    bloom = Bloom(b"")
    assert bloom.nbytes == 0
    assert bloom.may_contain(66)
    assert list(passing([(bloom.pairs, bloom.blocks, "it")], 66)) == ["it"]


def test_no_filter_is_asked_before_its_turn():
    yes = Bloom(b"")

    def filters():
        yield yes.pairs, yes.blocks, 1
        pytest.fail("the first answer was enough")

    assert next(passing(filters(), 66)) == 1

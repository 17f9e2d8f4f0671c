"""Makes a program's random names depend on the seed, so that a seed that failed fails again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeded_entropy(source: random.Random) -> Iterator[None]:
    """While it is open, `uuid4`, `secrets`, `os.urandom` and the module `random` draw from `source`.

    The whole process is affected; it is for simulations, never for keys that anybody relies on.

    Example:
        >>> import random, uuid
        >>> def name():
        ...     with seeded_entropy(random.Random(3)):
        ...         return uuid.uuid4()
        >>> name() == name()
        True
    """
    state = random.getstate()
    urandom = os.urandom
    # `secrets` draws through a name that the module `random` bound at its import.
    bound = getattr(random, "_urandom", None)
    random.seed(source.getrandbits(64))
    os.urandom = source.randbytes
    if bound is not None:
        setattr(random, "_urandom", source.randbytes)  # noqa: B010 -- a private name
    try:
        yield
    finally:
        os.urandom = urandom
        if bound is not None:
            setattr(random, "_urandom", bound)  # noqa: B010
        random.setstate(state)

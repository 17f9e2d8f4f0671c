"""The end of a task of Firn's in a Python worker."""

from __future__ import annotations

import sys
import zipimport


def settle_imports() -> None:
    """Let go of importlib's finders for archives, so that the worker's next task begins at once.

    Spark puts `pyspark.zip` and its own core jar on a worker's path, and jars of `spark.jars.packages` as well.
    Before pyspark 4.3 each task begins with `importlib.invalidate_caches()`, which makes every such finder read
    its archive's table of contents again, in Python: 60 ms a task, and seconds with a large jar. A later
    import from an archive makes its finder anew, from the table that was read first.

    Example:
        >>> import sys, zipimport
        >>> settle_imports()
        >>> any(isinstance(f, zipimport.zipimporter) for f in sys.path_importer_cache.values())
        False
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache.pop(path, None)

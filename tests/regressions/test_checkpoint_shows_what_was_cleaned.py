"""A LIST of several pages showed a cached log beside the cleaned log that no longer replaces it; that one came from
the checkpoint, so nothing was looked at again, and rows were doubled."""

from regressions.journals import GRACE_AND_MARGIN_S, HookedStore, append, journal_on, merge, pass_time, rows
from simulation.leaderless_table import clean, rows_of


def test_a_cleaned_log_from_the_checkpoint_is_as_new_as_one_from_the_store() -> None:
    store = HookedStore(page_size=1)
    reader, other = journal_on(store, "reader"), journal_on(store, "other")
    append(other, [1])
    append(other, [2])
    assert rows(reader) == [1, 2]  # and keeps the logs in memory
    version = merge(other)
    for i in range(3, 9):
        append(other, [i])
    pass_time(other, GRACE_AND_MARGIN_S)

    def clean_meanwhile() -> None:
        clean(other)
        other.checkpoint()

    store.before, store.hook = version, clean_meanwhile
    files = reader.stream().start().files
    assert store.hook is None
    assert sorted(i for file in files for i in rows_of(reader, file)) == list(range(1, 9))

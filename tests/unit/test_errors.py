"""The errors of record tables: what they are instances of, show, and carry across processes."""

from __future__ import annotations

import inspect
import pickle

import pytest

import firn
from firn import errors


def all_errors():
    return [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.FirnError)
    ]


def test_the_tree_in_the_docstring_names_every_error():
    assert errors.__doc__ is not None
    named = {word.strip(" ,") for line in errors.__doc__.splitlines() for word in line.split()}
    assert {kind.__name__ for kind in all_errors()} <= named


def test_every_error_is_public():
    assert {kind.__name__ for kind in all_errors()} <= set(firn.__all__)
    assert all(getattr(firn, kind.__name__) is kind for kind in all_errors())


def test_kinds_are_unique():
    assert len({kind.kind for kind in all_errors()}) == len(all_errors())


@pytest.mark.parametrize("kind", all_errors())
def test_errors_cross_processes(kind):
    found = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(found) is kind
    assert str(found) == "what happened"


def test_a_missing_row_is_a_key_error_that_shows_its_message_unquoted():
    error = firn.NoSuchKeyError("people has no row 'ada'")
    assert isinstance(error, KeyError) and isinstance(error, firn.NotFoundError)
    assert str(error) == "people has no row 'ada'"


def test_a_stale_object_carries_the_current_one():
    error = firn.StaleObjectError("changed", {"_id": "ada"})
    assert isinstance(error, firn.ConflictError)
    assert pickle.loads(pickle.dumps(error)).current == {"_id": "ada"}
    assert firn.StaleObjectError("changed").current is None


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        (errors.DuplicateKeyError, errors.AlreadyExistsError),
        (errors.ObjectLockedError, errors.ConflictError),
        (errors.TransactionTimedOutError, errors.ConflictError),
        (errors.TransactionClosedError, errors.ConflictError),
    ],
)
def test_the_errors_of_transactions_are_in_the_group_of_what_to_do(kind, group):
    assert issubclass(kind, group)

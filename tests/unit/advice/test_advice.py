"""Every message that names a remedy is in the table of advice; see `tests/helpers/advice.py`."""

from __future__ import annotations

import pytest

from advice import SOURCE, claims, messages, remedies


def test_every_message_with_a_remedy_is_claimed():
    pieces = claims()
    missing = [
        f"{remedy.place}: {remedy.text}"
        for remedy in remedies()
        if not any(piece in remedy.text for piece in pieces)
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("piece", sorted(claims()))
def test_every_claim_is_of_a_message(piece):
    assert any(piece in message.text for message in messages()), f"no message says {piece!r} any more"


def test_the_rule_finds_messages():
    found = remedies()
    assert len(found) > 100
    assert any("`firn " in remedy.text for remedy in found)
    assert all((SOURCE / remedy.place.partition(":")[0]).exists() for remedy in found)

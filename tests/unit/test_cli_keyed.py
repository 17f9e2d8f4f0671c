"""`firn keyed`: commands for keyed tables."""

from __future__ import annotations

from cli_runs import done, run

from firn.cli.commands import _GROUPS
from firn.cli.keyed.group import keyed

# -- the group


def test_the_help_of_the_group_names_its_commands() -> None:
    words = set(done("keyed", "--help").out.split())
    assert words.issuperset(command.callback.__name__ for command in keyed.registered_commands)  # type: ignore[union-attr]
    assert len(_GROUPS) <= len(keyed.registered_commands)
    assert "keyed" in done("--help").out


def test_without_a_command_there_is_help_and_no_message() -> None:
    found = run("keyed")
    assert found.code == 2
    assert "size" in found.out and "error" not in found.err
    assert run("keyed", "nonsense").code == 2


# -- size


def test_size_prints_the_papers_table() -> None:
    lines = {line.split()[0]: line.split()[-1] for line in done("keyed", "size").out.splitlines()[2:]}
    assert lines["Q"] == "86,400"
    assert lines["S"] == "0.56"
    assert lines["T"] == "259,200,000"


def test_size_of_another_workload_as_json() -> None:
    rows = done("keyed", "size", "--flush-ms", 100, "--price", 0.05, "--json").json["rows"]
    found = {row["id"]: row["value"] for row in rows}
    assert found["T"] == 25_920_000
    assert found["R"] == 0.05
    assert run("keyed", "size", "--block-mb", 0).code == 2

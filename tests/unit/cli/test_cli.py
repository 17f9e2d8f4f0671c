"""The frame of the command line: help, naming tables, errors and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

import firn
from cli_runs import done, flights, run
from firn import errors
from firn.cli import opening
from firn.cli.terminal import output
from firn.cli.terminal.exits import EXIT_CODES, exit_code

COMMANDS = [
    "demo",
    "sql",
    "scan",
    "tables",
    "schema",
    "partitions",
    "log",
    "create",
    "append",
    "ingest",
    "drop",
    "merge",
    "remove",
    "rewrite",
    "delete",
    "update",
    "restore",
    "sweep",
    "checkpoint",
    "dump",
    "report",
]


def test_help_names_every_command_and_exit_code() -> None:
    text = done("--help").out
    words = set(text.split())
    assert words.issuperset(COMMANDS)
    flat = " ".join(text.split())
    assert all(f"{code} {meaning.split()[0]}" in flat for code, meaning in EXIT_CODES)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command: str) -> None:
    text = done(command, "--help").out
    assert "--json" in text
    assert f"firn {command}" in text


def test_help_loads_no_heavy_library() -> None:
    program = (
        "import sys\n"
        "from firn.cli import main\n"
        "sys.argv = ['firn', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "heavy = {'pyarrow', 'numpy', 'pyspark', 'duckdb', 'sqlglot', 'obstore', 'pandas'}\n"
        "print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    source = Path(firn.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(source)},
        check=True,
    )
    assert found.stderr.strip() == "0 []"


def test_version() -> None:
    assert done("--version").out == f"firn {firn.__version__}\n"


# -- naming tables


def test_a_table_is_named_by_url_or_beside_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights(tmp_path)
    assert done("scan", tmp_path / "flights", "--count").out == "6\n"
    assert done("scan", "flights", "--db", tmp_path, "--count").out == "6\n"
    assert done("scan", f"file://{tmp_path}/flights", "--count").out == "6\n"
    monkeypatch.setenv("FIRN_DB", str(tmp_path))
    assert done("scan", "flights", "--count").out == "6\n"
    assert done("tables", "--names").out == "flights\n"
    # A whole URL isn't looked for in FIRN_DB.
    assert run("scan", tmp_path / "elsewhere" / "flights", "--count").code == 3


def test_a_name_alone_says_what_is_missing() -> None:
    found = run("scan", "flights")
    assert found.code == 2
    assert "--db" in found.err
    assert found.out == ""


@pytest.mark.parametrize("name", ["_firn", "a b", "é", "x" * 101, "..", "a%2Fb"])
def test_hostile_names_are_refused(tmp_path: Path, name: str) -> None:
    found = run("create", name, "--db", tmp_path / "db")
    assert found.code == 2
    assert not (tmp_path / "db").exists() or not any((tmp_path / "db").iterdir())


def test_store_options() -> None:
    given = ["endpoint=http://127.0.0.1:9000/?a=b", "allow_http=TRUE", "max_retries=3", "account_key=0012"]
    assert opening.store_options(given) == {
        "endpoint": "http://127.0.0.1:9000/?a=b",
        "allow_http": True,
        "max_retries": 3,
        "account_key": "0012",
    }


def test_a_wrong_option_doesnt_show_its_value(tmp_path: Path) -> None:
    flights(tmp_path)
    found = run("scan", tmp_path / "flights", "--option", "secret_access_key=hunter2hunter2")
    assert found.code == 2
    assert "secret_access_key" in found.err
    assert "hunter2" not in found.err
    assert run("scan", tmp_path / "flights", "--option", "nonsense").code == 2


# -- errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInputError, 2),
        (errors.SchemaConflictError, 2),
        (errors.TableExistsError, 2),
        (errors.TableNotFoundError, 3),
        (errors.ObjectNotFoundError, 3),
        (errors.SnapshotTooOldError, 3),
        (errors.ConflictError, 4),
        (errors.LockHeldError, 4),
        (errors.AppendExpiredError, 4),
        (errors.HandleClosedError, 4),
        (errors.ForkError, 4),
        (errors.OutcomeUnknownError, 5),
        (errors.AccessDeniedError, 6),
        (errors.StoreUnavailableError, 6),
        (errors.CorruptObjectError, 7),
        (errors.UnsupportedError, 7),
        (errors.FirnError, 1),
    ],
)
def test_each_error_has_its_code_and_one_message(
    error: type[errors.FirnError], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights(tmp_path)

    def fail(*args: object, **options: object) -> None:
        raise error("the [bold]message[/bold]")

    monkeypatch.setattr(firn.LakeTable, "schema", fail)
    monkeypatch.setattr(firn.LakeTable, "snapshot", fail)
    assert exit_code(error("…")) == code
    found = run("schema", tmp_path / "flights")
    assert (found.code, found.out, found.err) == (code, "", "error: the [bold]message[/bold]\n")
    found = run("schema", tmp_path / "flights", "--json")
    assert found.code == code
    assert found.json == {"error": {"kind": error.kind, "message": "the [bold]message[/bold]"}}
    assert found.err == ""


def test_every_error_of_firn_has_a_documented_code() -> None:
    documented = {code for code, _ in EXIT_CODES}
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.FirnError)]
    assert {exit_code(kind("…")) for kind in kinds} <= documented
    assert len(kinds) > 15


def test_what_nobody_foresaw_is_one_line_and_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flights(tmp_path)

    def fail(*args: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(firn.LakeTable, "snapshot", fail)
    found = run("schema", tmp_path / "flights")
    assert found.code == 1
    assert found.err.startswith("error: unexpected ZeroDivisionError: by zero")
    assert run("schema", tmp_path / "flights", "--json").json["error"]["kind"] == "unexpected"
    monkeypatch.setenv("FIRN_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run("schema", tmp_path / "flights")


def test_ctrl_c_is_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flights(tmp_path)

    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(firn.LakeTable, "merge", interrupt)
    assert run("merge", tmp_path / "flights").code == 130
    found = run("merge", tmp_path / "flights", "--json")
    assert found.code == 130
    assert found.json["error"]["kind"] == "interrupted"


def test_wrong_use_is_2_and_json_where_asked(tmp_path: Path) -> None:
    found = run("scan", tmp_path / "flights", "--colums", "a")
    assert found.code == 2
    assert found.err.startswith("error: No such option: --colums")
    assert "firn scan --help" in found.err
    assert run("scan", "--json", "--limit", "many", tmp_path / "flights").json["error"]["kind"] == "usage"
    assert run("nonsense").code == 2
    assert run("scan", tmp_path / "flights", "--limit", "-1").code == 2


def test_a_misspelt_table_gets_a_hint(tmp_path: Path) -> None:
    flights(tmp_path)
    found = run("scan", tmp_path / "flight")
    assert found.code == 3
    assert "'flights'" in found.err


def test_a_directory_that_isnt_there(tmp_path: Path) -> None:
    for args in (
        ["tables", tmp_path / "no"],
        ["scan", tmp_path / "no" / "flights"],
        ["report", tmp_path / "no"],
    ):
        found = run(*args)
        assert found.code == 3
        assert "no such directory" in found.err
    assert not (tmp_path / "no").exists()


def test_a_broken_object_is_7(tmp_path: Path) -> None:
    table = flights(tmp_path)
    table.bucket.put("flights/_firn/table.json", b"{")
    found = run("scan", tmp_path / "flights")
    assert found.code == 7
    assert "table.json" in found.err


# -- printing


def test_json_holds_what_tables_hold() -> None:
    from datetime import date, timedelta
    from decimal import Decimal

    value = {
        "d": date(2001, 1, 2),
        "dec": Decimal("1.50"),
        "sums": [Decimal(11175), Decimal(2**63)],
        "b": b"\x00\xff",
        "t": timedelta(hours=1),
        "nan": float("nan"),
        "s": {3: {"x"}},
    }
    assert orjson.loads(output.encode(value)) == {
        "d": "2001-01-02",
        "dec": "1.50",
        "sums": [11175, "9223372036854775808"],
        "b": "AP8=",
        "t": "1:00:00",
        "nan": None,
        "s": {"3": ["x"]},
    }


def test_numbers_for_people() -> None:
    assert [output.size(n) for n in (None, 0, 1023, 1024, 5 * 2**30)] == [
        "?",
        "0 B",
        "1023 B",
        "1.0 KB",
        "5.0 GB",
    ]
    assert output.plural(None, "row") == "? rows"
    assert output.cell({"a": [1]}) == '{"a":[1]}'
    assert output.cell(True) == "true"

"""The report: facts, sentences, and one HTML page that needs nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest

import firn
from cli_runs import ROWS, done, flights, run
from firn.inspect.report import figures
from firn.inspect.report.facts import Step, history_points, table_facts
from firn.inspect.report.report import render_report, write_report
from firn.inspect.report.words import sentences
from firn.journal.model import CommitInfo

CHROMIUM = Path("/usr/bin/chromium")
HOSTILE = '</script><script>document.title="owned"</script>&amp;"\''
IMAGE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def busy(tmp_path: Path) -> firn.Database:
    """A table with a history, and one with nothing."""
    table = flights(tmp_path / "db")
    version = table.snapshot().version
    table.merge()
    table.delete("delay = 9")
    table.restore(version)
    table.remove_partitions("date_month = '2001-02'")
    table.sweep(older_than="0s")
    table.append(ROWS[:1])
    db = firn.connect(tmp_path / "db")
    db.create_table("empty")
    return db


class Page(HTMLParser):
    """Tags, links and texts of a page; the figures' data by position."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.figures: list[dict[str, object]] = []
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [v for k in ("src", "href", "action", "data") if (v := given.get(k)) is not None]
        if tag == "script":
            self._script = given.get("type") or "text/javascript"

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script == "application/json":
            self.figures.append(orjson.loads(data))
        elif self._script is None:
            self.texts.append(data)


# -- facts


def test_rows_and_files_after_each_commit(busy: firn.Database) -> None:
    facts = table_facts(busy.table("flights"))
    assert [(p.op, p.rows, p.files) for p in facts.points] == [
        *(("append", n, n) for n in range(1, 7)),
        ("merge", 6, 3),
        ("delete", 5, 3),
        ("restore", 6, 6),
        ("remove", 4, 4),
        ("sweep", 4, 4),
        ("append", 5, 5),
    ]
    assert (facts.rows, facts.files) == (5, 5)
    assert facts.stored.live == (5, facts.bytes)
    assert facts.stored.replaced == (0, 0)
    assert facts.mergeable == 5


def test_a_history_whose_beginning_is_forgotten_ends_at_what_is_live() -> None:
    when = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def commit(n: int, op: str, added: int | None, files: tuple[int, int], **summary: object) -> CommitInfo:
        return CommitInfo(str(n), when + timedelta(n), op, *files, added, 10, summary)

    history = [
        commit(1, "append", None, (1, 0)),  # the reference's: it tells no rows
        commit(2, "append", 5, (1, 0)),
        commit(3, "delete", 2, (1, 1), rows_removed=5, bytes_removed=7),
        commit(4, "sweep", None, (0, 9), data_files=9),
    ]
    points = history_points(history, 12, 7)
    assert [(p.rows, p.files) for p in points] == [(10, 6), (15, 7), (12, 7), (12, 7)]


def test_sentences(busy: firn.Database) -> None:
    text = "\n".join(sentences(table_facts(busy.table("flights"))))
    assert "flights holds 5 rows with 3 columns in 5 files of 2 partitions (by month(date))" in text
    assert "7 appends, 1 merge, 1 delete, 1 restore, 1 partition removal and 1 sweep" in text
    assert "made 3 files" in text
    assert "empty holds 0 rows" in sentences(table_facts(busy.table("empty")))[0]


# -- the page


def test_the_page_needs_no_network_and_tells_it_all(busy: firn.Database, tmp_path: Path) -> None:
    steps = [Step("four appends", 1.25, {"put": 12, "get": 3, "bytes_out": 4096}, "a detail")]
    names = write_report(busy, tmp_path / "page.html", steps=steps)
    assert names == ["empty", "flights"]
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    assert all(link.startswith("#") for link in page.links), page.links
    assert page.tags.count("script") == len(page.figures) + 2
    assert text.count("plotly.js v") == 1
    assert "default-src 'none'" in text
    shown = " ".join(page.texts)
    for wanted in (
        "four appends",
        "a detail",
        "2001-01",
        "month(date)",
        "TIMESTAMP",
        "In short",
        "empty holds 0 rows",
    ):
        assert wanted in shown
    # What it took, and for flights: history, partitions, file sizes, maintenance.
    assert len(page.figures) == 5
    assert (
        list(tmp_path.iterdir()) == [tmp_path / "db", tmp_path / "page.html"]
        or len(list(tmp_path.iterdir())) == 2
    )


def test_the_charts_hold_the_facts(busy: firn.Database) -> None:
    facts = table_facts(busy.table("flights"))
    history = figures.history(facts).to_dict()
    assert {t["name"] for t in history["data"] if t.get("name")} == {
        "append", "merge", "delete", "restore", "remove", "sweep",
    }  # fmt: skip
    merged = next(t for t in history["data"] if t.get("name") == "merge")
    assert list(merged["y"]) == [6]
    sizes, counts = figures.partitions(facts).to_dict()["data"]
    assert list(counts["y"]) == [3, 2]
    assert len(sizes["y"]) == 2
    histogram = figures.file_sizes(facts).to_dict()["data"][0]
    assert sum(histogram["y"]) == 5
    changes = figures.changes(facts)
    assert changes is not None
    before = next(t for t in changes.to_dict()["data"] if t["name"] == "replaced or removed")
    assert list(before["x"]) == [6, 1, 3, 2, None]
    assert figures.changes(table_facts(busy.table("empty"))) is None


def test_many_partitions_stay_readable(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("many", partition_by=["n"])
    table.append([{"n": n} for n in range(60)])
    facts = table_facts(table)
    sizes = figures.partitions(facts).to_dict()["data"][0]
    assert len(sizes["y"]) == figures.MOST_PARTITIONS
    text, _ = render_report(firn.connect(tmp_path))
    assert "the 40 largest of 60" in text
    assert "n=59" in text


def test_names_are_text_and_never_html(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("hostile.table", partition_by=['"' + HOSTILE.replace('"', '""') + '"'])
    table.append([{HOSTILE: IMAGE, "n": 1}, {HOSTILE: "other", "n": 2}])
    table.delete(f"""n = 2 AND "{HOSTILE.replace('"', '""')}" <> ''""")
    text, _ = render_report(db, steps=[Step(HOSTILE, 1, {"put": 1}, IMAGE)])
    body = text.replace(_plotly(), "")
    assert HOSTILE not in body
    assert "<img" not in body
    page = Page(text)
    assert page.tags.count("script") == len(page.figures) + 2
    assert "img" not in page.tags
    assert any(HOSTILE in t for t in page.texts)
    assert IMAGE in page.texts
    # Plotly reads a little HTML in its own texts: there, too, names are escaped.
    labels = [t for f in page.figures for t in re.findall(r"<[a-z/][^>]*>", orjson.dumps(f).decode())]
    assert {t for t in labels if t not in ("<br>", "<b>", "</b>", "<extra>", "</extra>")} == set()


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def test_a_page_holds_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
    db = firn.connect("memory://report-secrets")
    db.create_table("t").append([{"n": 1}])
    text, _ = render_report(db)
    assert "hunter2" not in text


def test_a_broken_table_doesnt_hide_the_others(busy: firn.Database, tmp_path: Path) -> None:
    version = busy.table("flights").snapshot().version
    busy.bucket.put(f"flights/_log/{version}.jsonl", b"{")
    text, names = render_report(busy)
    assert names == ["empty", "flights"]
    assert "This table can&#x27;t be read" in text
    with pytest.raises(firn.CorruptObjectError):
        render_report(busy, tables=["flights"])


def test_a_database_without_tables() -> None:
    text, names = render_report(firn.connect("memory://"))
    assert names == []
    assert "holds no tables yet" in text


# -- in a browser


def browser_checks(page: Path, dark: bool) -> list[str]:
    """What is wrong with the page in a browser; without one, in its HTML alone."""
    text = page.read_text()
    expected = len(Page(text).figures)
    if not CHROMIUM.exists():
        return [] if expected and text.count("Plotly.newPlot") >= 1 else ["no figures"]
    profile = page.parent / "profile"
    # Errors would leave no other trace in a dumped page.
    watched = page.with_name("watched.html")
    hook = (
        "<script>window.onerror=function(m){document.documentElement.setAttribute('data-error',m)}</script>"
    )
    watched.write_text(text.replace("<title>", hook + "<title>", 1))
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--window-size=1200,3000",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        "--dump-dom", watched.as_uri(),
    ]  # fmt: skip
    environment = {**os.environ, "HOME": str(page.parent)}
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment)
    shutil.rmtree(profile, ignore_errors=True)
    root = re.search(r"<html[^>]*>", found.stdout)
    problems = [] if root is not None else ["no page"]
    if root is not None and f'data-charts="{expected}"' not in root[0]:
        problems.append(f"not all of {expected} charts were drawn: {root[0]}")
    if root is not None and "data-error" in root[0]:
        problems.append(root[0])
    if found.stdout.count('class="main-svg"') < expected:
        problems.append("charts without drawings")
    if "owned" in (re.search(r"<title>(.*?)</title>", found.stdout) or ["", ""])[1]:
        problems.append("a name was run as a script")
    return problems


@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_all_charts_without_errors(busy: firn.Database, tmp_path: Path, dark: bool) -> None:
    hostile = busy.create_table("hostile", partition_by=['"' + HOSTILE.replace('"', '""') + '"'])
    hostile.append([{HOSTILE: IMAGE}])
    hostile.append([{HOSTILE: "b"}])
    write_report(busy, tmp_path / "page.html", steps=[Step(HOSTILE, 0.5, {"put": 3}), Step("two", 0.1, {})])
    assert browser_checks(tmp_path / "page.html", dark) == []


# -- the command


def test_the_command_takes_a_table_or_a_database(busy: firn.Database, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    assert done("report", tmp_path / "db", "--out", out, "--json").json["tables"] == ["empty", "flights"]
    assert done("report", tmp_path / "db" / "flights", "--out", out, "--json").json["tables"] == ["flights"]
    assert "wrote" in done("report", "flights", "--db", tmp_path / "db", "--out", out).out
    assert "flights holds 5 rows" in out.read_text()
    assert run("report", tmp_path / "db" / "no", "--out", out).code == 3
    assert run("report", "no", "--db", tmp_path / "db", "--out", out).code == 3
    assert run("report", tmp_path / "db", "--out", tmp_path / "no" / "r.html").code == 2
    assert run("report", tmp_path / "db", "--out", tmp_path).code == 2

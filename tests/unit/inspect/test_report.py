"""The report: facts, sentences, and one HTML page that needs nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest

import firn
from cli_runs import ROWS, done, flights, run
from firn.inspect.report import lake_section
from firn.inspect.report.facts import Step, history_points, table_facts
from firn.inspect.report.history_chart import WIDTH, history_chart
from firn.inspect.report.report import render_report, steps_panel, write_report
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
    """Tags, links and texts of a page, and the bars of each row of its tables: (width in percent, text)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.widths: list[float] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [v for k in ("src", "href", "action", "data") if (v := given.get(k)) is not None]
        if tag == "tr":
            self.rows.append([])
        if (found := re.match(r"width:([0-9.]+)%", given.get("style") or "")) is not None:
            self.widths.append(float(found[1]))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.rows:
            self.rows[-1].append(data)


# -- facts


def test_rows_and_files_after_each_commit(busy: firn.Database) -> None:
    facts = table_facts(busy.table("flights"))
    assert [(p.commit.op, p.rows, p.files) for p in facts.points] == [
        *(("append", n, n) for n in range(1, 7)),
        ("merge", 6, 3),
        ("delete", 5, 3),
        ("restore", 6, 6),
        ("remove", 4, 4),
        ("sweep", 4, 4),
        ("append", 5, 5),
    ]
    assert (facts.rows, facts.files) == (5, 5)
    assert facts.stored["live"] == (5, facts.bytes)
    assert facts.stored["replaced"] == (0, 0)
    assert sum(facts.merges) == 5


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
    assert len(text) < 100_000
    page = Page(text)
    assert all(link.startswith("#") for link in page.links), page.links
    assert "script" not in page.tags and "url(" not in text
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
    for panel in (
        "What it took",
        "Rows and files over time",
        "Partitions",
        "File sizes",
        "What maintenance did",
    ):
        assert page.texts.count(panel) == 1, panel
    assert {path.name for path in tmp_path.iterdir()} == {"db", "page.html"}


def test_bars_are_as_long_as_what_they_show() -> None:
    steps = [Step("a", 2, {"put": 6, "get": 2, "bytes_out": 4096}), Step("b", 0.5, {"list": 4}), Step("c", 0)]
    page = Page(steps_panel(steps))
    assert page.rows[1:] == [
        ["a", "2.0", "8", "4.0 KB"], ["b", "0.5", "4", "0 B"], ["c", "0.0", "0", "0 B"]
    ]  # fmt: skip
    assert page.widths == [100, 25, 75, 25, 50]
    assert 'title="2 GET, 6 PUT"' in steps_panel(steps)


def test_the_history_is_drawn_as_steps(busy: firn.Database) -> None:
    drawn = history_chart(table_facts(busy.table("flights")).points)
    page = Page(drawn)
    assert {"append", "merge", "delete", "restore", "remove", "sweep"} <= set(page.texts)
    assert page.texts.count("rows: 5 now, 6 at most") == page.texts.count("files: 5 now, 6 at most") == 2
    assert page.tags.count("svg") == 4
    # By commit: one row after the first, six after the sixth and the merge; at the end five.
    assert f'd="M0 100H0V83.3H{round(WIDTH / 11)}V66.7' in drawn
    assert f'H{WIDTH}V16.7V100"' in drawn
    merge = next(text for text in page.texts if text.startswith("merge ") and "UTC" in text)
    assert merge.endswith("UTC\nfiles +3 −6\nrows +6 −6")


def test_a_long_history_is_drawn_in_few_bytes() -> None:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    history = [
        CommitInfo(str(n), start + timedelta(hours=n), "append", 1, 0, None if n == 10_000 else 1, 10, {})
        for n in range(20_000)
    ]
    points = history_points(history, 20_000, 20_000)
    assert points[9_999].rows is None and points[10_000].rows is not None
    drawn = history_chart(points)
    assert len(drawn) < 80_000
    assert drawn.count("<title>") == 4
    # Rows are known from the middle on, files from the beginning.
    assert (drawn.count(f'd="M{WIDTH // 2} 100H'), drawn.count('d="M0 100H')) == (2, 2)


def test_partitions_sizes_and_maintenance_are_shown_in_full(busy: firn.Database) -> None:
    facts = table_facts(busy.table("flights"))
    (_, *rows) = Page(lake_section.partitions(facts)).rows
    assert [row[:3] for row in rows] == [["date_month=2001-01", "3", "3"], ["date_month=2001-03", "2", "2"]]
    (_, *rows) = Page(lake_section.file_sizes([700, 1024, 1500, 5000])).rows
    assert rows == [["512 B–1 KB", "1"], ["1 KB–2 KB", "2"], ["2 KB–4 KB", "0"], ["4 KB–8 KB", "1"]]
    text, _ = render_report(busy, tables=["flights"])
    changes = text[text.index("What maintenance did") : text.index("Recent commits")]
    rows = [row for row in Page(changes).rows if row]
    assert [(row[0].split()[0], row[1:3]) for row in rows[1:5]] == [
        ("merge", ["6", "3"]), ("delete", ["1", "1"]), ("restore", ["3", "6"]), ("remove", ["2", "0"]),
    ]  # fmt: skip
    assert rows[5][0].startswith("sweep ")
    assert "What maintenance did" not in render_report(busy, tables=["empty"])[0]


def test_of_many_partitions_the_largest_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = firn.connect(tmp_path).create_table("many", partition_by=["n"])
    table.append([{"n": n, "text": str(n) * n} for n in range(60)])
    monkeypatch.setattr(lake_section, "MOST_PARTITIONS", 40)
    text, _ = render_report(firn.connect(tmp_path))
    assert "… and 20 smaller ones" in text
    assert "n=59" in text and "n=1<" not in text


def test_names_are_text_and_never_html(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("hostile.table", partition_by=['"' + HOSTILE.replace('"', '""') + '"'])
    table.append([{HOSTILE: IMAGE, "n": 1}, {HOSTILE: "other", "n": 2}])
    table.delete(f"""n = 2 AND "{HOSTILE.replace('"', '""')}" <> ''""")
    text, _ = render_report(db, steps=[Step(HOSTILE, 1, {"put": 1}, IMAGE)])
    assert HOSTILE not in text
    page = Page(text)
    assert not {"script", "img"} & set(page.tags)
    assert any(HOSTILE in t for t in page.texts)
    assert IMAGE in page.texts


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


def browser_checks(page: Path, dark: bool, width: int) -> list[str]:
    """What is wrong with the page in a browser; without one, in its HTML alone."""
    text = page.read_text()
    drawn = Page(text).tags.count("svg")
    if not CHROMIUM.exists():
        return [] if drawn else ["no charts"]
    profile = page.parent / "profile"
    # The page has no script: another one, which has it in a frame, looks at what was drawn.
    watched = page.with_name("watched.html")
    watched.write_text(
        f"""<iframe src="{page.name}" width="{width}" height="3000"></iframe><script>
        document.querySelector("iframe").onload = function (event) {{
          var inside = event.target.contentDocument, root = inside.documentElement, shown = 0;
          inside.querySelectorAll("svg").forEach(function (svg) {{
            if (svg.closest("details")) svg.closest("details").open = true;
            var box = svg.querySelector("path").getBoundingClientRect();
            if (box.width > 100 && box.height > 10) shown++;
          }});
          document.title = [inside.title, shown, root.scrollWidth - root.clientWidth].join("|");
        }}</script>"""
    )
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--allow-file-access-from-files",
        f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--window-size=1400,3000",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        "--dump-dom", watched.as_uri(),
    ]  # fmt: skip
    environment = {**os.environ, "HOME": str(page.parent)}
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment)
    shutil.rmtree(profile, ignore_errors=True)
    title = (re.search(r"<title>(.*?)</title>", found.stdout) or ["", ""])[1]
    wanted = f"Tables · Firn|{drawn}|0"
    return [] if title == wanted else [f"{title!r}, not {wanted!r}"]


@pytest.mark.parametrize(("dark", "width"), [(False, 1200), (True, 400)])
def test_a_browser_draws_all_charts_and_nothing_is_too_wide(
    busy: firn.Database, tmp_path: Path, dark: bool, width: int
) -> None:
    hostile = busy.create_table("hostile", partition_by=['"' + HOSTILE.replace('"', '""') + '"'])
    hostile.append([{HOSTILE: IMAGE}])
    hostile.append([{HOSTILE: "b"}])
    write_report(busy, tmp_path / "page.html", steps=[Step(HOSTILE, 0.5, {"put": 3}), Step("two", 0.1, {})])
    assert browser_checks(tmp_path / "page.html", dark, width) == []


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

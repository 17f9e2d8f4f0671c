"""Check a writer's catalog: its transactions, checkpoints, claims and markers, and the files that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import orjson

from firn.arrow.json_columns import column_of
from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError, FirnError
from firn.inspect.fsck.files import Expected, altered_columns, check_files
from firn.inspect.fsck.findings import Finding, Findings, note, of_error, shown
from firn.journal.model import DataFile
from firn.journal.writer.federation.definition import WriterDefinition
from firn.journal.writer.format.actions import Action, Add, CatalogTransaction, Remove
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import ObjectKind, ObjectName, WriterLayout
from firn.journal.writer.format.marker import is_due
from firn.journal.writer.format.messages import encode_checkpoint
from firn.journal.writer.format.state import CatalogState, CatalogTable, LiveFile, beside, replay
from firn.journal.writer.history.forks import Node
from firn.journal.writer.history.history import CatalogVersion, History
from firn.journal.writer.rebuild.rebuild import survey
from firn.journal.writer.rebuild.surviving_objects import REBUILT, Footers, look
from firn.journal.writer.unclaimed.branches import lost_nodes
from firn.lake.maintain.rebuild import read_footers
from firn.names import fold
from firn.runner import LocalRunner

REBUILD = "`firn rebuild` writes it anew from what is left"


def check_catalog(
    bucket: Bucket, layout: WriterLayout, *, table: str | None = None, footers: bool = True
) -> Findings:
    """One pass over one catalog; of the data files those of one table, if given. Cost: see
    `firn.inspect.fsck.fsck.check`."""
    return _Check(bucket, layout, table, footers).run()


class _Check:
    def __init__(self, bucket: Bucket, layout: WriterLayout, table: str | None, footers: bool) -> None:
        self.bucket, self.layout, self.table, self.footers = bucket, layout, table, footers
        self.found = Findings()
        self.history = History(bucket, layout)
        self.root = bucket.uri(layout.root)
        self.unread: Finding | None = None
        self.decoded: set[tuple[str, str]] = set()

    def run(self) -> Findings:
        try:
            # Data files are listed after the transactions that name them.
            self.objects = look(self.bucket, self.layout)
        except FirnError as error:
            self.found.error(self.root, error)
            return self.found
        self._objects()
        version = self._version()
        if version is not None:
            chain = dict(self.history.counting(self.objects.names))
            states = self._replayed(chain)
            self._lost_branches(chain, version)
            self._claims(version)
            self._files(version, chain, states)
            self._markers(chain)
        self._evidence(version)
        self._hint()
        if self.unread is not None and not self._is_told(self.unread.what):
            self.found.add(self.unread)
        return self.found

    def _is_told(self, what: str) -> bool:
        """Whether a finding names the object that keeps the history from being read."""
        missing = re.search(r"revision (\d+) is missing", what)
        lost = None if missing is None else re.compile(rf"revision {missing[1]}\b.*missing")
        return any(
            (f.object in what and f.object != self.root) or (lost is not None and lost.search(f.what))
            for f in self.found.problems
        )

    # -- objects by themselves

    def _objects(self) -> None:
        objects, found = self.objects, self.found
        found.count("transactions", sum(map(len, objects.names.transactions.values())))
        found.count("checkpoints", sum(map(len, objects.names.checkpoints.values())))
        found.count("claims", len(objects.claims))
        transactions = objects.transactions.values()
        if rows := sum(any(_is_rows(action) for action in t.actions) for t in transactions):
            found.count("transactions with rows", rows)
        found.count("markers", len(objects.markers))
        for key, reason in objects.damaged.items():
            found.error(self.bucket.uri(key), reason)
        reasons = {self.layout.transactions_prefix + bad.name: bad.reason for bad in objects.names.bad}
        for key in objects.unknown:
            what = (
                f"it has a name that no Firn writes: {reasons[key]}"
                if key in reasons
                else "it isn't Firn's, and is left alone"
            )
            if key in reasons:
                found.problem(self.bucket.uri(key), what, "Move it away, if nobody needs it there")
            else:
                found.note(self.bucket.uri(key), what)

    def _version(self) -> CatalogVersion | None:
        try:
            version = self.history.load()
        except FirnError as error:
            self.unread = of_error(self.root, error)  # told at the end, unless its cause is
            return None
        if version.fork is not None:
            self.found.problem(
                self.root,
                f"it has {version.fork}: two processes wrote as {self.layout.writer!r}, and nothing above "
                f"revision {version.head.revision} can be read",
                "Stop all but one of them; if the fork stays, choose a side with `firn repair --keep UUID`",
            )
        return version

    # -- the history

    def _replayed(self, chain: Mapping[int, str]) -> dict[int, CatalogState]:
        """Replay from the oldest base to the head, and compare each checkpoint with it. The states that checkpoints
        should hold, by revision; where a transaction is damaged, the replay begins anew at the next checkpoint."""
        objects = self.objects
        states: dict[int, CatalogState] = {}
        state: CatalogState | None = None
        lowest = min(chain, default=1)
        if lowest == 1:
            state = CatalogState(self.layout.writer, self.layout.database)
        pending: list[tuple[CatalogTransaction, str]] = []
        for revision in sorted(chain):
            node = (revision, chain[revision])
            transaction = objects.transactions.get(node)
            if transaction is None:
                state, pending = None, []
            elif state is not None:
                pending.append((transaction, self._where(node, "transaction")))
            checkpoint = objects.checkpoints.get(node)
            if state is not None and (checkpoint is not None or revision == max(chain)):
                state, pending = self._after(state, pending), []
            if checkpoint is not None:
                if state is not None and encode_checkpoint(state) != encode_checkpoint(checkpoint):
                    self.found.problem(
                        self._where(node, "checkpoint"),
                        "it isn't what the transactions before it say",
                        "Delete it; `firn checkpoint` writes the newest one anew",
                    )
                else:
                    state = checkpoint
            if state is not None and state.head.revision == revision:
                states[revision] = state
        return states

    def _after(
        self, state: CatalogState, pending: Sequence[tuple[CatalogTransaction, str]]
    ) -> CatalogState | None:
        try:
            return replay(state, pending)
        except FirnError as error:
            self.found.error(self.root, error)
            return None

    def _lost_branches(self, chain: Mapping[int, str], version: CatalogVersion) -> None:
        lost = [] if version.fork is not None else sorted(lost_nodes(chain, self.objects.names))
        lost = [node for node in lost if node[0] <= version.head.revision]
        if lost:
            names = shown(f"{prefix} of revision {revision}" for revision, prefix in lost)
            self.found.note(
                self.root, f"a fork was decided against {names}", "They go when `firn prune` reaches them"
            )

    def _claims(self, version: CatalogVersion) -> None:
        """Without the head's claim, or with one above it that can't follow, nobody can commit any more."""
        head, claims = version.head, self.objects.claims
        if head.uuid is None:
            return
        if not head.claimed:
            if claims:
                where = self.bucket.uri(self.layout.claims_prefix)
                self.found.note(where, f"{len(claims):,} claims beside a history that is kept without them")
            return
        for revision, claim in sorted(claims.items()):
            where = self.bucket.uri(self.layout.claim_key(revision))
            known = self.objects.names.transactions.get(revision, ())
            if claim is None:
                continue  # told with the damaged objects
            if revision <= head.revision and known and prefix_of(claim.uuid) not in known:
                self.found.problem(where, f"it is for {claim.uuid}, and its revision is another's", REBUILD)
            elif revision > head.revision and claim.commit.previous != head.uuid:
                self.found.problem(
                    where, f"it can't follow revision {head.revision}, so nobody can commit", REBUILD
                )
            elif revision > head.revision:
                self.found.note(
                    where, "its transaction isn't there yet", "The next process that commits writes it"
                )
        needed = {
            live.revision
            for table in version.state.tables.values()
            for live in table.files.values()
            if live.file.inlined is not None
        }
        for revision in sorted(needed - claims.keys() - {head.revision}):
            where = self.bucket.uri(self.layout.claim_key(revision))
            self.found.note(
                where,
                f"it is missing: the rows that revision {revision} left in the catalog have no second copy",
                "merge(only='inlined') writes them into files",
            )
        if head.revision not in claims:
            where = self.bucket.uri(self.layout.claim_key(head.revision))
            self.found.problem(where, "the newest revision's claim is missing, so nobody can commit", REBUILD)

    def _markers(self, chain: Mapping[int, str]) -> None:
        """Whether a rebuild would still know what each transaction did."""
        there = {info.key for info in self.objects.markers}
        for node in sorted(chain.items()):
            transaction = self.objects.transactions.get(node)
            if transaction is None or transaction.commit.summary.get(REBUILT):
                continue
            # Only a look into files tells what they replace: here they are believed to.
            replaced = {action.path for action in transaction.actions if isinstance(action, Remove)}
            key = self.layout.marker_key(transaction.revision, transaction.uuid)
            if key not in there and is_due(self.layout, transaction, replaced):
                self.found.note(
                    self.bucket.uri(key),
                    f"it is missing: a rebuild could not tell what revision {transaction.revision} did",
                    "Nothing needs it while the transaction is there",
                )

    # -- files

    def _files(
        self, version: CatalogVersion, chain: Mapping[int, str], states: Mapping[int, CatalogState]
    ) -> None:
        live = _files_of(version.state)
        known = {name: _columns_of(table) for name, table in version.state.tables.items()}
        expected = [
            Expected(
                entry.file, f"live in the table {name}, since revision {entry.revision}", columns=known[name]
            )
            for name, entry in live.values()
            if self.table in (None, name) and entry.file.inlined is None
        ]
        older: dict[str, Expected] = {}

        def reads(revision: int, table: str, file: DataFile) -> None:
            if file.inlined is not None:
                self._check_rows(file)
            elif file.path not in live and self.table in (None, table):
                older.setdefault(file.path, Expected(file, f"read as of revision {revision}", live=False))

        for node in sorted(chain.items()):
            transaction = self.objects.transactions.get(node)
            for action in () if transaction is None else transaction.actions:
                if isinstance(action, Add):
                    reads(node[0], action.table, action.file)
        for revision, state in sorted(states.items()):
            for name, entry in _files_of(state).values():
                reads(revision, name, entry.file)
        both = [*expected, *older.values()]
        check_files(self.bucket, both, self.objects.data, self.found, footers=self.footers)

    def _check_rows(self, file: DataFile) -> None:
        """Decode rows that stand in the catalog, each once for each object that has them."""
        rows = file.inlined
        if (rows.where, file.path) in self.decoded:
            return
        self.decoded.add((rows.where, file.path))
        try:
            for column, values in rows.values().items():
                column_of(rows, column, values)
        except CorruptObjectError as error:
            self.found.error(rows.where, error)

    # -- what is left over

    def _evidence(self, version: CatalogVersion | None) -> None:
        """Markers and files that nothing names: do they tell of transactions that are lost?"""
        objects = self.objects
        known = objects.told() | objects.kept()
        loose = [info for key, info in objects.data.items() if key not in known]
        footers = read_footers(self.bucket, self.layout, LocalRunner(), [*objects.markers, *loose])
        for key, reason in footers.damaged.items():
            severity = "note" if self.layout.owns(key) else "problem"
            finding = of_error(self.bucket.uri(key), reason)
            self.found.add(finding if severity == "problem" else note(finding.object, finding.what))
        for key in footers.foreign:
            self.found.note(
                self.bucket.uri(key),
                "it is a Parquet file that doesn't say that it is Firn's, and is left alone",
            )
        if version is None or version.fork is None:
            self._lost(footers, version)
        if loose:
            size = sum(info.size for info in loose)
            self.found.note(
                self.bucket.uri(self.layout.data_prefix),
                f"{len(loose):,} files of {size:,} bytes are of no retained revision",
                "`firn sweep` deletes them when they are old enough",
            )

    def _lost(self, footers: Footers, version: CatalogVersion | None) -> None:
        try:
            damage = survey(self.bucket, self.layout, self.objects, footers).damage
        except FirnError as error:
            self.found.error(self.root, error)
            return
        told = {f.object for f in self.found.problems}
        pending = None if version is None else self._pending(version)
        for what in damage:
            # A damaged object, or a claim, has been told by its own name.
            if any(self._is_of(where, what) for where in told):
                continue
            if pending is None or f"revision {pending.revision}, {prefix_of(pending.uuid)}," not in what:
                self.found.problem(self.root, what, REBUILD)

    def _pending(self, version: CatalogVersion) -> CatalogTransaction | None:
        """The commit that the next process makes for the owner of a claim, if that is dead."""
        claim = self.objects.claims.get(version.head.revision + 1)
        follows = claim is not None and version.head.claimed and claim.commit.previous == version.head.uuid
        return claim if follows else None

    def _is_of(self, where: str, what: str) -> bool:
        if where in what:
            return True
        name = where.rpartition("/")[2].split(".")
        return (
            len(name) == 3 and f"revision {int(name[0])}, {name[1]}," in what if name[0].isdigit() else False
        )

    def _hint(self) -> None:
        hint, names = self.objects.hint, self.objects.names
        where = self.bucket.uri(self.layout.hint_key)
        if hint is None:
            if names.checkpoints:
                self.found.note(
                    where, "no hint can be read: opening lists everything", "`firn checkpoint` writes it"
                )
        elif hint.prefix not in names.checkpoints.get(hint.revision, ()):
            self.found.note(
                where,
                f"it names the checkpoint {hint.prefix} of revision {hint.revision}, which isn't there",
                "`firn checkpoint` writes it anew; until then opening lists everything",
            )

    def _where(self, node: Node, kind: ObjectKind) -> str:
        return self.bucket.uri(self.layout.object_key(ObjectName(*node, kind)))


def _is_rows(action: Action) -> bool:
    return isinstance(action, Add) and action.file.inlined is not None


def _columns_of(table: CatalogTable) -> frozenset[str] | None:
    """Folded names of the columns that a table's files in one catalog may have."""
    try:
        definition = WriterDefinition.decode(table.spec, table.name)
    except CorruptObjectError:
        return None  # told by the check of the table
    declared = orjson.loads(definition.spec).get("columns", {})
    named = (name for schema in table.schemas for name, _ in schema)
    aside = (name for live in table.files.values() for name in beside(live))
    return frozenset(map(fold, (*declared, *named, *aside))) | altered_columns(definition.entries)


def _files_of(state: CatalogState) -> dict[str, tuple[str, LiveFile]]:
    return {path: (name, live) for name, table in state.tables.items() for path, live in table.files.items()}

"""The leaderless log: IceDB's design, where a commit is one PUT under a unique name.

`layout` names objects, `codec` holds their bytes, `replay` turns logs into a table's state, `loader` reads them. An
append is `append`; maintenance is `lease` (the lock), `session` (publish), `cleanup` and `sweep`. The format page
is docs/format/leaderless-log.md. Start reading at `journal`.
"""

from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.journal.leaderless.journal import LeaderlessJournal

__all__ = ["LeaderlessJournal", "LeaderlessSettings"]

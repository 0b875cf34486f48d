"""PostgreSQL's pgbench with a script of its own: each row a commit, 64 connections. It cannot COPY, so there is nothing
here beside 1000 rows a commit of the Python client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.native import readers
from bench.native.outcome import Outcome
from bench.native.tool import Tool
from bench.peers.adapters.postgres import Postgres, PostgresOlder
from bench.peers.contract import Peer, version_of
from bench.peers.place import HOST, Place

CONNECTIONS = "64"
ENQUEUE = "insert into {queue}(payload) values (decode(repeat('5a', {size}), 'hex'));\n"
# Of the row that was inserted before it another client may be the consumer; a run may find none left, which is counted.
CONSUME = "delete from {queue} where id = (select id from {queue} order by id for update skip locked limit 1);\n"


class Pgbench(Tool):
    peer = "postgres"
    name = "pgbench"
    lacks = "one row a commit: it has no COPY"

    def __init__(self, place: Place, peer: Peer) -> None:
        super().__init__(place, peer)
        assert isinstance(peer, Postgres)
        self._server = peer
        self._queue = ""

    def programs(self) -> list[str]:
        return [self._server.binary("pgbench")]

    def prefix(self) -> Sequence[str]:
        return self._server.installed.programs.prefix

    def missing(self) -> list[str]:
        return self._server.lacking(self.programs)

    def version(self) -> str:
        return version_of([*self.prefix(), *self.programs(), "--version"], 2)

    def prepare(self, queue: str) -> None:
        self._queue = queue
        self._server.sql(f"create table {queue}(id bigserial primary key, payload bytea not null)")

    def commands(self, workload: str, queue: str, size: int, seconds: float) -> dict[str, Sequence[str]]:
        steps = ENQUEUE + CONSUME if workload == "flow" else ENQUEUE
        (self.place.role("tool") / "script.sql").write_text(steps.format(queue=queue, size=size), encoding="utf-8")
        address = ["--host", HOST, "--port", str(self._server.port), "--username", "bench"]
        how = ["--no-vacuum", "--protocol", "prepared", "--client", CONNECTIONS, "--jobs", "2"]
        return {"tool": [*self.programs(), *how, *address, "--time", str(max(1, round(seconds))),
                         "--file", "script.sql", "postgres"]}  # fmt: skip

    def read(self, workload: str, outputs: Mapping[str, str]) -> Outcome:
        done = readers.pgbench(outputs["tool"])
        if workload != "flow":
            return done
        # It counts scripts, which may have found no row; the server counts rows that were deleted.
        consumed = int(self._server.sql(f"select n_tup_del from pg_stat_user_tables where relname = '{self._queue}'"))
        return Outcome(round(done.messages * consumed / done.sent), done.seconds, done.sent, consumed)

    def held(self, queue: str) -> int:
        return int(self._server.sql(f"select count(*) from {queue}"))


class PgbenchOlder(Pgbench):
    peer = PostgresOlder.name

"""PostgreSQL with a synchronous standby, whose workers delete one row and insert two in a transaction, by pgbench."""

from __future__ import annotations

import re

from bench.peers.adapters.postgres import Postgres
from bench.peers.place import HOST, VENV_PYTHON, BenchError, Place
from bench.units.measures import PAYLOAD, Size

# One round trip for all of it, which is the best that a client can do.
SCRIPT = f"""\\startpipeline
begin;
delete from inbox where id = (select id from inbox order by id for update skip locked limit 1);
insert into outbox(payload) values (decode(repeat('5a', {len(PAYLOAD)}), 'hex'));
insert into archive(payload) values (decode(repeat('5a', {len(PAYLOAD)}), 'hex'));
commit;
\\endpipeline
"""
_RATE = re.compile(r"^tps = ([0-9.]+) \(without initial connection time\)", re.MULTILINE)
ROLE = "pgbench"


class PostgresWorkers:
    """A primary, its standby, and a turn of many workers."""

    def __init__(self, place: Place, size: Size) -> None:
        self._place, self._size = place, size
        self._server = Postgres(place)

    def missing(self) -> list[str]:
        lacking = [each for each in self._server.missing() if each != str(VENV_PYTHON)]  # of a client that is not used
        return lacking or self._server.lacking(lambda: [self._server.binary("pgbench")])

    def start(self) -> None:
        """Raises BenchError."""
        self._server.start()
        for setting in self._server.settings():
            if wrong := setting.wrong:
                raise BenchError(f"postgres: {wrong}")
        for table in ("inbox", "outbox", "archive"):
            self._server.sql(f"create table {table}(id bigserial primary key, payload bytea not null)")
        (self._place.role(ROLE) / "script.sql").write_text(SCRIPT, encoding="utf-8")
        self.turn()

    @property
    def title(self) -> str:
        return self._server.title

    def turn(self) -> float:
        """Units a second. Raises BenchError when a unit found no row, or failed."""
        size = self._size
        count = size.workers * size.units_each
        fill = f"insert into inbox(payload) select decode(repeat('5a', {len(PAYLOAD)}), 'hex') "
        self._server.sql(fill + f"from generate_series(1, {count})")
        address = ["--host", HOST, "--port", str(self._server.port), "--username", "bench"]
        how = ["--no-vacuum", "--protocol", "prepared", "--client", str(size.workers), "--jobs", "2"]
        script = str(self._place.role(ROLE) / "script.sql")
        work = ["--transactions", str(size.units_each), "--file", script, "postgres"]
        said = self._server.said(self._server.binary("pgbench"), *how, *address, *work)
        if left := int(self._server.sql("select count(*) from inbox")):
            raise BenchError(f"postgres: {left} of {count} rows were not taken")
        if (rate := _RATE.search(said)) is None:
            raise BenchError(f"pgbench says no rate: {said[-300:]}")
        return float(rate[1])

    def stop(self) -> None:
        self._server.stop()

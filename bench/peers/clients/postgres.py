"""PostgreSQL through psycopg 3: a table as a queue. A thousand rows a COPY and commit, on a few connections in turns.

A consumer takes rows that nobody else has locked, and its commit, after they are received, is the acknowledgement. It
has a few connections too: on one alone nothing is taken while a commit waits for two disks.
"""

from __future__ import annotations

import time

import psycopg
import uvloop

from bench.peers.clients.spread import Due, Send, one_request_each
from bench.peers.load import WAIT_S, Job, in_lanes

CONNECTIONS = 3
TAKE = """
with taken as (select id from {table} order by id for update skip locked limit {limit})
delete from {table} using taken where {table}.id = taken.id returning body
"""


def prepare(job: Job) -> None:
    with psycopg.connect(job.target["dsn"], autocommit=True) as connection:
        connection.execute(f"drop table if exists {job.queue}")
        # Rows come and go: what is dead has to be taken away early and without pauses.
        connection.execute(
            f"create table {job.queue} (id bigserial primary key, body bytea not null) with "
            "(autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000, autovacuum_vacuum_cost_delay=0)"
        )
        connection.execute(
            f"alter table {job.queue} alter column body set storage external"
        )  # random bytes do not shrink


def produce(job: Job) -> None:
    if job.producers > 1:
        uvloop.run(produce_from_many(job))
    else:
        in_lanes(job, CONNECTIONS, produce_lane)


async def produce_from_many(job: Job) -> None:
    """Producers of their own: a connection each, one commit under way on it."""
    connections = [
        await psycopg.AsyncConnection.connect(job.target["dsn"], autocommit=True) for _ in range(job.producers)
    ]
    insert = f"insert into {job.queue} (body) values (%b)"

    def send_by(connection: psycopg.AsyncConnection) -> Send:
        async def send(messages: list[Due]) -> None:
            if len(messages) == 1:
                await connection.execute(insert, [messages[0][0]], prepare=True)
                return
            async with connection.cursor() as cursor:
                await cursor.executemany(insert, [[payload] for payload, _ in messages])

        return send

    await one_request_each(job, [send_by(connection) for connection in connections])
    for connection in connections:
        await connection.close()


def produce_lane(job: Job) -> None:
    with psycopg.connect(job.target["dsn"], autocommit=True) as connection:
        insert = f"insert into {job.queue} (body) values (%b)"
        while not job.over:
            if not (payloads := job.take(job.batch)):
                time.sleep(job.wait_s)
                continue
            if len(payloads) == 1:
                connection.execute(insert, payloads, prepare=True)
            else:
                with connection.cursor() as cursor, cursor.copy(f"copy {job.queue} (body) from stdin binary") as copy:
                    copy.set_types(["bytea"])
                    for payload in payloads:
                        copy.write_row((payload,))
            job.answered(len(payloads), payloads.began)


def consume(job: Job) -> None:
    in_lanes(job, CONNECTIONS, consume_lane)


def consume_lane(job: Job) -> None:
    take = TAKE.format(table=job.queue, limit=job.batch)
    with psycopg.connect(job.target["dsn"]) as connection:
        while not job.done():
            with connection.cursor(binary=True) as cursor:
                bodies = [row[0] for row in cursor.execute(take, prepare=True).fetchall()]
                job.received(bodies)
                connection.commit()
            if not bodies:
                time.sleep(WAIT_S)

"""Makes the data file of a stopped member smaller; decides how it is asked for and printed, never how it is done."""

from __future__ import annotations

from pathlib import Path

import click

from tandemq.cli.params import output_option


@click.command()
@click.argument("data_dir", type=click.Path(path_type=Path))
@output_option("table", "json")
def compact(data_dir: Path, output: str) -> None:
    """Make the data file of a member that does not run as small as what is in it: data.mdb never shrinks by itself.

    The whole directory is examined first, as `backup verify` does. Then the new file is written beside the old one,
    for which there must be room, and compared with it row for row; only then it takes the other's place. Whenever
    this is broken off, kill -9 included, one of the two is there, whole.

    Example: tandemq backup compact /var/lib/tandemq
    """
    from contextlib import closing

    from tandemq.cli.output import print_facts
    from tandemq.cli.storing import bar_for, server, storage_failures

    server()
    from replica.offline.examine import examine
    from storage.compaction import compact as compact_directory
    from storage.disk import open_to_read

    with storage_failures(), bar_for(output) as bar:
        with closing(open_to_read(data_dir)) as store:
            examine(store, None, lambda done: bar("examined", done, done))
        done = compact_directory(data_dir, on_progress=lambda rows, total: bar("compared", rows, total))
    freed = done.before_bytes - done.after_bytes
    print_facts({"data_dir": str(data_dir), **done._asdict(), "freed_bytes": freed}, output)

"""A pipeline's file: what it means, and that what is wrong is told with its place, its value and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import EXAMPLE, Pipeline, Source, load, parse
from pipeline.problems import PipelineError
from pipeline.session import MASTER, SUBMITTED, settings

TARGET = '[source]\ntarget = "127.0.0.1:7600,127.0.0.1:7610"\n'


def test_the_example_says_every_default(tmp_path: Path) -> None:
    given = parse(EXAMPLE, "example", tmp_path)
    assert given == parse(TARGET, "short", tmp_path)
    sections = {name for name in Pipeline.__struct_fields__ if f"[{name}]" in EXAMPLE}
    assert sections == set(Pipeline.__struct_fields__)
    for name in sections:
        for key in getattr(given, name).__struct_fields__:
            assert f"\n{key} = " in EXAMPLE, f"{name}.{key}"


def test_paths_are_those_of_the_files_directory(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(TARGET + '[lake]\npath = "data/lake"\n[report]\npath = "/elsewhere"\n')
    found = load(file)
    assert (found.lake.path, found.report.path) == (str(tmp_path / "data" / "lake"), "/elsewhere")
    assert found.source == Source(target="127.0.0.1:7600,127.0.0.1:7610")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "source is missing"),
        ("[source]\n", "source.target is missing"),
        ("[source\n", "is not TOML"),
        ('[source]\ntarget = ""\n', "source.target = ''"),
        ('[source]\ntarget = "a:1,b:2,c:3"\n', "both members"),
        ('[source]\ntarget = "a:99999"\n', "is not host:port"),
        ('[source]\ntarget = "a:1"\nqueue = "x"\n', "unknown key source.queue; did you mean queues?"),
        ('[source]\ntarget = "a:1"\nqueues = "x"\n', "source.queues: Expected `array`"),
        ('[source]\ntarget = "a:1"\ntimeout_s = nan\n', "source.timeout_s = nan"),
        (TARGET + "[inges]\n", "unknown key inges; did you mean ingest?"),
        (TARGET + '[lake]\npath = "s3a://bucket/lake"\n', "lake.path = 's3a://bucket/lake'"),
        (TARGET + '[spark]\nmaster = "locl[2]"\n', "spark.master = 'locl[2]'"),
        (TARGET + '[spark]\ndriver_memory = "2 GB"\n', "spark.driver_memory = '2 GB'"),
        (TARGET + '[spark]\nconf = { "driver.cores" = "2" }\n', "spark.conf.driver.cores"),
        (TARGET + "[spark]\nshuffle_partitions = 0\n", "spark.shuffle_partitions = 0"),
        (TARGET + "[ingest]\nrows_per_batch = 0\n", "ingest.rows_per_batch = 0"),
        (TARGET + "[ingest]\nwait_s = -1.0\n", "ingest.wait_s = -1.0"),
        (TARGET + '[ingest]\nreader = "a b"\n', "ingest.reader = 'a b'"),
        (TARGET + "[stats]\nwindow_s = 0\n", "stats.window_s = 0"),
    ],
)
def test_what_is_wrong_is_told_where_it_stands(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as caught:
        parse(text, "p.toml", tmp_path)
    assert caught.value.reason == "CONFIG_ERROR"
    assert caught.value.cause.startswith("p.toml: ")
    assert told in caught.value.cause


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"CONFIG_ERROR: .*gone.toml: cannot be read: No such file"):
        load(tmp_path / "gone.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(PipelineError, match="is not UTF-8"):
        load(tmp_path / "bytes.toml")


def test_spark_is_told_its_size_unless_spark_submit_told_it(tmp_path: Path) -> None:
    sized = TARGET + '[spark]\nexecutor_memory = "4g"\nconf = { "spark.x" = "y" }\n'
    options = parse(sized, "p.toml", tmp_path).spark
    alone = settings(options, {})
    assert (alone["spark.master"], alone["spark.driver.memory"]) == (MASTER, "2g")
    assert (alone["spark.executor.memory"], alone["spark.x"]) == ("4g", "y")
    assert alone["spark.driver.host"] == "127.0.0.1"
    submitted = settings(options, {SUBMITTED: "1234"})
    assert not {"spark.master", "spark.driver.memory", "spark.driver.host"} & submitted.keys()


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_the_driver_has_no_loopback_address_on_a_cluster(tmp_path: Path, master: str) -> None:
    options = parse(TARGET + f'[spark]\nmaster = "{master}"\n', "p.toml", tmp_path).spark
    told = settings(options, {})
    assert told["spark.master"] == master
    assert "127.0.0.1" not in told.values()

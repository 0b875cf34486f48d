"""What a session is told by its master: a driver on a cluster is found by others, one on this machine is not."""

from __future__ import annotations

import pytest

from tandemq.spark.settings import LOOPBACK, SUBMITTED, python_of, settings

CLUSTERS = ["spark://host:7077", "yarn", "k8s://https://host:6443"]
SUBMIT = {SUBMITTED: "1234"}


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[1,2,1024]"])
def test_on_one_machine_the_driver_listens_on_its_loopback_alone(master: str) -> None:
    told = settings(master, {}, {})
    assert told["spark.master"] == master
    assert LOOPBACK.items() <= told.items()


@pytest.mark.parametrize("master", CLUSTERS)
def test_on_a_cluster_the_address_is_left_to_spark(master: str) -> None:
    for told in (settings(master, {}, {}), settings("", {"spark.master": master}, {})):
        assert told["spark.master"] == master
        assert not LOOPBACK.keys() & told.keys()


def test_what_the_user_says_of_the_address_wins() -> None:
    told = settings("spark://host:7077", {"spark.driver.host": "driver", "spark.ui.enabled": "true"}, {})
    assert (told["spark.driver.host"], told["spark.ui.enabled"]) == ("driver", "true")


def test_without_a_master_it_is_local_unless_spark_submit_was_told_one() -> None:
    assert settings("", {}, {})["spark.master"] == "local[2]"
    told = settings("", {}, SUBMIT)
    assert not {"spark.master", *LOOPBACK} & told.keys()
    assert settings("local[4]", {}, SUBMIT)["spark.master"] == "local[4]"


def test_executors_run_the_python_that_they_are_told() -> None:
    packed = {"spark.pyspark.python": "./environment/bin/python"}
    environment = {"PYSPARK_PYTHON": "/usr/bin/python3"}
    assert python_of(packed, environment, "/own") == "./environment/bin/python"
    assert python_of({}, environment, "/own") == "/usr/bin/python3"
    assert python_of({}, {}, "/own") == "/own"

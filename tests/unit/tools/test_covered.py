"""Coverage by folder does not fall in silence."""

from __future__ import annotations

from tools.covered import SLACK, Reached, by_folder, fallen, floors, folder_of


def summary(lines: int, of_lines: int, branches: int, of_branches: int) -> dict[str, dict[str, int]]:
    names = ("covered_lines", "num_statements", "covered_branches", "num_branches")
    return {"summary": dict(zip(names, (lines, of_lines, branches, of_branches), strict=True))}


def test_files_are_summed_by_folder() -> None:
    files = {"replica/core/a.py": summary(1, 2, 0, 0), "replica/core/state/b.py": summary(2, 2, 1, 4)}
    assert by_folder(files) == {"replica/core": Reached(75.0, 25.0)}
    assert folder_of("replica/manager.py") == "replica"


def test_a_folder_that_falls_is_named() -> None:
    floor = {"failover": Reached(90.0, 80.0)}
    assert fallen({"failover": Reached(90.0 - SLACK, 80.0)}, floor) == []
    assert fallen({"failover": Reached(90.0, 79.0)}, floor) == ["failover: 79.0 % of its branches, 80.0 % before"]
    assert len(fallen({"storage": Reached(1.0, 1.0)}, floor)) == 2


def test_the_floors_can_be_read() -> None:
    assert {"replica/core", "replica/machine", "failover", "storage"} <= floors().keys()

"""What a campaign is told at its command line: times that are none are refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import campaign


@pytest.mark.parametrize("option", ["--seconds", "--bound"])
@pytest.mark.parametrize("text", ["0", "-1", "0.9", "nan", "inf", "soon"])
def test_a_time_below_the_least_is_a_usage_error(
    option: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        campaign.main([f"{option}={text}", "--out", str(tmp_path / "out")])
    assert ended.value.code == campaign.USAGE
    assert f"argument {option}: {text!r} is no number of seconds of at least 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_bug_and_a_place_that_takes_nothing_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("")
    for option, value in (("--bug", "ack-befor-replica"), ("--out", str(tmp_path / "out"))):
        with pytest.raises(SystemExit) as ended:
            campaign.main([option, value])
        assert ended.value.code == campaign.USAGE
        assert f"argument {option}: " in capsys.readouterr().err

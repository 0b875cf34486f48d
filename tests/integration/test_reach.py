"""A member beset by clients: silent ones do not stop sends, and a master that can take nobody hands over."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.crowd.floods import HELLO
from chaos.crowd.sending import sending
from chaos.crowd.silent import crowding
from chaos.crowd.wire import ACK, Kind, frame
from tandemq.edge.descriptors import LIMIT_MIN, shares
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = [pytest.mark.process, pytest.mark.slow]


async def test_a_master_that_can_take_no_client_hands_over_while_its_link_lives(tmp_path: Path) -> None:
    """These clients are polite, so nothing ends them: they take every connection there is at the master."""
    cluster = patient(tmp_path)
    for name in cluster.members:
        cluster.children[name].descriptors = LIMIT_MIN
    async with cluster.running():
        [master] = (await cluster.status()).masters()
        other = "b" if master == "a" else "a"
        host, port = cluster.endpoint(master).split(":")
        said = HELLO + frame(Kind.SETTINGS, ACK)
        crowd = crowding((host, int(port)), shares(LIMIT_MIN).clients + 50, said)
        async with sending(cluster.target) as sends, crowd:
            await cluster.wait_for(lambda view: other in view.masters(), "handed over", OUTER_S)
        text = cluster.children[master].log.read_text()
        assert "no client was taken here for" in text
        assert "handing off" in text
        assert sends.failed == 0, sends


async def test_a_member_that_takes_clients_keeps_its_role(tmp_path: Path) -> None:
    """As many connections as it has room for, and one by one for the clients that come new."""
    cluster = patient(tmp_path)
    for name in cluster.members:
        cluster.children[name].descriptors = LIMIT_MIN
    async with cluster.running():
        [master] = (await cluster.status()).masters()
        host, port = cluster.endpoint(master).split(":")
        said = HELLO + frame(Kind.SETTINGS, ACK)
        crowding_half = crowding((host, int(port)), shares(LIMIT_MIN).clients // 2, said)
        async with sending(cluster.target) as sends, crowding_half as crowd:
            await cluster.wait_for(lambda _: sends.newcomers >= 6, "six new clients", OUTER_S)
        assert crowd.ended == 0
        assert (await cluster.status()).masters() == [master]
        assert sends.failed == 0, sends

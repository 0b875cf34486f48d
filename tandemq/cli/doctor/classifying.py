"""Asks the classifier that a configuration names, as a manager does before it needs it; acts on nothing."""

from __future__ import annotations

import time

from tandemq.cli.doctor.finding import Check, Finding
from tandemq.config import ConfigError, ManagerConfig

CLASSIFIER = Check("classifier", "when the peer is lost, this is asked whether to go on; no answer never promotes")
REPLAY = "try it: `tandemq classifier test --event PEER_LOST`, and see docs/OPERATIONS.md on the contract of a command"


async def check(config: ManagerConfig, about: str) -> Finding:
    """One PREFLIGHT, within the time limit of the configuration. A command is really run, with that event."""
    from tandemq.embedded import server_path

    server_path()
    from failover.classifier import EventKind
    from failover.rehearsal import sample
    from failover.runner import Runner
    from failover.shipped import make, name_of

    if config.failover.mode == "off":
        return CLASSIFIER.skipped(about, f"{name_of(config)} is switched off by failover.mode")
    try:
        asked = make(config)
    except ConfigError as error:
        return CLASSIFIER.fail(about, error.message, "correct failover.classifier")
    runner = Runner(asked, None, config.failover.call_ms, 1, config.failover.call_ms)
    began = time.monotonic()
    try:
        wrong = await runner.preflight()
        answer = await runner.ask(sample(EventKind.PREFLIGHT, config=config)) if not wrong else None
    finally:
        await runner.close()
    took_ms = round((time.monotonic() - began) * 1000)
    if answer is None:
        return CLASSIFIER.fail(about, f"{asked.name} is not ready: {'; '.join(wrong)}", REPLAY)
    if answer.verdict is None:
        return CLASSIFIER.fail(about, f"{asked.name} gives no verdict: {answer.reason or 'no reason given'}", REPLAY)
    text = f"{asked.name} answers {answer.verdict.name} after {took_ms} ms"
    return CLASSIFIER.ok(about, text, classifier=asked.name, safety_class=asked.safety.value, took_ms=took_ms)

"""How many examples property tests draw: TANDEMQ_HYPOTHESIS=ci (the default; a minute for all of them) or night.

`ci` draws the same examples until the test itself changes, so that a run judges the change and not the draw; `night`
draws others every time. A failure prints the example as code and the line with which it is repeated.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("TANDEMQ_HYPOTHESIS", "ci")
_FACTORS = {"ci": 1, "night": 40}
assert PROFILE in _FACTORS, f"TANDEMQ_HYPOTHESIS={PROFILE}: choose one of {', '.join(_FACTORS)}"


def of(examples: int, **more: int) -> settings:
    """So many examples in a run of the suite, and forty times as many at night."""
    return settings(
        max_examples=examples * _FACTORS[PROFILE],
        deadline=None,
        derandomize=PROFILE == "ci",
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],  # it looks at a clock, and so at the machine
        **more,
    )


def load() -> None:
    """For tests that ask for nothing of their own."""
    settings.register_profile("suite", of(100))
    settings.load_profile("suite")

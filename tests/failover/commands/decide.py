#!/usr/bin/env python3
"""A classifier command in Python: reads one event, says why, and exits with the verdict."""

import json
import sys

CONTINUE_AS_MASTER, ASSUME_MASTERSHIP, WAIT = 20, 21, 23
event = json.load(sys.stdin)
role, copies = event["self"]["role"], {domain["data"] for domain in event["domains"]}
if event["event"] != "PEER_LOST":
    verdict, reason = WAIT, f"nothing to say to {event['event']}"
elif role == "MASTER":
    verdict, reason = CONTINUE_AS_MASTER, "was master"
elif role == "REPLICA" and copies == {"IN_SYNC"}:
    verdict, reason = ASSUME_MASTERSHIP, "the copy is good"
else:
    verdict, reason = WAIT, f"was {role}, copies {sorted(copies)}"
print(json.dumps({"event_id": event["event_id"], "verdict": verdict, "reason": reason, "retry_ms": 500}))
sys.exit(verdict)

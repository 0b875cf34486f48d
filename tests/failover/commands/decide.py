#!/usr/bin/env python3
import json
import sys

event = json.load(sys.stdin)
role, copies = event["self"]["role"], {domain["data"] for domain in event["domains"]}
verdict, reason = 23, f"nothing to say to {event['event']} as {role}"
if event["event"] == "PEER_LOST" and role == "MASTER":
    verdict, reason = 20, "was master"
elif event["event"] == "PEER_LOST" and role == "REPLICA" and copies == {"IN_SYNC"}:
    verdict, reason = 21, "the copy is good"
print(json.dumps({"event_id": event["event_id"], "verdict": verdict, "reason": reason, "retry_ms": 500}))
sys.exit(verdict)

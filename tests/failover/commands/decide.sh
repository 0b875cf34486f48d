#!/bin/sh
# Takes over when this member's own gateway answers: else it may be the one that is cut off.
event=$(cat)
case "$event" in *'}') ;; *) exit 1 ;; esac                     # not the whole event
case "$event" in *'"event":"PEER_LOST"'*) ;; *) exit 23 ;; esac
case "$event" in *'"data":"STALE"'* | *'"data":"SYNCING"'* | *'"data":"DAMAGED"'*) exit 23 ;; esac
${GATEWAY_CHECK:-ping -c 1 -W 1 10.0.0.254} > /dev/null 2>&1 || exit 23
role=$(printf '%s' "$event" | sed -n 's/.*"self":{[^}]*"role":"\([A-Z_]*\)".*/\1/p')     # or: jq -r .self.role
case "$role" in
  MASTER) exit 20 ;;
  REPLICA) exit 21 ;;
  *) exit 23 ;;
esac

#!/bin/sh
# A classifier command in shell: lives by one reference address. Exit codes are the verdicts.
event=$(cat)
role=$(printf '%s' "$event" | sed -n 's/.*"self":{[^}]*"role":"\([A-Z_]*\)".*/\1/p')
printf '%s' "$event" | grep -q '"data":"\(STALE\|SYNCING\|DAMAGED\|EMPTY\)"' && exit 23
case "$event" in *'}') ;; *) exit 1 ;; esac
case "$role" in
  MASTER) exit 20 ;;
  REPLICA) exit 21 ;;
  *) exit 23 ;;
esac

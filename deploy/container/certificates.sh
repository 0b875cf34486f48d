#!/bin/sh
# Makes an authority below DIR and everybody's certificate, or renews them with the same keys: compose.yaml runs it at each
# start. It is the developers' authority, whose key is a file like any other: for one host, to try things on.
set -eu
dir="$1"
[ -e "$dir/authority/ca-key.pem" ] || tandemq cert init --dir "$dir/authority"

have() {
    out="$dir/$1"
    who="$2"
    shift 2
    if [ -e "$out/cert.pem" ]; then
        tandemq cert renew "$out" --dir "$dir/authority"
    else
        tandemq cert issue "$who" --out "$out" --dir "$dir/authority" "$@"
    fi
}

# --host: by which names clients dial them.
have a member/orders/a --host a
have b member/orders/b --host b
have witness witness/witness
have ops ops
have prometheus prometheus

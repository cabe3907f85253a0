#!/bin/sh
# A node in a container: formats its log directory on the first start, then runs the node.
# Arguments are passed to both commands: --set node.id=2 --set advertised.listeners=…
set -eu
config=${RUSLO_CONFIG:-/etc/ruslo/server.properties}
if [ -n "${RUSLO_CLUSTER_ID:-}" ]; then
  ruslo storage format --config "$config" --ignore-formatted --cluster-id "$RUSLO_CLUSTER_ID" "$@"
else
  # A single-node cluster with a random ID.
  ruslo storage format --config "$config" --ignore-formatted --standalone "$@"
fi
exec ruslo serve --config "$config" --log-format "${RUSLO_LOG_FORMAT:-json}" "$@"

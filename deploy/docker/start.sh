#!/bin/sh
# A node in a container: prepares its directory the first time, then becomes the node.
# Arguments go to both commands: --set node.id=2 --set advertised.listeners=…
set -eu
config=${RUSLO_CONFIG:-/etc/ruslo/server.properties}
if [ -n "${RUSLO_CLUSTER_ID:-}" ]; then
  ruslo storage format --config "$config" --ignore-formatted --cluster-id "$RUSLO_CLUSTER_ID" "$@"
else
  # Alone: a cluster of one, with an id of its own.
  ruslo storage format --config "$config" --ignore-formatted --standalone "$@"
fi
exec ruslo serve --config "$config" --log-format "${RUSLO_LOG_FORMAT:-json}" "$@"

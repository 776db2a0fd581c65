#!/bin/sh
# Creates the namespace TEMPORAL_NAMESPACE on the server TEMPORAL_ADDRESS when it is missing.
# Retention is how long Temporal shows closed runs; which intervals are loaded stands in the
# warehouse's ledger and does not depend on it.
set -eu

tries=0
until temporal operator cluster health; do
	tries=$((tries + 1))
	if [ "$tries" -ge 30 ]; then
		echo "Temporal at $TEMPORAL_ADDRESS is not healthy after $tries tries" >&2
		exit 1
	fi
	sleep 2
done
if ! temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 30d
fi

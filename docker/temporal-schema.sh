#!/bin/sh
# Creates Temporal's two databases, or brings them to the schema of this version. Harmless when both
# are there already. Server and password come from SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD.
set -eu

for store in temporal visibility; do
	database=temporal
	if [ "$store" = visibility ]; then
		database=temporal_visibility
	fi
	temporal-sql-tool --plugin postgres12 --db "$database" create
	temporal-sql-tool --plugin postgres12 --db "$database" setup-schema -v 0.0
	temporal-sql-tool --plugin postgres12 --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/$store/versioned"
done

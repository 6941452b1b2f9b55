# shellcheck shell=bash disable=SC2034,SC2153,SC2015 # names are shared between the parts
# Sending, many connections, the whole cycle; and the generator against nothing. Sourced by
# bench/run.

NULLS=(null-http null-redis null-beanstalk)

# paired SCENARIO CONNECTIONS PEERS INFO LOAD-OPTIONS...: dlq and each of PEERS in turn, round
# after round (A B A B ...); the systems of INFO in the first rounds only; the null servers once.
paired() {
	local scenario=$1 connections=$2 peers=$3 info=$4 round system
	shift 4
	for system in "${NULLS[@]}"; do
		measure "$scenario" "$system" 1 "$connections" --warmup 1 --seconds 2 "$@"
	done
	for ((round = 1; round <= ROUNDS; round++)); do
		for system in ${DLQ:+dlq} $peers; do
			measure "$scenario" "$system" "$round" "$connections" --warmup "$WARMUP" \
				--seconds "$SECONDS_PER_ROUND" "$@"
		done
		[ "$round" -le "$INFO_ROUNDS" ] || continue
		for system in $info; do
			measure "$scenario" "$system" "$round" "$connections" --warmup "$WARMUP" \
				--seconds "$SECONDS_PER_ROUND" "$@"
		done
	done
}

# rows_of SCENARIO CONNECTIONS TARGET PEERS INFO
rows_of() {
	local system
	table_row "$1" dlq "$2"
	for system in $4; do table_row "$1" "$system" "$2" "$3"; done
	for system in $5 "${NULLS[@]}"; do table_row "$1" "$system" "$2"; done
}

scenario_send() {
	local info='redis-everysec beanstalkd-f0 beanstalkd'
	say 'durable sends, one message per request'
	paired send 64 redis-always "$info"
	paired send 256 redis-always "$info"
	table_head '(a) Durable sends: one message of 512 bytes per request'
	rows_of send 64 1.2 redis-always "$info"
	rows_of send 256 1.5 redis-always "$info"
}

# A stall: requests lost or refused, half a second with no answer on any connection, or one
# request older than two seconds.
scenario_stall() {
	local gap max bad
	local info='redis-everysec beanstalkd-f0 beanstalkd'
	say 'many connections'
	paired stall 1000 redis-always "$info"
	table_head '(b) 1,000 connections without a stall: one message of 512 bytes per request'
	rows_of stall 1000 '' redis-always "$info"
	[ -n "$DLQ" ] || return 0
	gap=$(most stall dlq 1000 longest_gap_ms) max=$(ms "$(most stall dlq 1000 max_us)")
	bad=$(rows stall dlq 1000 | awk -F'"unanswered":|,"errors":|,"errors_by' '{n += $2 + $3} END {print n + 0}')
	check 'stall, 1000 connections: none' "longest gap $gap ms, slowest $max ms, $bad errors" \
		"$gap <= 500 && $max <= 2000 && $bad == 0" >/dev/null
}

scenario_cycle() {
	local peers='redis-always redis-always-oneack'
	local info='redis-everysec beanstalkd-f0 beanstalkd'
	say 'send, receive, settle'
	paired cycle 16 "$peers" "$info" --work cycle --batch 10
	paired cycle 64 "$peers" "$info" --work cycle --batch 10
	table_head '(c) The whole cycle in batches of 10: send, receive, settle; times are per step'
	rows_of cycle 16 2 "$peers" "$info"
	rows_of cycle 64 2 "$peers" "$info"
}

check_generator() {
	local connections system
	say 'the generator against a server that does nothing'
	for connections in 64 256 1000; do
		for system in "${NULLS[@]}"; do
			measure send "$system" 1 "$connections" --warmup 1 --seconds 3
		done
	done
	for connections in 16 64; do
		for system in "${NULLS[@]}"; do
			measure cycle "$system" 1 "$connections" --work cycle --batch 10 --warmup 1 --seconds 3
		done
	done
	table_head 'The generator alone: a server that does nothing, each side on a core of its own'
	for connections in 64 256 1000; do
		for system in "${NULLS[@]}"; do table_row send "$system" "$connections"; done
	done
	printf '  cycles of 10\n'
	for connections in 16 64; do
		for system in "${NULLS[@]}"; do table_row cycle "$system" "$connections"; done
	done
	printf '\n  CPU time of the generator per reply (us), and what one core could do with it (replies/s)\n'
	for system in "${NULLS[@]}"; do
		for connections in 64 256 1000; do
			local us
			us=$(mid send "$system" "$connections" generator_cpu_us_per_request)
			printf '  %5s  %-20s %6.2f %12s\n' "$connections" "$system" "$us" "$(grouped "$(calc "1e6 / $us")")"
		done
	done
}

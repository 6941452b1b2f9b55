# shellcheck shell=bash disable=SC2034,SC2153,SC2015 # names are shared between the parts
# One measurement, and the table over many. Sourced by bench/run.

# measure SCENARIO SYSTEM ROUND CONNECTIONS LOAD-OPTIONS...: a fresh server, one load, one row.
measure() {
	local scenario=$1 system=$2 round=$3 connections=$4 pin=() ticks t0 share row
	shift 4
	start_server "$system"
	case $system in null-*) [ "$(nproc)" -ge 2 ] && pin=(taskset -c 1) ;; esac
	ticks=$(server_ticks) t0=$(clock_us)
	row=$(${pin[@]+"${pin[@]}"} "$WORK/load" "${LOAD_ARGS[@]}" --connections "$connections" "$@") ||
		die "load on $system failed"
	share=$(calc "($(server_ticks) - $ticks) / $(getconf CLK_TCK) / (($(clock_us) - $t0) / 1e6)")
	stop_server
	row="{\"scenario\":\"$scenario\",\"system\":\"$system\",\"round\":$round,\"server_cpu\":$share,${row#\{}"
	printf '%s\n' "$row" >>"$ROWS"
	say "  $scenario $connections connections, round $round: $system $(field messages_per_s <<<"$row") messages/s"
}

# rows SCENARIO SYSTEM CONNECTIONS -> the raw lines, in order of rounds
rows() { grep -F "\"scenario\":\"$1\",\"system\":\"$2\"," "$ROWS" | grep -F "\"connections\":$3,"; }

# mid SCENARIO SYSTEM CONNECTIONS FIELD -> median over the rounds
mid() { rows "$1" "$2" "$3" | field "$4" | median; }
least() { rows "$1" "$2" "$3" | field "$4" | sort -g | head -n 1; }
most() { rows "$1" "$2" "$3" | field "$4" | sort -g | tail -n 1; }

# ratios SCENARIO PEER CONNECTIONS -> dlq's rate over the peer's, one line per round
ratios() {
	paste <(rows "$1" dlq "$3" | field messages_per_s) <(rows "$1" "$2" "$3" | field messages_per_s) |
		awk 'NF == 2 && $2 > 0 {printf "%.3f\n", $1 / $2}'
}

table_head() {
	printf '\n%s\n' "$1"
	printf '  %5s  %-20s %9s %19s %8s %8s %8s %8s %5s %5s %5s  %s\n' conns system 'msgs/s' '(min..max)' \
		'p50 ms' 'p99 ms' 'max ms' 'gap ms' errs gen% srv% 'dlq / this (min..max)'
}

ms() { calc "$1 / 1000" | xargs printf '%.2f'; }
percent() { calc "100 * $1" | xargs printf '%.0f'; }

# table_row SCENARIO SYSTEM CONNECTIONS [TARGET-RATIO]
table_row() {
	local s=$1 y=$2 c=$3 target=${4:-} r='' ratio='' bad
	[ -n "$(rows "$s" "$y" "$c")" ] || return 0
	bad=$(rows "$s" "$y" "$c" | awk -F'"unanswered":|,"errors":|,"errors_by' '{n += $2 + $3} END {print n + 0}')
	if [ "$y" != dlq ] && [[ $y != null-* ]]; then
		r=$(ratios "$s" "$y" "$c")
	fi
	if [ -n "$r" ]; then
		ratio=$(printf '%.2f (%.2f..%.2f)' "$(median <<<"$r")" "$(sort -g <<<"$r" | head -n 1)" \
			"$(sort -g <<<"$r" | tail -n 1)")
		[ -n "$target" ] && ratio+="  >= $target $(check "$s, $c connections, dlq / $y >= $target" \
			"$ratio" "$(median <<<"$r") >= $target")"
	fi
	printf '  %5s  %-20s %9s %19s %8s %8s %8s %8s %5s %5s %5s  %s\n' "$c" "$y" \
		"$(grouped "$(mid "$s" "$y" "$c" messages_per_s)")" \
		"$(grouped "$(least "$s" "$y" "$c" messages_per_s)")..$(grouped "$(most "$s" "$y" "$c" messages_per_s)")" \
		"$(ms "$(mid "$s" "$y" "$c" p50_us)")" "$(ms "$(mid "$s" "$y" "$c" p99_us)")" \
		"$(ms "$(most "$s" "$y" "$c" max_us)")" "$(printf '%.1f' "$(most "$s" "$y" "$c" longest_gap_ms)")" \
		"$bad" "$(percent "$(mid "$s" "$y" "$c" generator_cpu)")" \
		"$(percent "$(mid "$s" "$y" "$c" server_cpu)")" "$ratio"
}

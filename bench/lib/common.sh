# shellcheck shell=bash disable=SC2034,SC2153,SC2015 # names are shared between the parts
# Talk, temp folder, small arithmetic. Sourced by bench/run.

say() { printf '%s\n' "$*" >&2; }
die() { say "bench: $*"; exit 1; }

# WORK is removed at exit, and the server that still runs is ended first.
open_workshop() {
	WORK=$(mktemp -d "$DIR/dlq-bench.XXXXXX") || die "cannot make a folder in $DIR"
	ROWS=$WORK/rows CHECKS=$WORK/checks SERVER_PID=''
	: | tee "$ROWS" >"$CHECKS"
	trap close_workshop EXIT
	trap 'exit 130' INT TERM
	local hard
	hard=$(ulimit -Hn)
	[ "$hard" = unlimited ] && hard=65536
	ulimit -n "$hard" 2>/dev/null
	[ "$(ulimit -n)" -ge 4096 ] || say "only $(ulimit -n) file descriptors: 1,000 connections may fail"
}

close_workshop() {
	stop_server
	rm -rf "$WORK"
}

build_tools() {
	local flags=(-O2 -D_GNU_SOURCE)
	(
		cd "$BENCH" &&
			${CC:-cc} "${flags[@]}" -o "$WORK/load" load.c engine.c hist.c buf.c resp.c driver_*.c &&
			${CC:-cc} "${flags[@]}" -o "$WORK/null" null.c buf.c resp.c
	) || die 'cannot build the load generator'
}

# field NAME < one JSON line of flat numbers and strings
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }

# The middle of the numbers on stdin, one a line.
median() {
	sort -g | awk '{v[NR] = $1} END {if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'
}

# calc EXPRESSION -> number
calc() { awk "BEGIN {printf \"%.6g\", ($1)}"; }
holds() { awk "BEGIN {exit !($1)}"; }

# 12345678 -> 12,345,678
grouped() { printf '%.0f' "$1" | sed -e :a -e 's/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/;ta'; }

# Microseconds since the epoch.
clock_us() { printf '%s' "${EPOCHREALTIME/./}"; }

# check NAME TEXT CONDITION: notes PASS or FAIL of a target and prints it.
check() {
	local verdict=FAIL
	holds "$3" && verdict=PASS
	printf '%s\t%s\t%s\n' "$verdict" "$1" "$2" >>"$CHECKS"
	printf '%s' "$verdict"
}

print_machine() {
	local model fs sync_rate
	model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
	fs=$(df --output=fstype "$WORK" | tail -n 1)
	sync_rate=$(dd if=/dev/zero of="$WORK/dd" bs=4k count=500 oflag=dsync 2>&1 |
		sed -n 's/.* copied, \([0-9.e-]*\) s.*/\1/p')
	rm -f "$WORK/dd"
	MACHINE="$(nproc) cores (${model:-unknown}), Linux $(uname -r), $fs, $(calc "int(500 / ${sync_rate:-1})") synced 4-KiB writes/s, load $(cut -d' ' -f1 /proc/loadavg)"
	VERSIONS="redis $(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/'), $(beanstalkd -v)"
	[ -n "$DLQ" ] && VERSIONS="$("$DLQ" version 2>/dev/null | head -n 1), $VERSIONS"
	printf 'machine: %s\nsystems: %s\n' "$MACHINE" "$VERSIONS"
	[ "$fs" = tmpfs ] && printf 'CAUTION: %s is in memory, so nothing here is durable (use --dir)\n' "$DIR"
	return 0
}

print_checks() {
	[ -s "$CHECKS" ] || return 0
	printf '\nTargets%s\n' "$([ "$QUICK" = 1 ] && printf ' (--quick: a look, not a verdict)')"
	while IFS=$'\t' read -r verdict name text; do
		printf '  %-5s %-44s %s\n' "$verdict" "$name" "$text"
	done <"$CHECKS"
}

json_string() { printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"; }

write_json() {
	{
		printf '{"machine":%s,"systems":%s,"quick":%s,"rows":[\n' "$(json_string "$MACHINE")" \
			"$(json_string "$VERSIONS")" "$([ "$QUICK" = 1 ] && echo true || echo false)"
		sed '$!s/$/,/' "$ROWS"
		printf '],"targets":[\n'
		local sep='' verdict name text
		while IFS=$'\t' read -r verdict name text; do
			printf '%s{"verdict":"%s","target":%s,"measured":%s}' "$sep" "$verdict" \
				"$(json_string "$name")" "$(json_string "$text")"
			sep=$',\n'
		done <"$CHECKS"
		printf '\n]}\n'
	} >"$1" || die "cannot write $1"
}

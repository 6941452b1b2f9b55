# shellcheck shell=bash disable=SC2034,SC2153,SC2015 # names are shared between the parts
# Starts and ends one server at a time. Sourced by bench/run.
#
# start_server SYSTEM sets SERVER_PID, SERVER_ADDR, SERVER_DIR, SERVER_PROTO and LOAD_ARGS.
# Every system gets an empty data folder on the same file system, and 127.0.0.1 only.

# The systems whose name ends in -oneack are the same server, used with other commands.
system_of() { printf '%s' "${1%-oneack}"; }

start_server() {
	local system
	system=$(system_of "$1")
	[ -z "$SERVER_PID" ] || die 'a server is still running'
	SERVER_DIR=$WORK/data
	mkdir -p "$SERVER_DIR" || die "cannot make $SERVER_DIR"
	LOAD_ARGS=()
	case $system in
	dlq) start_dlq ;;
	redis-always) start_redis always ;;
	redis-everysec) start_redis everysec ;;
	beanstalkd-f0) start_beanstalkd -f0 ;;
	beanstalkd) start_beanstalkd ;;
	null-*) start_null "${system#null-}" ;;
	*) die "no system $system" ;;
	esac
	[ "$1" = redis-always-oneack ] && LOAD_ARGS+=(--ack-one)
	LOAD_ARGS+=(--proto "$SERVER_PROTO" --to "$SERVER_ADDR")
}

# await_line LOG REGEX: waits for a line of the server's log (told by inotify) and leaves the
# match in BASH_REMATCH. False when the server ends first or nothing comes for a minute.
await_line() {
	local line fd tailer found=1
	exec {fd}< <(exec tail -n +1 -f --pid="$SERVER_PID" "$1" 2>/dev/null)
	tailer=$!
	while IFS= read -r -t 60 -u "$fd" line; do
		[[ $line =~ $2 ]] && { found=0; break; }
	done
	kill "$tailer" 2>/dev/null
	exec {fd}<&-
	return $found
}

need_line() {
	await_line "$@" || { tail -n 5 "$1" >&2; die "the server did not start: $1"; }
}

# The first start makes the token and the queue; a restart finds both.
start_dlq() {
	SERVER_PROTO=http
	"$DLQ" serve --data "$SERVER_DIR" --listen 127.0.0.1:0 >"$WORK/log" 2>&1 &
	SERVER_PID=$!
	need_line "$WORK/log" '127\.0\.0\.1:([1-9][0-9]*)'
	SERVER_ADDR=127.0.0.1:${BASH_REMATCH[1]}
	LOAD_ARGS+=(--token-file "$SERVER_DIR/admin.token")
	api PUT /v1/queues/bench '{}' >"$WORK/answer" || die "cannot create the queue: $(cat "$WORK/answer")"
}

# api METHOD PATH [JSON]: one call of dlq's API, its answer on stdout; false on a status of 400 and up.
api() {
	curl -sS --fail-with-body --max-time 300 -X "$1" -H "Authorization: Bearer $(cat "$SERVER_DIR/admin.token")" \
		${3:+-H 'Content-Type: application/json' --data-binary "$3"} "http://$SERVER_ADDR$2"
}

# Redis takes no port 0, so a free one is guessed, and another when that one was taken. No
# snapshots and no rewrite of the log during the run: both would only slow Redis down.
start_redis() {
	local port
	SERVER_PROTO=redis
	for _ in 1 2 3 4 5; do
		port=$((20000 + RANDOM % 10000))
		redis-server --bind 127.0.0.1 --port "$port" --dir "$SERVER_DIR" --save '' --appendonly yes \
			--appendfsync "$1" --auto-aof-rewrite-percentage 0 --maxclients 10000 >"$WORK/log" 2>&1 &
		SERVER_PID=$!
		SERVER_ADDR=127.0.0.1:$port
		await_line "$WORK/log" 'Ready to accept connections' && return
		wait "$SERVER_PID"
	done
	SERVER_PID=''
	die "redis-server did not start: $(tail -n 3 "$WORK/log")"
}

start_beanstalkd() {
	SERVER_PROTO=beanstalk
	beanstalkd -V -l 127.0.0.1 -p 0 -b "$SERVER_DIR" "$@" >"$WORK/log" 2>&1 &
	SERVER_PID=$!
	need_line "$WORK/log" '^bind .*:([1-9][0-9]*)$'
	SERVER_ADDR=127.0.0.1:${BASH_REMATCH[1]}
}

# With two cores or more each side of the null test has one of its own.
start_null() {
	local pin=()
	SERVER_PROTO=$1
	[ "$(nproc)" -ge 2 ] && pin=(taskset -c 0)
	${pin[@]+"${pin[@]}"} "$WORK/null" "$1" >"$WORK/log" 2>&1 &
	SERVER_PID=$!
	need_line "$WORK/log" 'listening on 127\.0\.0\.1:([1-9][0-9]*)'
	SERVER_ADDR=127.0.0.1:${BASH_REMATCH[1]}
}

# end_process [SIGNAL]: ends the server and waits for it; its data stays.
end_process() {
	[ -n "$SERVER_PID" ] || return 0
	kill -"${1:-TERM}" "$SERVER_PID" 2>/dev/null
	wait "$SERVER_PID" 2>/dev/null
	SERVER_PID=''
}

# Ends the server, drops its data and lets the disk come to rest, so that the next one does
# not pay for this one's pages.
stop_server() {
	end_process TERM
	rm -rf "$WORK/data"
	sync -f "$WORK"
}

# Clock ticks of user and system time the server has used.
server_ticks() { sed 's/.*) //' "/proc/$SERVER_PID/stat" | awk '{print $12 + $13}'; }

# KiB: server_memory VmRSS|VmHWM|RssAnon
server_memory() { sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$SERVER_PID/status"; }

# shellcheck shell=bash disable=SC2034,SC2153,SC2015 # names are shared between the parts
# A million dead letters: filling, listing, memory, restart, redrive. Sourced by bench/run.

# What the API calls things; the only place to touch when it changes.
LIST_PATH='/v1/dead-letters?queue=bench&limit=50'
REDRIVE_QUEUE=redrive
REDRIVE_BODY='{"queue":"redrive","reason":"benchmark"}'
REDRIVE_OVER='"state":"(done|cancelled|paused)"'

# fill QUEUE COUNT: sends, receives and settles as permanent, 100 at a time.
fill() {
	local row made
	row=$("$WORK/load" "${LOAD_ARGS[@]}" --work fill --queue "$1" --connections 4 --batch 100 --count "$2") ||
		die 'fill failed'
	printf '{"scenario":"dead","system":"dlq","step":"fill",%s\n' "${row#\{}" >>"$ROWS"
	made=$(field messages <<<"$row")
	printf '  fill      %12s dead letters at %s/s\n' "$(grouped "$made")" \
		"$(grouped "$(field messages_per_s <<<"$row")")"
	[ "$made" -ge "$2" ] || die "only $made of $2 messages died: $row"
	FILL_RATE=$(field messages_per_s <<<"$row")
}

# list_at TOTAL: the first page over and over, then a walk from page to page.
list_at() {
	local row walk
	row=$("$WORK/load" "${LOAD_ARGS[@]}" --work get --path "$LIST_PATH" --count 2000) || die 'list failed'
	walk=$("$WORK/load" "${LOAD_ARGS[@]}" --work get --path "$LIST_PATH" --follow --count 2000) || die 'walk failed'
	printf '{"scenario":"dead","system":"dlq","step":"list","dead":%s,%s\n' "$1" "${row#\{}" >>"$ROWS"
	printf '{"scenario":"dead","system":"dlq","step":"walk","dead":%s,%s\n' "$1" "${walk#\{}" >>"$ROWS"
	LIST_P99=$(ms "$(field p99_us <<<"$row")")
	printf '  list      %12s dead: first page p50 %s ms, p99 %s ms; page after page p50 %s ms, p99 %s ms; %s errors\n' \
		"$(grouped "$1")" "$(ms "$(field p50_us <<<"$row")")" "$LIST_P99" \
		"$(ms "$(field p50_us <<<"$walk")")" "$(ms "$(field p99_us <<<"$walk")")" \
		"$(($(field errors <<<"$row") + $(field errors <<<"$walk")))"
}

# restart_after SIGNAL: from the start of the process until /readyz answers 200, in READY_S.
restart_after() {
	local t0
	end_process "$1"
	t0=$(clock_us)
	LOAD_ARGS=()
	"$DLQ" serve --data "$SERVER_DIR" --listen 127.0.0.1:0 >"$WORK/log" 2>&1 &
	SERVER_PID=$!
	need_line "$WORK/log" '127\.0\.0\.1:([1-9][0-9]*)'
	SERVER_ADDR=127.0.0.1:${BASH_REMATCH[1]}
	LOAD_ARGS=(--token-file "$SERVER_DIR/admin.token" --proto http --to "$SERVER_ADDR")
	until curl -s -o /dev/null --fail --max-time 60 "http://$SERVER_ADDR/readyz"; do
		kill -0 "$SERVER_PID" 2>/dev/null && [ $(($(clock_us) - t0)) -lt 60000000 ] ||
			die 'not ready within a minute'
	done
	READY_S=$(calc "($(clock_us) - $t0) / 1e6")
	printf '  restart   after SIG%s: ready in %.3f s\n' "$1" "$READY_S"
	printf '{"scenario":"dead","system":"dlq","step":"restart","signal":"%s","ready_s":%s}\n' "$1" "$READY_S" >>"$ROWS"
}

# Puts REDRIVE dead letters of a queue of their own back. The rate counts from the request to
# the first look that finds the job over; looks are a call apart.
redrive() {
	local t0 job state rate sent
	api PUT "/v1/queues/$REDRIVE_QUEUE" '{}' >/dev/null || die 'cannot create the redrive queue'
	fill "$REDRIVE_QUEUE" "$REDRIVE"
	t0=$(clock_us)
	job=$(api POST /v1/redrives "$REDRIVE_BODY") || { say "redrive refused: $job"; return 1; }
	job=$(field redrive_id <<<"${job// /}")
	while state=$(api GET "/v1/redrives/$job") && ! [[ ${state// /} =~ $REDRIVE_OVER ]]; do
		[ $(($(clock_us) - t0)) -lt 300000000 ] || { say "redrive not over after 300 s: $state"; return 1; }
	done
	rate=$(calc "$(clock_us) - $t0")
	sent=$(field sent <<<"${state// /}") state=${BASH_REMATCH[1]:-unknown}
	rate=$(calc "${sent:-0} / ($rate / 1e6)")
	printf '  redrive   %12s messages at %s/s (%s)\n' "$(grouped "${sent:-0}")" "$(grouped "$rate")" "$state"
	printf '{"scenario":"dead","system":"dlq","step":"redrive","messages":%s,"messages_per_s":%s,"state":"%s"}\n' \
		"${sent:-0}" "$rate" "$state" >>"$ROWS"
	check "redrive of $(grouped "$REDRIVE") >= 20,000/s" "$(grouped "${sent:-0}") at $(grouped "$rate")/s, $state" \
		"$rate >= 20000 && ${sent:-0} == $REDRIVE && \"$state\" == \"done\"" >/dev/null
}

scenario_dead() {
	local total=0 size rss peak slowest
	[ -n "$DLQ" ] || { say 'dead letters: needs a dlq program'; return 0; }
	printf '\n(d) %s dead letters\n' "$(grouped "$DEAD")"
	start_server dlq
	for size in 10000 100000 "$DEAD"; do
		[ "$size" -le "$DEAD" ] && [ "$size" -gt "$total" ] || continue
		fill bench $((size - total))
		total=$size
		list_at "$total"
	done
	check 'dead-lettering with grouping >= 25,000/s' "$(grouped "$FILL_RATE")/s" "$FILL_RATE >= 25000" >/dev/null
	check "first page of $(grouped "$DEAD") dead letters, p99 <= 10 ms" "$LIST_P99 ms" "$LIST_P99 <= 10" >/dev/null
	rss=$(calc "$(server_memory VmRSS) / 1024") peak=$(calc "$(server_memory VmHWM) / 1024")
	printf '  memory    resident %.1f MiB (highest %.1f), data folder %s MiB\n' "$rss" "$peak" \
		"$(du -sm "$SERVER_DIR" | cut -f1)"
	printf '{"scenario":"dead","system":"dlq","step":"memory","rss_mib":%s,"peak_mib":%s}\n' "$rss" "$peak" >>"$ROWS"
	check "resident with $(grouped "$DEAD") dead letters <= 64 MiB" "$(printf '%.1f' "$rss") MiB" "$rss <= 64" >/dev/null
	restart_after TERM
	slowest=$READY_S
	restart_after KILL
	slowest=$(calc "$slowest > $READY_S ? $slowest : $READY_S")
	check "ready after a restart <= 1 s" "$(printf '%.3f' "$slowest") s (the slower of SIGTERM and SIGKILL)" \
		"$slowest <= 1" >/dev/null
	redrive || check "redrive of $(grouped "$REDRIVE") >= 20,000/s" 'did not run' 0 >/dev/null
	stop_server
}

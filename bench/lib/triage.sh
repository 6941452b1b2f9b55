# shellcheck shell=bash disable=SC2034,SC2153,SC2015 # names are shared between the parts
# A million dead letters in 500 groups: lists by what people look for, a `where` scan, and a redrive of all of them beside work that
# goes on. Sourced by bench/run.

TRIAGE_GROUPS=500 TRIAGE_TENANTS=100

# one_item PATH NAME: the first value of the member NAME in the answer.
one_item() { api GET "$1" | tr -d ' ' | sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }

# list_by NAME PATH: p99 of 1,000 requests for it, judged.
list_by() {
	local row p99
	row=$("$WORK/load" "${LOAD_ARGS[@]}" --work get --path "$2" --count 1000) || die "$1 failed"
	printf '{"scenario":"triage","system":"dlq","step":"list","by":"%s",%s\n' "$1" "${row#\{}" >>"$ROWS"
	p99=$(ms "$(field p99_us <<<"$row")")
	printf '  list      by %-12s p50 %s ms, p99 %s ms; %s errors\n' "$1" "$(ms "$(field p50_us <<<"$row")")" "$p99" \
		"$(field errors <<<"$row")"
	check "list by $1 of $(grouped "$DEAD"), p99 <= 10 ms" "$p99 ms" "$p99 <= 10 && $(field errors <<<"$row") == 0" >/dev/null
}

# The whole scan, step by step, as `dlq list --where` does it; the server's memory is looked at after each step.
where_scan() {
	local t0 answer cursor='' looked=0 found=0 rss peak=0 path steps=0
	path='/v1/dead-letters?queue=bench&limit=1000&where=.body.n%3D%3D17%20and%20.headers.tenant%3D%3D%22t17%22'
	t0=$(clock_us)
	while :; do
		answer=$(api GET "$path${cursor:+&cursor=$cursor}") || die "where failed: $answer"
		steps=$((steps + 1))
		looked=$((looked + $(sed -n 's/.*"scanned": *\([0-9]*\).*/\1/p' <<<"$answer")))
		found=$((found + $(grep -o '"dlq_id"' <<<"$answer" | wc -l)))
		rss=$(server_memory VmRSS)
		[ "$rss" -gt "$peak" ] && peak=$rss
		cursor=$(sed -n 's/.*"next": *"\([^"]*\)".*/\1/p' <<<"$answer")
		[ -n "$cursor" ] || break
	done
	t0=$(calc "($(clock_us) - $t0) / 1e6")
	peak=$(calc "$peak / 1024")
	printf '  where     looked at %s in %.1f s (%s steps, %s/s), %s found; server %.1f MiB resident at most\n' "$(grouped "$looked")" \
		"$t0" "$steps" "$(grouped "$(calc "$looked / $t0")")" "$found" "$peak"
	printf '{"scenario":"triage","system":"dlq","step":"where","looked":%s,"seconds":%s,"steps":%s,"found":%s,"rss_mib":%s}\n' \
		"$looked" "$t0" "$steps" "$found" "$peak" >>"$ROWS"
	check "where over $(grouped "$DEAD") bodies, resident <= 64 MiB" "$(printf '%.1f' "$peak") MiB, looked at $(grouped "$looked")" \
		"$peak <= 64 && $looked == $DEAD" >/dev/null
}

# traffic SECONDS: sends, receives and settles of another queue at a pace that leaves the machine room. -> its row
traffic() {
	"$WORK/load" "${LOAD_ARGS[@]}" --work cycle --batch 10 --connections 4 --queue side --seconds "$1"
}

# A redrive of everything while work goes on: how long its creation takes, and what the others notice.
redrive_all() {
	local before beside seconds job p_before p_beside load
	api PUT /v1/queues/side '{}' >/dev/null || die 'cannot create the side queue'
	traffic 1 >/dev/null
	before=$(traffic 4) || die 'traffic failed'
	traffic 4 >"$WORK/beside" &
	load=$!
	seconds=$(curl -sS --fail-with-body -o "$WORK/answer" -w '%{time_total}' -X POST -H "Authorization: Bearer $(cat "$SERVER_DIR/admin.token")" \
		-H 'Content-Type: application/json' --data-binary '{"queue":"bench","reason":"benchmark"}' "http://$SERVER_ADDR/v1/redrives") ||
		die "redrive refused: $(cat "$WORK/answer")"
	wait "$load" || die 'traffic failed'
	beside=$(cat "$WORK/beside")
	job=$(sed -n 's/.*"redrive_id": *"\([^"]*\)".*/\1/p' "$WORK/answer")
	job=$(api GET "/v1/redrives/$job" | sed -n 's/.*"sent": *\([0-9]*\).*/\1/p')
	p_before=$(field p99_us <<<"$before") p_beside=$(field p99_us <<<"$beside")
	printf '  redrive   of %s: created in %.1f ms; p99 of sends, receives and settles %s ms before, %s ms beside it (rate %s to %s/s); %s put back in these 4 s\n' \
		"$(grouped "$DEAD")" "$(calc "$seconds * 1000")" "$(ms "$p_before")" "$(ms "$p_beside")" \
		"$(grouped "$(field messages_per_s <<<"$before")")" "$(grouped "$(field messages_per_s <<<"$beside")")" "$(grouped "${job:-0}")"
	printf '{"scenario":"triage","system":"dlq","step":"before",%s\n{"scenario":"triage","system":"dlq","step":"beside","created_s":%s,%s\n' \
		"${before#\{}" "$seconds" "${beside#\{}" >>"$ROWS"
	check "a redrive of $(grouped "$DEAD") is created within 100 ms" "$(calc "$seconds * 1000") ms" "$seconds <= 0.1" >/dev/null
	check "p99 of other work beside it <= 2 times that before" "$(ms "$p_before") ms, $(ms "$p_beside") ms" "$p_beside <= 2 * $p_before" >/dev/null
}

scenario_triage() {
	local row group type id rate
	[ -n "$DLQ" ] || { say 'triage: needs a dlq program'; return 0; }
	printf '\n(e) %s dead letters in %s groups\n' "$(grouped "$DEAD")" "$TRIAGE_GROUPS"
	start_server dlq
	row=$("$WORK/load" "${LOAD_ARGS[@]}" --work fill --connections 4 --batch 100 --count "$DEAD" --causes $TRIAGE_GROUPS \
		--tenants $TRIAGE_TENANTS) || die 'fill failed'
	rate=$(field messages_per_s <<<"$row")
	printf '{"scenario":"triage","system":"dlq","step":"fill",%s\n' "${row#\{}" >>"$ROWS"
	printf '  fill      %12s dead letters at %s/s, each with a group and a header\n' "$(grouped "$(field messages <<<"$row")")" "$(grouped "$rate")"
	group=$(one_item '/v1/groups?limit=1' group) type=$(one_item '/v1/dead-letters?queue=bench&limit=1' type)
	id=$(one_item '/v1/dead-letters?queue=bench&limit=1' id)
	list_by groups '/v1/groups?limit=50'
	list_by group "/v1/dead-letters?group=$group&limit=50"
	list_by error-type "/v1/dead-letters?queue=bench&error_type=$type&limit=50"
	list_by header '/v1/dead-letters?queue=bench&header=tenant%3Dt17&limit=50'
	list_by id "/v1/dead-letters?id=$id&limit=50"
	where_scan
	redrive_all
	stop_server
}

/* Groups: list, show, and what operators do to them. */
#include <stdio.h>
#include <string.h>

#include "core/fingerprint.h"
#include "http/http.h"
#include "http/json_in.h"

#define NOTE_MAX 4000
#define OWNER_MAX 128
#define MUTE_DEATHS_MAX ((int64_t)1000000000)

static void diagnosis_write(struct json_out *j, const struct diagnosis *d)
{
	jout_key(j, "diagnosis");
	jout_open(j, '{');
	jout_kz(j, "kind", diagnosis_name(d->kind));
	jout_kint(j, "confidence", d->confidence);
	jout_key(j, "evidence");
	jout_open(j, '[');
	for (int i = 0; i < d->n_evidence; i++)
		jout_str(j, str_of(d->evidence[i]));
	jout_close(j, ']');
	jout_kz(j, "advice", d->advice);
	jout_close(j, '}');
}

void group_key_write(struct json_out *j, const char *key, const uint8_t fp[16])
{
	char text[33];
	for (int i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", fp[i]);
	jout_kz(j, key, text);
}

static void group_fields(struct json_out *j, const struct store_group *g)
{
	group_key_write(j, "group", g->fp);
	jout_kstr(j, "queue", g->queue);
	jout_kstr(j, "error_type", g->error_type);
	jout_kstr(j, "message", g->normal);
	jout_kstr(j, "sample", g->sample);
	jout_kz(j, "status", group_status_name(g->status));
	jout_ktime(j, "status_at", g->status_at_ms);
	jout_kint(j, "dead", g->dead);
	jout_kint(j, "redriving", g->redriving);
	jout_kint(j, "redriven", g->redriven);
	jout_kint(j, "failed_again", g->failed_again);
	jout_kint(j, "discarded", g->discarded);
	jout_kint(j, "archived", g->archived);
	jout_kint(j, "deaths", g->deaths);
	jout_kint(j, "failures", g->failures);
	jout_kint(j, "recovered", g->recovered);
	jout_ktime(j, "first_seen", g->first_seen_ms);
	jout_ktime(j, "last_seen", g->last_seen_ms);
	if (g->owner.n)
		jout_kstr(j, "owner", g->owner);
	if (g->note.n)
		jout_kstr(j, "note", g->note);
	if (g->status == GROUP_MUTED && g->muted_until_ms)
		jout_ktime(j, "muted_until", g->muted_until_ms);
	if (g->status == GROUP_MUTED && g->muted_deaths)
		jout_kint(j, "muted_deaths", g->muted_deaths);
	if (g->merged)
		jout_kint(j, "merged", g->merged);
	if (g->merged_into)
		jout_kbool(j, "is_merged", true);
}

/* ---- list ---- */

static void list_done(struct http_req *r)
{
	struct json_out j;
	const struct store_group_page *page = &r->op.u.read_groups.page;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < page->n; i++) {
		if (!auth_may(r, page->items[i].queue))
			continue;
		jout_open(&j, '{');
		group_fields(&j, &page->items[i]);
		if (r->op.u.read_groups.diagnoses)
			diagnosis_write(&j, &r->op.u.read_groups.diagnoses[i]);
		jout_close(&j, '}');
	}
	jout_close(&j, ']');
	cursor_int(&j, 'g', page->next_no);
	jout_close(&j, '}');
	answer_json(r, 200);
}

static bool read_statuses(struct http_req *r, unsigned *out)
{
	bool given;
	struct str s = query_get(r, "status", &given);
	while (given && s.n) {
		const char *comma = memchr(s.p, ',', s.n);
		struct str word = {s.p, comma ? (size_t)(comma - s.p) : s.n};
		enum group_status status;
		if (!group_status_parse(word, &status)) {
			answer_problem(r, DLQ_BAD_REQUEST, "status must be new, acknowledged, muted, resolved or regressed, or several with "
			               "commas between them");
			return false;
		}
		*out |= 1u << status;
		s.p += word.n + (comma != NULL);
		s.n -= word.n + (comma != NULL);
	}
	return true;
}

void api_group_list(struct http_req *r)
{
	bool given;
	memset(&r->op.u, 0, sizeof r->op.u);
	struct store_group_filter *f = &r->op.u.read_groups.filter;
	struct str dead = query_get(r, "dead", &given);
	if (given && !str_eqz(dead, "true") && !str_eqz(dead, "false")) {
		answer_problem(r, DLQ_BAD_REQUEST, "dead must be true or false");
		return;
	}
	f->with_dead = str_eqz(dead, "true");
	r->op.queue = query_get(r, "queue", &given);
	if (given && queue_name_check(r->op.queue)) {
		answer_problem(r, DLQ_INVALID_NAME, "queue: the rule for names is: %s", QUEUE_NAME_RULE);
		return;
	}
	if (!read_statuses(r, &f->statuses) || !query_limit(r, &f->limit) || !query_cursor_int(r, 'g', &f->before_no))
		return;
	if (r->op.queue.n && !auth_need(r, r->op.queue))
		return;
	request_submit(r, OP_READ_GROUPS, list_done);
}

/* ---- one ---- */

static void buckets_write(struct json_out *j, const char *key, const struct store_bucket *b, int n)
{
	jout_key(j, key);
	jout_open(j, '[');
	for (int i = 0; i < n; i++) {
		jout_open(j, '{');
		jout_ktime(j, "at", b[i].at_ms);
		jout_kint(j, "failures", b[i].failures);
		jout_kint(j, "deaths", b[i].deaths);
		jout_close(j, '}');
	}
	jout_close(j, ']');
}

/* One sentence a line. */
static void rules_write(struct json_out *j, const char *rules)
{
	jout_key(j, "rules");
	jout_open(j, '[');
	while (*rules) {
		size_t n = strcspn(rules, "\n");
		if (n)
			jout_str(j, (struct str){rules, n});
		rules += n + (rules[n] == '\n');
	}
	jout_close(j, ']');
}

static void workers_write(struct json_out *j, const struct store_group_worker *w, int n)
{
	jout_key(j, "workers");
	jout_open(j, '[');
	for (int i = 0; i < n; i++) {
		jout_open(j, '{');
		jout_kstr(j, "worker", w[i].worker);
		if (w[i].version.n)
			jout_kstr(j, "version", w[i].version);
		jout_kint(j, "failures", w[i].failures);
		jout_ktime(j, "first_seen", w[i].first_ms);
		jout_ktime(j, "last_seen", w[i].last_ms);
		jout_close(j, '}');
	}
	jout_close(j, ']');
}

static void get_done(struct http_req *r)
{
	struct json_out j;
	const struct store_group *g = &r->op.u.read_group.out;
	if (!auth_need(r, g->queue))
		return;
	answer_begin(r, &j);
	jout_open(&j, '{');
	group_fields(&j, g);
	if (r->op.u.read_group.diagnosis)
		diagnosis_write(&j, r->op.u.read_group.diagnosis);
	rules_write(&j, r->op.u.read_group.normal_rules);
	workers_write(&j, r->op.u.read_group.workers, r->op.u.read_group.n_workers);
	buckets_write(&j, "minutes", r->op.u.read_group.minutes, r->op.u.read_group.n_minutes);
	buckets_write(&j, "hours", r->op.u.read_group.hours, r->op.u.read_group.n_hours);
	jout_key(&j, "merged_groups");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.read_group.n_merged; i++) {
		jout_open(&j, '{');
		group_fields(&j, &r->op.u.read_group.merged[i]);
		jout_close(&j, '}');
	}
	jout_close(&j, ']');
	jout_key(&j, "samples");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.read_group.n_samples; i++)
		dead_write(r, &j, &r->op.u.read_group.samples[i]);
	jout_close(&j, ']');
	jout_close(&j, '}');
	answer_json(r, 200);
}

bool group_read(struct http_req *r, struct str group, void (*finish)(struct http_req *))
{
	if (!fingerprint_text_valid(group)) {
		answer_problem(r, DLQ_NOT_FOUND, "there is no such group; `group` is %d characters out of 0-9 a-f, GET /v1/groups lists them",
		               FINGERPRINT_TEXT_LEN);
		return false;
	}
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_group.id = group;
	request_submit(r, OP_READ_GROUP, finish);
	return true;
}

void api_group_get(struct http_req *r)
{
	group_read(r, r->param, get_done);
}

/* ---- changes: the group is read first, for its queue; then changed; then read again for the answer ---- */

/* What the body said, kept while the group is read. */
struct group_change {
	bool set_status, set_note, set_owner, merge;
	enum group_status status;
	int64_t mute_for_ms, mute_deaths;
	struct str note, owner, into, reason;
};

static void set_done(struct http_req *r)
{
	engine_op_release(&r->op);
	group_read(r, r->param, get_done);
}

static void set_allowed(struct http_req *r)
{
	const struct group_change *c = r->u.group;
	if (!auth_need(r, r->op.u.read_group.out.queue))
		return;
	struct str queue = arena_str(&r->arena, r->op.u.read_group.out.queue);
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = queue;
	r->op.u.group_set.id = r->param;
	r->op.u.group_set.set_status = c->set_status;
	r->op.u.group_set.status = c->status;
	r->op.u.group_set.mute_for_ms = c->mute_for_ms;
	r->op.u.group_set.mute_deaths = c->mute_deaths;
	r->op.u.group_set.set_note = c->set_note;
	r->op.u.group_set.set_owner = c->set_owner;
	r->op.u.group_set.note = c->note;
	r->op.u.group_set.owner = c->owner;
	r->op.u.group_set.merge = c->merge;
	r->op.u.group_set.into = c->into;
	r->op.u.group_set.reason = c->reason;
	request_submit(r, OP_GROUP_SET, set_done);
}

/* The keys of one kind of change: the first is always "reason". Values go into c. */
static bool change_read(struct http_req *r, const char *const *known, int n, struct group_change *c, unsigned *seen)
{
	struct json_pull j;
	struct str key;
	*seen = 0;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			int f = jp_field(&j, key, known, n, seen);
			if (f < 0)
				continue;
			if (strcmp(known[f], "note") && strcmp(known[f], "owner") && jp_null(&j)) {
				*seen &= ~(1u << f);
				continue;
			}
			switch (known[f][0]) {
			case 'r': jin_reason(&j, &c->reason); break;
			case 'f': jin_duration(&j, 1000, (int64_t)3650 * 86400000, &c->mute_for_ms); break;
			case 'd': jp_int(&j, 1, MUTE_DEATHS_MAX, &c->mute_deaths); break;
			case 'n':
				if (!jp_null(&j) && jp_str(&j, &c->note) && c->note.n > NOTE_MAX)
					jp_fail(&j, DLQ_BAD_REQUEST, "note: at most %d bytes", NOTE_MAX);
				break;
			case 'o':
				if (!jp_null(&j) && jp_str(&j, &c->owner) && c->owner.n > OWNER_MAX)
					jp_fail(&j, DLQ_BAD_REQUEST, "owner: at most %d bytes", OWNER_MAX);
				break;
			default:
				if (jp_str(&j, &c->into) && !fingerprint_text_valid(c->into))
					jp_fail(&j, DLQ_BAD_REQUEST, "into: a group is %d characters out of 0-9 a-f", FINGERPRINT_TEXT_LEN);
				break;
			}
		}
	}
	if (!j.failed && n > 1 && strcmp(known[1], "note") == 0 && !(*seen & 6))
		jp_fail(&j, DLQ_BAD_REQUEST, "\"note\" or \"owner\" is needed");
	if (!j.failed && n > 1 && strcmp(known[1], "into") == 0 && !(*seen & 2))
		jp_fail(&j, DLQ_BAD_REQUEST, "\"into\" is needed: the group that it is to be part of");
	return jin_end(r, &j);
}

static void change(struct http_req *r, const char *const *known, int n, struct group_change with)
{
	static const char *const only_reason[] = {"reason"};
	unsigned seen;
	struct group_change *c = arena_alloc(&r->arena, sizeof *c);
	*c = with;
	if (!change_read(r, known ? known : only_reason, known ? n : 1, c, &seen))
		return;
	if (known && strcmp(known[1], "note") == 0) {
		c->set_note = seen & 2;
		c->set_owner = seen & 4;
	}
	r->u.group = c;
	group_read(r, r->param, set_allowed);
}

void api_group_acknowledge(struct http_req *r)
{
	change(r, NULL, 0, (struct group_change){.set_status = true, .status = GROUP_ACKNOWLEDGED});
}

void api_group_resolve(struct http_req *r)
{
	change(r, NULL, 0, (struct group_change){.set_status = true, .status = GROUP_RESOLVED});
}

void api_group_reopen(struct http_req *r)
{
	change(r, NULL, 0, (struct group_change){.set_status = true, .status = GROUP_NEW});
}

void api_group_mute(struct http_req *r)
{
	static const char *const known[] = {"reason", "for", "deaths"};
	change(r, known, ARRAY_LEN(known), (struct group_change){.set_status = true, .status = GROUP_MUTED});
}

void api_group_note(struct http_req *r)
{
	static const char *const known[] = {"reason", "note", "owner"};
	change(r, known, ARRAY_LEN(known), (struct group_change){0});
}

void api_group_merge(struct http_req *r)
{
	static const char *const known[] = {"reason", "into"};
	change(r, known, ARRAY_LEN(known), (struct group_change){.merge = true});
}

void api_group_split(struct http_req *r)
{
	change(r, NULL, 0, (struct group_change){.merge = true});
}

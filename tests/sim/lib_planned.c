/* Planned jobs against the model: what a filter chooses, what an edit makes of it, and a restart or a cancel while it selects. */
#include "engine/engine_int.h"
#include "lib_model.h"

/* One job: every third message of a queue. */
struct mplan {
	int queue, third;
	bool no_key;            /* in the ordered queue the order of restoring would matter */
	int to;                 /* the destination, -1: each its own */
	enum redrive_action action;
	enum { EDIT_NONE, EDIT_HEADER, EDIT_JQ, EDIT_FAILS, EDITS } edit;
	char where[100];
	int total, sent;        /* what the model expects */
};

static bool takes(const struct mplan *p, const struct mmsg *m)
{
	if (m->queue != p->queue || atoi(m->id + 2) % 3 != p->third || (p->no_key && m->key >= 0))
		return false;
	return p->action == ACTION_RESTORE ? m->where == DISCARDED || m->where == GIVEN : m->where == DEAD;
}

/* Whether it is done with, and not skipped: by an edit that fails, its limit, or another job that has it. */
static bool does(const struct mplan *p, const struct mmsg *m)
{
	if (m->member && p->action != ACTION_RESTORE)
		return false;
	return p->action != ACTION_REDRIVE || (m->redrives < MAX_REDRIVES && p->edit != EDIT_FAILS);
}

static void apply(struct sim *s, const struct mplan *p, struct mmsg *m)
{
	switch (p->action) {
	case ACTION_DISCARD:
		m->where = DISCARDED;
		s->discarded[m->queue]++;
		break;
	case ACTION_ARCHIVE:
		m->where = GIVEN;
		s->archived[m->queue]++;
		break;
	case ACTION_RESTORE:
		s->discarded[m->queue] -= m->where == DISCARDED;
		s->archived[m->queue] -= m->where == GIVEN;
		m->where = DEAD;
		break;
	default:
		m_redrive(s, m);
		m->queue = p->to >= 0 ? p->to : m->queue;
		s->moved += p->to >= 0;
		if (p->edit != EDIT_JQ)
			break;
		memcpy(m->now_body, m->body, sizeof(m->body)); /* from the original */
		m->now_body[1] = 'B';
	}
}

static void plan_op(const struct mplan *p, struct engine_op *op)
{
	static const struct store_header mended = {{"mended", 6}, {"1", 1}};
	*op = (struct engine_op){.type = OP_REDRIVE};
	op->u.redrive.action = p->action;
	op->u.redrive.reason = STR("chosen");
	op->u.redrive.sel.filtered = true;
	op->u.redrive.sel.filter.state = op->u.redrive.sel.filter.reason = -1;
	op->u.redrive.to = str_of(p->to >= 0 ? queue_names[p->to] : "");
	op->u.redrive.sel.where = str_of(p->where);
	op->u.redrive.edit.set = &mended;
	op->u.redrive.edit.n_set = p->edit == EDIT_HEADER;
	op->u.redrive.edit.program = str_of(p->edit == EDIT_JQ ? "\"B\" + .[1:]" : p->edit == EDIT_FAILS ? "error(\"no\")" : "");
}

static void came_back(struct op_port *port, struct engine_op *list)
{
	(void)port, (void)list;
}

/* Its row is written, and not one candidate was looked at. */
static void start_alone(struct sim *s, struct engine_op *op, int queue)
{
	static struct op_port port = {.post = came_back};
	op->port = &port;
	op->queue = str_of(queue_names[queue]);
	op->operator= STR("sim");
	engine_submit(s->e, op);
	scan_once(s->e);
	writer_once(s->e);
}

static void check_job(struct sim *s, const char *id, enum redrive_state state, int total, int sent)
{
	struct engine_op op = {.type = OP_READ_REDRIVE};
	op.u.read_redrive.id = str_of(id);
	call(s, &op, -1);
	CHECK(s, !op.code, "%s", op.err.detail);
	const struct store_redrive *r = &op.u.read_redrive.out;
	CHECK(s, r->state == state, "%s " STR_FMT " is %s: " STR_FMT " (plan_next %" PRId64 ", total %" PRId64 ", sent %" PRId64
	      ", skipped %" PRId64 ")", redrive_action_name(r->action), STR_ARG(r->plan), redrive_state_name(r->state), STR_ARG(r->halted_why), r->plan_next,
	      r->total, r->sent, r->skipped);
	CHECK(s, r->total == total && r->sent == sent, "%s, " STR_FMT ": looked at %" PRId64 ", total %" PRId64 " and sent %" PRId64
	      ", the model says %d and %d", redrive_action_name(r->action), STR_ARG(r->plan), r->looked, r->total, r->sent, total, sent);
	CHECK(s, r->total == r->sent + r->skipped + r->cancelled, "%" PRId64 " are not %" PRId64 " + %" PRId64 " + %" PRId64, r->total, r->sent,
	      r->skipped, r->cancelled);
	engine_op_release(&op);
}

static void cancel(struct sim *s, const char *id)
{
	struct engine_op op = {.type = OP_REDRIVE_CONTROL};
	op.u.redrive_control.id = str_of(id);
	op.u.redrive_control.want = REDRIVE_CANCELLED;
	call(s, &op, -1);
	CHECK(s, !op.code, "%s", op.err.detail);
	engine_op_release(&op);
}

void do_planned(struct sim *s)
{
	static const enum redrive_action actions[] = {ACTION_REDRIVE, ACTION_REDRIVE, ACTION_DISCARD, ACTION_ARCHIVE, ACTION_RESTORE, ACTION_RESTORE};
	struct mplan p = {.queue = below(s, QUEUES), .third = below(s, 3), .action = actions[below(s, (int)ARRAY_LEN(actions))], .to = -1};
	struct engine_op op;
	char id[ULID_LEN + 1];
	int how = below(s, 5), any = 0;
	p.no_key = p.action == ACTION_RESTORE && p.queue == ORDERED;
	if (p.action == ACTION_REDRIVE)
		p.edit = below(s, EDITS);
	if (p.action == ACTION_REDRIVE && p.queue != ORDERED && below(s, 2))
		p.to = PLAIN + LAST - p.queue;
	snprintf(p.where, sizeof(p.where), "(.id[2:] | tonumber) %% 3 == %d%s", p.third, p.no_key ? " and (has(\"key\") | not)" : "");
	for (int i = 0; i < s->n; i++) {
		s->m[i].chosen = takes(&p, &s->m[i]);
		any += s->m[i].where == DEAD || s->m[i].where == DISCARDED || s->m[i].where == GIVEN;
	}
	plan_op(&p, &op);
	if (how == 0 || how == 1)
		start_alone(s, &op, p.queue);
	else
		call(s, &op, p.queue);
	CHECK(s, !op.code, "%s", op.err.detail);
	memcpy(id, op.u.redrive.out.redrive_id, sizeof(id));
	engine_op_release(&op);
	s->plans++;
	if (how == 0 && any) { /* cancelled before it knew one */
		cancel(s, id);
		check_job(s, id, REDRIVE_CANCELLED, 0, 0);
		return;
	}
	if (how == 1) { /* which can take time, so that some reach their end before they are looked at */
		do_restart(s);
		engine_step(s->e);
		job_learn(s);
		m_tick(s);
	}
	engine_step(s->e);
	for (int i = 0; i < s->n; i++) {
		s->m[i].chosen = s->m[i].chosen && takes(&p, &s->m[i]);
		p.total += s->m[i].chosen;
		p.sent += s->m[i].chosen && does(&p, &s->m[i]);
	}
	check_job(s, id, REDRIVE_DONE, p.total, p.sent);
	for (int i = 0; i < s->n; i++) {
		struct mmsg *m = &s->m[i];
		if (!m->chosen || !does(&p, m))
			continue;
		apply(s, &p, m);
		s->planned[p.action]++;
	}
}

/*
 * scan_int.h - the scan thread: what may look at much. One thread with its own store_reader and one bounded queue does everything that
 * reads bodies, runs jq or reads the archive, a bounded step at a time; operations and the planning of redrives take turns. In
 * single_step mode engine_step does its work on the writer's reader.
 *
 * OWNERSHIP. Everything marked "lock" is shared, under `lock` (a leaf, see engine_int.h); all else is the scan thread's.
 */
#ifndef ENGINE_SCAN_INT_H
#define ENGINE_SCAN_INT_H

#include "engine/engine_int.h"
#include "engine/plan.h"
#include "jq/jq.h"

#define SCAN_WAITING_MAX 256
#define SCAN_STEP_US 250000        /* what one step takes, about */
#define SCAN_LOOK_MAX 50000        /* dead letters looked at by one step, at most about */
#define SCAN_PAGE_BYTES ((int64_t)4 << 20)
#define SCAN_BATCH_MAX 256         /* messages given to jq at once */
#define SCAN_IDLE_US 10000000      /* a jq child that had nothing to do for so long is ended */
#define SCAN_BUSY_US 240000000     /* one that worked for so long is started anew: its CPU time is limited */
#define EXPORT_BYTES_MAX ((size_t)8 << 20)
#define PICKS_MAX 256
#define PICK_BYTES_MAX ((int64_t)4 << 20)

/* One child with its program. batch: how many messages it gets at once, so that a step stays short. */
struct jq_slot {
	struct jq *jq;
	int64_t used_us, busy_us;
	int64_t turn; /* when it was given out last, in uses: the one with the lowest makes room */
	int batch;
};

/* A step of a planned redrive on its way to the writer. */
struct pick_port {
	struct op_port port; /* first */
	struct scanner *s;
};

struct scanner {
	struct engine *e;
	struct store_reader *r;
	bool own_reader, started;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond; /* CLOCK_MONOTONIC */
	/* lock */
	struct engine_op *head, *tail;
	int waiting;
	bool stop;
	int64_t *plans; /* redrives that still select */
	int n_plans, cap_plans;
	bool pick_busy; /* `pick` is the writer's */
	/* the scan thread */
	struct jq_slot slots[4]; /* a step uses at most two */
	int64_t jq_turn;
	int64_t last_plan;   /* the redrive that had the last step */
	int64_t plan_at;     /* schedule time: no step before */
	bool plan_turn;
	bool pick_back;      /* lock; came back, not looked at yet */
	struct pick_port port;
	struct engine_op pick;
	struct arena pick_arena;
};

/* ---- scan_jq.c ---- */
/* A child for the program: one from the cache, or a new one. BAD_REQUEST and what else jq_open says. */
enum dlq_code scan_jq(struct scanner *s, enum jq_kind kind, struct str program, struct jq_slot **out, struct dlq_err *err) MUST_USE;
/* jq_run; the error names the dead letter of items[at] (ids[at]), and a dead child leaves the cache. */
enum dlq_code scan_jq_run(struct scanner *s, struct jq_slot *slot, struct jq_item *items, const char *const *ids, int n, struct arena *a,
                          struct dlq_err *err) MUST_USE;
/* Ends children that have nothing to do; all: every one. Returns whether one is left. */
bool scan_jq_sweep(struct scanner *s, bool all);

/* ---- scan_run.c: looking at candidates, newest first ---- */

/* A dead letter that the selection means. */
struct scan_member {
	const struct store_dead *d;
	int max_redrives;             /* >= 0: it was redriven so often that it may not go back */
	bool edit_tried, edit_failed;
	struct str error;             /* edit_failed */
	const struct str *body, *headers; /* edited; NULL: as they are */
	const struct jq_item *edit;   /* what jq said; NULL: it was not asked */
};

struct scan {
	/* in */
	struct scanner *s;
	struct str queue;
	const struct engine_selection *sel;
	const struct engine_edit *edit;   /* NULL: none */
	unsigned states;                  /* bit per enum dead_state */
	bool whole;                       /* nothing of sel->filter is meant */
	bool check_limit;                 /* max_redrives */
	int64_t before_no;
	int64_t budget_us;
	/* Whether it wants more; all it is given is gone when it returns. */
	bool (*take)(struct scan *k, const struct scan_member *m);
	void *ctx;
	struct arena *out;                /* first_error */
	/* out */
	struct engine_scan told;
	int64_t next_no;                  /* 0: all were looked at */
	bool by_jq;                       /* what failed was jq */
	/* its own */
	struct store_dead_filter f;
	struct jq_slot *where, *program;
	int64_t until_us;
	struct arena page, work;
	bool full;
};
/* Names to numbers: op's queue, group, redrive, undo. NOT_FOUND, BAD_REQUEST. */
enum dlq_code scan_resolve(struct scan *k, struct dlq_err *err) MUST_USE;
/* After scan_resolve: looks until take has enough, the time is over or nothing is left. */
enum dlq_code scan_run(struct scan *k, struct dlq_err *err) MUST_USE;
void scan_end(struct scan *k);
struct store_dead *dead_copy(struct arena *a, const struct store_dead *d, struct store_dead *to);
/* Which states an action takes, a bit each. */
unsigned action_states(enum redrive_action action, bool override_limit);

/* ---- scan_ops.c ---- */
enum dlq_code scan_dead(struct scanner *s, struct engine_op *op) MUST_USE;
enum dlq_code scan_export(struct scanner *s, struct engine_op *op) MUST_USE;
enum dlq_code scan_preview(struct scanner *s, struct engine_op *op) MUST_USE;
/* OP_REDRIVE before the writer gets it: compiles its programs; counts what only looking can count. *done: it has its answer. */
enum dlq_code scan_redrive(struct scanner *s, struct engine_op *op, bool *done) MUST_USE;
bool scan_first(const struct engine_op *op);

/* ---- scan_import.c ---- */
enum dlq_code scan_import(struct scanner *s, struct engine_op *op) MUST_USE;

/* ---- plan_step.c ---- */
/* One step of one redrive, if one is due; true: something was done. */
bool plan_step(struct scanner *s);

#endif

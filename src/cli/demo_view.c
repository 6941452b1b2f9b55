/* demo_view.c - what the audience of the demo sees: redrawn in place on a terminal, plain lines elsewhere. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/demo.h"
#include "cli/term.h"

#define BAR 32

static int drawn; /* lines of the view that are on the screen */

int64_t demo_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void demo_title(const struct demo *d)
{
	char orders[32], bad[32];

	printf("\n%sdlq demo%s  %s orders come in. The label printer's worker cannot encode the SKU of %s of them.\n\n",
	       term_bold(), term_reset(), count_format(d->orders, orders), count_format(d->bad, bad));
	fflush(stdout);
}

void demo_say(const char *fmt, ...)
{
	va_list ap;

	drawn = 0;
	printf("\n%s", term_bold());
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("%s\n", term_reset());
	fflush(stdout);
}

static void bar(const char *name, int64_t n, int64_t of, const char *colour)
{
	int full = of > 0 ? (int)(n * BAR * 8 / of) : 0;
	static const char *const part[] = {"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
	char text[32];
	int cells = 0;

	full = n > 0 && !full ? 1 : full > BAR * 8 ? BAR * 8 : full;
	printf("  %-9s %s%8s%s  %s", name, term_bold(), count_format(n, text), term_reset(), colour);
	for (; cells < full / 8; cells++)
		fputs("\u2588", stdout);
	if (full % 8) {
		fputs(part[full % 8], stdout);
		cells++;
	}
	printf("%s%s", term_reset(), term_dim());
	for (; cells < BAR; cells++)
		fputs("\u00b7", stdout);
	printf("%s\033[K\n", term_reset());
	drawn++;
}

static void draw_recent(struct demo *d)
{
	int width = term_width() - 6;

	pthread_mutex_lock(&d->lock);
	int from = d->n_recent > DEMO_RECENT ? d->n_recent - DEMO_RECENT : 0;
	printf("\033[K\n  %slast failures%s\033[K\n", term_dim(), term_reset());
	drawn += 2;
	for (int i = 0; i < DEMO_RECENT; i++, drawn++) {
		if (from + i < d->n_recent)
			printf("    %s%.*s%s", term_red(), width, d->recent[(from + i) % DEMO_RECENT], term_reset());
		printf("\033[K\n");
	}
	pthread_mutex_unlock(&d->lock);
}

/* Throughput over the time since the last drawing, smoothed. */
static int64_t rate(const struct demo_counts *n, int64_t now)
{
	static int64_t last_ms, last_n;
	static double smooth;
	int64_t handled = n->done + n->failed_attempts;

	if (last_ms && now > last_ms && handled >= last_n) {
		double r = (double)(handled - last_n) * 1000.0 / (double)(now - last_ms);

		smooth = smooth > 0 ? smooth * 0.7 + r * 0.3 : r;
	}
	last_ms = now;
	last_n = handled;
	return (int64_t)smooth;
}

static void draw_tty(struct demo *d, const struct demo_counts *n, const char *phase, double seconds, int64_t per_second)
{
	if (drawn)
		printf("\033[%dA", drawn);
	drawn = 0;
	bar("sent", n->sent, d->orders, "");
	bar("waiting", n->ready - n->retrying, d->orders, "");
	bar("leased", n->leased, d->orders, "");
	bar("retrying", n->retrying, d->orders, term_yellow());
	bar("dead", n->dead, d->orders, term_red());
	bar("done", n->done, d->orders, term_green());
	printf("\033[K\n  %s%-28s %6.1f s   %lld deliveries/s%s\033[K\n", term_dim(), phase, seconds,
	       (long long)per_second, term_reset());
	drawn += 2;
	draw_recent(d);
}

void demo_draw(struct demo *d, const struct demo_counts *n, const char *phase, bool last)
{
	static int64_t last_line;
	int64_t now = demo_now_ms();
	int64_t per_second = rate(n, now);
	double seconds = (double)(now - d->started_ms) / 1000.0;

	if (d->tty) {
		draw_tty(d, n, phase, seconds, per_second);
	} else if (last || now - last_line >= 2000) {
		printf("%6.1f s  %s: sent %lld, waiting %lld, leased %lld, retrying %lld, dead %lld, done %lld\n",
		       seconds, phase, (long long)n->sent, (long long)(n->ready - n->retrying), (long long)n->leased,
		       (long long)n->retrying, (long long)n->dead, (long long)n->done);
		last_line = now;
	}
	fflush(stdout);
}

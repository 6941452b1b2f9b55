#include "cli/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

bool term_is_tty(int fd)
{
	return isatty(fd) == 1;
}

static const char *colour(const char *code)
{
	static int on = -1;

	if (on < 0) {
		const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

		on = term_is_tty(STDOUT_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb"));
	}
	return on ? code : "";
}

const char *term_bold(void)
{
	return colour("\033[1m");
}

const char *term_dim(void)
{
	return colour("\033[2m");
}

const char *term_red(void)
{
	return colour("\033[31m");
}

const char *term_green(void)
{
	return colour("\033[32m");
}

const char *term_yellow(void)
{
	return colour("\033[33m");
}

const char *term_reset(void)
{
	return colour("\033[0m");
}

int term_width(void)
{
	struct winsize w;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col >= 20)
		return w.ws_col;
	return 80;
}

/* ---- safe text ---- */

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none; its code point in *cp. */
static size_t utf8_at(struct str s, uint32_t *cp)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;

	if (!n || n > s.n || (n > 1 && !str_is_utf8((struct str){s.p, n})))
		return 0;
	*cp = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++)
		*cp = *cp << 6 | (p[i] & 0x3f);
	return n;
}

/* Code points that move the cursor, change the direction of text or hide in it. */
static bool is_unsafe(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || (cp >= 0x200b && cp <= 0x200f) ||
	       (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2060 && cp <= 0x2069) || cp == 0xfeff;
}

void text_safe_buf(struct str s, bool lines, struct buf *out)
{
	for (size_t i = 0; i < s.n;) {
		uint32_t cp = 0;
		size_t n = utf8_at((struct str){s.p + i, s.n - i}, &cp);

		if (n && lines && (cp == '\n' || cp == '\t')) {
			buf_addc(out, (char)cp);
		} else if (n && !is_unsafe(cp)) {
			buf_add(out, s.p + i, n);
		} else if (n == 1 && (cp == '\n' || cp == '\t' || cp == '\r')) {
			buf_addz(out, cp == '\n' ? "\\n" : cp == '\t' ? "\\t" : "\\r");
		} else if (n > 1) {
			buf_addf(out, "\\u%04x", cp);
		} else {
			buf_addf(out, "\\x%02x", (unsigned char)s.p[i]);
		}
		i += n ? n : 1;
	}
}

char *text_safe(struct str s, char *out, size_t n)
{
	struct buf b = {0};

	text_safe_buf(s, false, &b);
	if (b.n < n) {
		memcpy(out, b.n ? b.p : "", b.n);
		out[b.n] = 0;
	} else {
		size_t cut = n - 4;

		while (cut && ((unsigned char)b.p[cut] & 0xc0) == 0x80)
			cut--;
		memcpy(out, b.p, cut);
		memcpy(out + cut, "...", 4);
	}
	buf_release(&b);
	return out;
}

char *time_ago(const char *rfc3339, char out[40])
{
	int64_t ms;
	char human[32];

	out[0] = 0;
	if (!rfc3339 || !time_parse(str_of(rfc3339), &ms))
		return out;
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	int64_t ago = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 - ms;
	duration_human(ago < 0 ? -ago : ago, human);
	snprintf(out, 40, ago < 0 ? "in %s" : "%s ago", human);
	return out;
}

char *count_format(int64_t n, char out[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%lld", (long long)n), at = 0;

	for (int i = 0; i < len; i++) {
		out[at++] = digits[i];
		if (digits[i] != '-' && i + 1 < len && (len - 1 - i) % 3 == 0)
			out[at++] = ',';
	}
	out[at] = 0;
	return out;
}

/* ---- tables ---- */

void table_init(struct table *t, unsigned right, const char *const *head, int columns)
{
	ASSERT(columns <= TABLE_COLUMNS);
	*t = (struct table){.columns = columns, .right = right};
	for (int i = 0; i < columns; i++)
		t->head[i] = head[i];
}

void table_cell(struct table *t, const char *text)
{
	char safe[512];

	text_safe(str_of(text), safe, sizeof(safe));
	buf_add(&t->cells, safe, strlen(safe) + 1);
	t->rows++;
}

void table_int(struct table *t, int64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)v);
	table_cell(t, text);
}

static int columns_of(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* Prints s in exactly (last column: at most) width columns. */
static void print_cell(const char *s, int width, bool right, bool last)
{
	int have = columns_of(s);

	if (have > width) {
		const char *p = s;

		for (int n = 0; n < width - 1; n++)
			do
				p++;
			while (((unsigned char)*p & 0xc0) == 0x80);
		printf("%.*s\xe2\x80\xa6", (int)(p - s), s);
		have = width;
	} else if (right) {
		printf("%*s%s", width - have, "", s);
		have = width;
	} else {
		fputs(s, stdout);
	}
	if (!last)
		printf("%*s", width - have + 2, "");
}

static void table_print_tty(struct table *t)
{
	int width[TABLE_COLUMNS], total = 0, room = term_width();
	const char *cell = t->cells.p;

	for (int i = 0; i < t->columns; i++)
		width[i] = columns_of(t->head[i]);
	for (int i = 0; i < t->rows; i++, cell += strlen(cell) + 1)
		if (columns_of(cell) > width[i % t->columns])
			width[i % t->columns] = columns_of(cell);
	for (int i = 0; i < t->columns; i++)
		total += width[i] + 2;
	/* The last column takes what is left. */
	int *last = &width[t->columns - 1], spare = room - (total - *last - 2);
	if (*last > spare)
		*last = spare > 8 ? spare : 8;
	printf("%s", term_bold());
	for (int i = 0; i < t->columns; i++)
		print_cell(t->head[i], width[i], t->right >> i & 1, i == t->columns - 1);
	printf("%s\n", term_reset());
	cell = t->cells.p;
	for (int i = 0; i < t->rows; i++, cell += strlen(cell) + 1) {
		int column = i % t->columns;

		print_cell(cell, width[column], t->right >> column & 1, column == t->columns - 1);
		if (column == t->columns - 1)
			putchar('\n');
	}
}

void table_print(struct table *t)
{
	if (t->rows && term_is_tty(STDOUT_FILENO)) {
		table_print_tty(t);
	} else {
		const char *cell = t->cells.p;

		for (int i = 0; i < t->rows; i++, cell += strlen(cell) + 1)
			printf("%s%c", cell, (i + 1) % t->columns ? '\t' : '\n');
	}
	buf_release(&t->cells);
	t->rows = 0;
}

/* ---- progress and questions ---- */

static char progress_last[300];

void progress(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(progress_last, sizeof(progress_last), fmt, ap);
	va_end(ap);
	if (term_is_tty(STDERR_FILENO)) {
		struct winsize w;
		int room = !ioctl(STDERR_FILENO, TIOCGWINSZ, &w) && w.ws_col >= 20 ? w.ws_col - 1 : 79;

		fprintf(stderr, "\r\033[K%.*s", room, progress_last); /* a line that wraps cannot be redrawn */
	}
}

void progress_end(void)
{
	if (!progress_last[0])
		return;
	if (term_is_tty(STDERR_FILENO))
		fputc('\n', stderr);
	else
		fprintf(stderr, "%s\n", progress_last);
	progress_last[0] = 0;
}

void progress_clear(void)
{
	if (progress_last[0] && term_is_tty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	progress_last[0] = 0;
}

bool ask_yes(const char *question)
{
	char answer[16];

	if (!term_is_tty(STDIN_FILENO) || !term_is_tty(STDERR_FILENO))
		return false;
	fprintf(stderr, "%s [y/N] ", question);
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	return answer[0] == 'y' || answer[0] == 'Y';
}

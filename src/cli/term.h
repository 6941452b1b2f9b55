/*
 * term.h - what people see: colours, tables, times, progress, questions. Text from messages is never written to a
 * terminal as it is: control characters are escaped.
 */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include "base/base.h"

/* Colours are empty strings unless stdout is a terminal, NO_COLOR is unset and TERM is not "dumb". */
const char *term_bold(void);
const char *term_dim(void);
const char *term_red(void);
const char *term_green(void);
const char *term_yellow(void);
const char *term_reset(void);
bool term_is_tty(int fd);
int term_width(void); /* columns of stdout, 80 if unknown */

/* s as printable UTF-8 on one line: control characters and bytes that are no text become \n, \t, \xNN. Cut to n - 1
 * bytes with "..." at the end. Gives out. */
char *text_safe(struct str s, char *out, size_t n);
/* The same into a buffer; newlines and tabs are kept with `lines`. */
void text_safe_buf(struct str s, bool lines, struct buf *out);
/* "5s ago" from an RFC 3339 time of the API; "" when it is none. */
char *time_ago(const char *rfc3339, char out[40]);
/* 5826 -> "5,826" */
char *count_format(int64_t n, char out[32]);

/*
 * A table: on a terminal aligned with a header, cut to its width; elsewhere one line a row with tabs, no header.
 * Cells are copied and made safe.
 */
#define TABLE_COLUMNS 12
struct table {
	const char *head[TABLE_COLUMNS];
	int columns;
	struct buf cells; /* NUL-ended, one after the other */
	int rows;
	unsigned right;   /* bit per column: numbers, aligned right */
};
void table_init(struct table *t, unsigned right, const char *const *head, int columns);
void table_cell(struct table *t, const char *text); /* row by row; NULL is empty */
void table_int(struct table *t, int64_t v);
void table_print(struct table *t); /* prints and empties it */

/* A line on stderr that is redrawn in place on a terminal; elsewhere only the last one is printed. */
void progress(const char *fmt, ...) PRINTF_LIKE(1, 2);
void progress_end(void);
void progress_clear(void); /* ends it without the line: what follows says it all */

/* Asks on the terminal. False when the answer is not yes, or there is no terminal to ask at. */
bool ask_yes(const char *question);

#endif

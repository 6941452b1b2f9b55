/*
 * The files of the archive with anything in them: lists and finds never fail in a way that is not theirs, and a writer
 * makes any state whole again. Input: two bytes with the length of the index, the index, then the data; the first bit
 * says that the data is a .jsonl.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/archive_shelf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DAY "2027-01-15"
#define WALL 1800000000000

static char dir[64], folder[100];
static bool no_data; /* an index alone: what it has cannot be opened */

static void remove_all(void)
{
	static const char *const suffixes[] = {"index", "jsonl.zst", "jsonl"};
	char path[200];
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		snprintf(path, sizeof path, "%s/" DAY ".%s", folder, suffixes[i]);
		unlink(path);
	}
}

static void remove_folders(void)
{
	remove_all();
	rmdir(folder);
	folder[strlen(folder) - 2] = '\0';
	rmdir(folder);
	rmdir(dir);
}

static void make_folders(void)
{
	snprintf(dir, sizeof dir, "%s/dlq-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	ASSERT(mkdtemp(dir));
	snprintf(folder, sizeof folder, "%s/archive", dir);
	ASSERT(mkdir(folder, 0700) == 0);
	strncat(folder, "/q", sizeof folder - strlen(folder) - 1);
	ASSERT(mkdir(folder, 0700) == 0);
	atexit(remove_folders);
	log_set_level((enum log_level)(LOG_ERROR + 1));
}

static void put(const char *suffix, struct str bytes)
{
	char path[200];
	snprintf(path, sizeof path, "%s/" DAY ".%s", folder, suffix);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ASSERT(fd >= 0 && write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n);
	close(fd);
}

static void fuzz_lines(struct str s)
{
	struct arena a = {0};
	struct archive_entry e = {0};
	struct archive_place p;
	struct shelf_place at;
	if (archive_line_parse(&a, s, false, &e, &p)) {
		ASSERT(e.dlq_id.n && archive_line_parse(&a, s, true, &e, NULL));
		/* What is written of it is read back the same. */
		struct buf line = {0};
		struct archive_entry back = {0};
		archive_line_facts(&e, &line);
		archive_line_end(&(struct archive_place){1, 2, 3, 4}, &line);
		ASSERT(archive_line_parse(&a, buf_str(&line), false, &back, &p) && p.offset == 1 && p.lines == 4);
		ASSERT(!str_is_utf8(e.id) || str_eq(back.id, e.id));
		ASSERT(back.died_at_ms == e.died_at_ms && back.archived_at_ms == e.archived_at_ms);
		buf_release(&line);
	}
	if (shelf_place_parse(s, &at)) {
		struct shelf_place back;
		ASSERT(shelf_place_parse(shelf_place_text(&a, &at), &back));
		ASSERT(back.day == at.day && str_eq(back.queue, at.queue) && back.from == at.from && back.a == at.a &&
		       back.b == at.b);
	}
	arena_release(&a);
}

static void fuzz_list(struct str id)
{
	char cursor[300] = "";
	for (int page = 0; page < 20; page++) {
		struct arena a = {0};
		struct archive_entry *e;
		struct str next;
		int n;
		enum dlq_code c =
		    archive_list(dir, STR(""), STR(""), STR(""), id, str_of(cursor), 3, &a, &e, &n, &next, NULL);
		ASSERT(c == DLQ_OK && n <= 3 && next.n < sizeof cursor);
		memcpy(cursor, next.p, next.n);
		cursor[next.n] = '\0';
		arena_release(&a);
		if (!cursor[0])
			break;
	}
}

static enum dlq_code find(struct str id)
{
	struct arena a = {0};
	struct str record, queue;
	struct dlq_err err = {0};
	enum dlq_code c = archive_find(dir, id, &a, &record, &queue, &err);
	ASSERT(c == DLQ_OK || c == DLQ_NOT_FOUND || c == DLQ_STORE_CORRUPT || (c == DLQ_SYSTEM && no_data));
	ASSERT(c == DLQ_OK || err.detail[0]);
	arena_release(&a);
	return c;
}

/* A new record goes in whatever is there, and is found; the files are in order then. */
static void fuzz_write(void)
{
	struct archive_writer *w = archive_writer_new(dir);
	struct store_dead d = {
	    .queue = STR("q"), .id = STR("new-one"), .state = DEAD_DEAD, .reason = REASON_EXPIRED, .died_at_ms = WALL};
	struct dlq_err err = {0};
	struct stat st;
	char path[200];
	int64_t end;
	ulid_make(WALL, 1, 1, d.dlq_id);
	char text[200];
	snprintf(text, sizeof text, "{\"dlq_id\":\"%s\",\"id\":\"new-one\"}\n", d.dlq_id);
	ASSERT(archive_add(w, &d, str_of(text), WALL, &err) == DLQ_OK);
	ASSERT(archive_flush(w, &err) == DLQ_OK);
	archive_writer_free(w);
	ASSERT(find(STR("new-one")) == DLQ_OK);
	snprintf(path, sizeof path, "%s/" DAY ".jsonl.zst", folder);
	ASSERT(stat(path, &st) == 0);
	snprintf(path, sizeof path, "%s/" DAY ".index", folder);
	int fd = open(path, O_RDONLY);
	ASSERT(fd >= 0 && archive_index_covers(fd, &end) && end == st.st_size);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = {(const char *)data, size};
	if (!dir[0])
		make_folders();
	fuzz_lines(s);
	if (size < 2)
		return 0;
	bool old = no_data = data[0] & 0x80;
	size_t n = (size_t)(data[0] & 0x7f) << 8 | data[1];
	n = n < size - 2 ? n : size - 2;
	struct str index = {s.p + 2, n}, rest = {s.p + 2 + n, size - 2 - n};
	fuzz_lines(index);
	fuzz_lines(rest);
	remove_all();
	if (n)
		put("index", index);
	put(old ? "jsonl" : "jsonl.zst", rest);
	fuzz_list(STR(""));
	fuzz_list(STR("m-1"));
	(void)find(STR("m-1"));
	(void)find(STR("01MC5XJ80000030000000000001"));
	no_data = false;
	fuzz_write();
	return 0;
}

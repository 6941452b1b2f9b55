/*
 * One connection: bytes to requests (by http_parser), answers to bytes. All of it on the loop's thread.
 *
 * The descriptor is registered once, edge-triggered for input, output and hang-up. `readable` remembers that an edge was
 * not used up yet; while a request is under way nothing is read, so a client that sends ahead fills only the kernel's
 * buffer. A connection is freed at the end of the round (LIST_DEAD), never under somebody who still holds it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "http/http.h"

#define TURN_READS 8            /* recv calls in a row for one connection, so that others get their turn */
#define LINGER_MS 2000          /* how long the rest of a refused body is read and thrown away, so that the answer arrives */
#define HEAD_MAX 1024

void http_conn_move(struct http_server *s, struct http_conn *c, enum conn_list list, int64_t deadline_ms)
{
	if (c->list != LIST_NONE) {
		c->prev->next = c->next;
		c->next->prev = c->prev;
	}
	c->list = list;
	c->deadline_ms = deadline_ms;
	if (list == LIST_NONE)
		return;
	struct http_conn *head = &s->lists[list];
	c->prev = head->prev;
	c->next = head;
	head->prev->next = c;
	head->prev = c;
}

void http_conn_open(struct http_server *s, int fd)
{
	struct http_conn *c = mem_alloc(sizeof *c);
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
	c->s = s;
	c->fd = fd;
	http_parser_init(&c->parser, HTTP_REQUEST);
	c->parser.data = c;
	if (epoll_ctl(s->ep, EPOLL_CTL_ADD, fd, &ev) != 0) {
		close(fd);
		mem_free(c);
		return;
	}
	if (s->tls)
		c->tls = tls_conn_new(s->tls, fd);
	s->n_conns++;
	atomic_fetch_add_explicit(&s->stats.connections, 1, memory_order_relaxed);
	http_conn_move(s, c, LIST_READING, s->now_ms + s->lim.request_timeout_ms);
}

static void again(struct http_conn *c)
{
	if (c->in_again)
		return;
	c->in_again = true;
	c->again = c->s->again;
	c->s->again = c;
}

void http_conn_close(struct http_conn *c)
{
	struct http_server *s = c->s;
	struct http_req *r = c->r;
	if (c->list == LIST_DEAD)
		return;
	if (r && r->phase == PHASE_WAIT) { /* http_conn_answer ends it when the operation is back */
		if (!c->gone && c->list == LIST_PARKED)
			engine_cancel_receive(s->e, &r->op);
		c->gone = true;
		return;
	}
	if (r) {
		if (r->op_used && r->op.type == OP_RECEIVE && r->op.code == DLQ_OK)
			receive_give_back(r);
		request_free(r);
		c->r = NULL;
	}
	tls_conn_free(c->tls);
	c->tls = NULL;
	/* Said outright: a process that is just being started may hold a copy of the descriptor, and while it does, close
	 * alone leaves it watched. */
	epoll_ctl(s->ep, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	c->fd = -1;
	s->n_conns--;
	atomic_fetch_sub_explicit(&s->stats.connections, 1, memory_order_relaxed);
	http_conn_move(s, c, LIST_DEAD, 0);
}

void http_conn_free_dead(struct http_server *s)
{
	struct http_conn *head = &s->lists[LIST_DEAD];
	for (struct http_conn *c = head->next, *next; c != head; c = next) {
		next = c->next;
		if (c->in_again)
			continue; /* go_on takes it off its list first */
		http_conn_move(s, c, LIST_NONE, 0);
		buf_release(&c->in);
		buf_release(&c->out);
		mem_free(c);
	}
}

/* ---- bytes out ---- */

static ssize_t send_some(struct http_conn *c, const struct iovec *iov, int n)
{
	if (c->tls) {
		for (int i = 0; i < n; i++)
			if (iov[i].iov_len)
				return tls_send(c->tls, iov[i].iov_base, iov[i].iov_len);
		return 0;
	}
	struct msghdr m = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n};
	return sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The answer is out: the connection waits for its next request, lingers, or is over. */
static void answer_sent(struct http_conn *c)
{
	struct http_server *s = c->s;
	struct http_req *r = c->r;
	bool close_it = r->close_after;
	c->r = NULL;
	request_free(r);
	if (!close_it) {
		http_conn_move(s, c, LIST_IDLE, s->now_ms + s->lim.idle_timeout_ms);
		if (c->in.n || c->readable)
			again(c);
		return;
	}
	if (c->hup) {
		http_conn_close(c);
		return;
	}
	tls_conn_free(c->tls); /* says goodbye; what still comes is thrown away as it is */
	c->tls = NULL;
	shutdown(c->fd, SHUT_WR);
	c->stop = c->readable = true;
	buf_clear(&c->in);
	http_conn_move(s, c, LIST_LINGER, s->now_ms + LINGER_MS);
	again(c);
}

/* c waits for its client. Past the limit of all answers that wait, the one that waits longest is given up. */
static void wait_for_client(struct http_conn *c, size_t n)
{
	struct http_server *s = c->s;
	struct http_conn *all = &s->lists[LIST_WRITING];
	if (c->list == LIST_WRITING)
		return;
	/* at least 64 KiB a second must be taken */
	http_conn_move(s, c, LIST_WRITING, s->now_ms + s->lim.request_timeout_ms + (int64_t)(n / 64));
	request_shrink(c->r);
	c->r->out_counted = (int64_t)c->r->out.n;
	s->out_bytes += c->r->out_counted;
	while (s->out_bytes > s->lim.max_waiting_bytes * 4 && all->next != c) {
		atomic_fetch_add_explicit(&s->stats.timeouts, 1, memory_order_relaxed);
		http_conn_close(all->next);
	}
}

/* Goes on sending: what is left of the head (c->out), then of the body (r->out or the made one). */
static void send_rest(struct http_conn *c)
{
	struct http_req *r = c->r;
	for (;;) {
		struct str body = r->is_head ? STR("") : r->made ? (struct str){r->made_body, MADE_LEN} : buf_str(&r->out);
		struct iovec iov[2] = {{c->out.p ? c->out.p + c->out_at : NULL, c->out.n - c->out_at},
		                       {(char *)body.p + r->out_at, body.n - r->out_at}};
		if (!iov[0].iov_len && !iov[1].iov_len)
			break;
		int first = iov[0].iov_len ? 0 : 1;
		ssize_t n = send_some(c, iov + first, 2 - first);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			wait_for_client(c, body.n);
			return;
		}
		if (n < 0) {
			r->phase = PHASE_SENT;
			http_conn_close(c);
			return;
		}
		size_t head = (size_t)n < iov[0].iov_len ? (size_t)n : iov[0].iov_len;
		c->out_at += head;
		r->out_at += (size_t)n - head;
	}
	buf_clear(&c->out);
	c->out_at = 0;
	answer_sent(c);
}

static const char *status_text(int status)
{
	static const struct { int status; const char *text; } known[] = {
		{200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"}, {400, "Bad Request"}, {401, "Unauthorized"},
		{403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"}, {409, "Conflict"}, {410, "Gone"},
		{413, "Content Too Large"}, {417, "Expectation Failed"}, {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"}, {502, "Bad Gateway"}, {503, "Service Unavailable"}, {504, "Gateway Timeout"},
		{507, "Insufficient Storage"},
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].status == status)
			return known[i].text;
	return "Status";
}

static void write_head(struct http_conn *c, struct http_req *r)
{
	struct buf *b = &c->out;
	size_t n = r->made ? MADE_LEN : r->out.n;
	buf_clear(b);
	buf_addf(b, "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Content-Type-Options: nosniff\r\n", r->status, status_text(r->status), c->s->date);
	if (r->type) {
		buf_addz(b, "Content-Type: ");
		buf_addz(b, r->type);
		buf_addz(b, "\r\n");
	}
	if (r->status != 204)
		buf_addf(b, "Content-Length: %zu\r\n", n);
	if (r->allow[0])
		buf_addf(b, "Allow: %s\r\n", r->allow);
	buf_addz(b, r->more_head);
	if (r->challenge)
		buf_addz(b, "WWW-Authenticate: Bearer\r\n");
	if (r->retry_after_s)
		buf_addf(b, "Retry-After: %d\r\n", r->retry_after_s);
	if (r->close_after)
		buf_addz(b, "Connection: close\r\n");
	else if (c->parser.http_major == 1 && c->parser.http_minor == 0)
		buf_addz(b, "Connection: keep-alive\r\n");
	buf_addz(b, "\r\n");
}

/* The answer to a single send, by far the most frequent one, without formatting. */
static void write_made_head(struct http_conn *c, struct http_req *r)
{
	struct buf *b = &c->out;
	struct str date = str_of(c->s->date);
	buf_clear(b);
	buf_adds(b, r->status == 201 ? STR("HTTP/1.1 201 Created\r\nDate: ") : STR("HTTP/1.1 200 OK\r\nDate: "));
	buf_adds(b, date);
	buf_adds(b, STR("\r\nX-Content-Type-Options: nosniff\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n"));
}

void http_conn_answer(struct http_req *r)
{
	struct http_conn *c = r->c;
	struct http_server *s = r->s;
	_Static_assert(MADE_LEN == 36, "write_made_head states the length");
	r->phase = PHASE_SENT;
	if (c->gone) {
		http_conn_close(c);
		return;
	}
	atomic_fetch_add_explicit(&s->stats.by_class[r->status / 100 % 6], 1, memory_order_relaxed);
	if (!c->keep || atomic_load_explicit(&s->draining, memory_order_relaxed))
		r->close_after = true;
	if (r->made && !r->close_after && !r->is_head && c->parser.http_minor == 1)
		write_made_head(c, r);
	else
		write_head(c, r);
	c->out_at = 0;
	send_rest(c);
}

/* ---- bytes in ---- */

static int on_begin(struct http_parser *p)
{
	struct http_conn *c = p->data;
	struct http_server *s = c->s;
	c->r = request_new(s);
	c->r->c = c;
	c->keep = c->complete = false;
	http_conn_move(s, c, LIST_READING, s->now_ms + s->lim.request_timeout_ms);
	return 0;
}

static int on_url(struct http_parser *p, const char *at, size_t n)
{
	struct http_conn *c = p->data;
	if (request_uri_piece(c->r, at, n))
		return 0;
	request_refuse_head(c->r);
	return -1;
}

static int header_piece(struct http_conn *c, bool value, const char *at, size_t n)
{
	if (c->r->phase != PHASE_LINE)
		return 0; /* a trailer of a chunked body: read, not used */
	if (request_header_piece(c->r, value, at, n))
		return 0;
	request_refuse_head(c->r);
	return -1;
}

static int on_field(struct http_parser *p, const char *at, size_t n)
{
	return header_piece(p->data, false, at, n);
}

static int on_value(struct http_parser *p, const char *at, size_t n)
{
	return header_piece(p->data, true, at, n);
}

static int on_headers(struct http_parser *p)
{
	struct http_conn *c = p->data;
	struct http_req *r = c->r;
	p->upgrade = 0; /* neither upgrades nor CONNECT are taken */
	if (p->http_major != 1) {
		answer_problem(r, DLQ_BAD_REQUEST, "HTTP/%d.%d is not spoken here, but HTTP/1.1", p->http_major, p->http_minor);
		r->close_after = true;
		return -1;
	}
	const char *why;
	enum dlq_code code = request_framing(r, p->http_minor, &why);
	if (code) {
		answer_problem(r, code, "%s", why);
		r->close_after = true;
		return -1;
	}
	if (!request_first(r, http_method_str(p->method)))
		return -1;
	if (r->expect.n && p->http_minor > 0 && !r->answered && r->content_length != 0) {
		static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
		struct iovec iov = {(char *)go, sizeof go - 1};
		if (send_some(c, &iov, 1) != (ssize_t)iov.iov_len)
			return -1; /* nothing was sent before: a full buffer means a broken client */
	}
	return 0;
}

/* http_parser takes any two bytes for the CR LF behind a chunk: they are looked at here. at is where they go on. */
static bool chunk_ends(struct http_conn *c, const char *at)
{
	for (; c->chunk_end && at < c->end; at++) {
		if (*at != "\n\r"[--c->chunk_end]) {
			if (!c->r->answered)
				answer_problem(c->r, DLQ_BAD_REQUEST, "a chunk does not end where its size says");
			return false;
		}
	}
	return true;
}

static int on_body(struct http_parser *p, const char *at, size_t n)
{
	struct http_conn *c = p->data;
	if (!request_data(c->r, at, n))
		return -1;
	if (!(p->flags & F_CHUNKED) || p->content_length)
		return 0;
	c->chunk_end = 2;
	return chunk_ends(c, at + n) ? 0 : -1;
}

static int on_complete(struct http_parser *p)
{
	struct http_conn *c = p->data;
	c->complete = true;
	c->keep = http_should_keep_alive(p);
	http_parser_pause(p, 1); /* what follows is the next request's */
	return 0;
}

static const struct http_parser_settings parser_settings = {
	.on_message_begin = on_begin, .on_url = on_url, .on_header_field = on_field, .on_header_value = on_value,
	.on_headers_complete = on_headers, .on_body = on_body, .on_message_complete = on_complete,
};

/* Not HTTP, or refused before its end: answered, then the connection ends. */
static void broken(struct http_conn *c)
{
	struct http_req *r = c->r;
	c->stop = true;
	if (!r) {
		r = c->r = request_new(c->s);
		r->c = c;
	}
	if (!r->answered)
		answer_problem(r, DLQ_BAD_REQUEST, "this is not HTTP/1.1: %s", http_errno_description(c->parser.http_errno));
	r->close_after = true;
	http_conn_answer(r);
}

/* Parses up to the end of one request; the number of bytes used. */
static size_t parse(struct http_conn *c, const char *p, size_t n)
{
	c->end = p + n;
	if (!chunk_ends(c, p)) {
		broken(c);
		return n;
	}
	size_t used = http_parser_execute(&c->parser, &parser_settings, p, n);
	if (c->complete) {
		c->complete = false;
		http_parser_pause(&c->parser, 0);
		request_complete(c->r);
	} else if (c->parser.http_errno != HPE_OK) {
		broken(c);
		return n;
	}
	return used;
}

static bool may_read(const struct http_conn *c)
{
	return c->list != LIST_DEAD && (!c->r || c->r->phase == PHASE_LINE || c->r->phase == PHASE_BODY);
}

/* Parses what was received before. */
static void parse_kept(struct http_conn *c)
{
	size_t used = 0;
	while (used < c->in.n && may_read(c) && !c->stop)
		used += parse(c, c->in.p + used, c->in.n - used);
	if (c->stop || c->list == LIST_DEAD || used >= c->in.n) {
		buf_release(&c->in);
	} else {
		memmove(c->in.p, c->in.p + used, c->in.n - used);
		c->in.n -= used;
	}
}

static void take_bytes(struct http_conn *c, const char *p, size_t n)
{
	size_t used = 0;
	if (c->stop)
		return; /* lingering: thrown away */
	while (used < n && may_read(c) && !c->stop)
		used += parse(c, p + used, n - used);
	if (used < n && !c->stop && c->list != LIST_DEAD)
		buf_add(&c->in, p + used, n - used);
}

static ssize_t receive_some(struct http_conn *c, char *p, size_t n)
{
	return c->tls ? tls_recv(c->tls, p, n) : recv(c->fd, p, n, MSG_DONTWAIT);
}

void http_conn_go_on(struct http_conn *c)
{
	struct http_server *s = c->s;
	if (c->list != LIST_DEAD && c->in.n)
		parse_kept(c);
	for (int i = 0; c->readable && may_read(c) && !c->in.n; i++) {
		if (i == TURN_READS) {
			again(c);
			return;
		}
		ssize_t n = receive_some(c, s->scratch, sizeof s->scratch);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			c->readable = false;
			return;
		}
		if (n <= 0) {
			http_conn_close(c);
			return;
		}
		/* Less than asked for: drained; the next bytes make a new edge. The end of input was told with an edge before. */
		if ((size_t)n < sizeof s->scratch && !c->tls && !c->hup)
			c->readable = false;
		take_bytes(c, s->scratch, (size_t)n);
	}
}

void http_conn_event(struct http_conn *c, uint32_t events)
{
	if (c->list == LIST_DEAD)
		return;
	if (c->tls || (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		c->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->hup = true;
	if (c->hup && c->list == LIST_PARKED) { /* nobody waits for this receive any more */
		http_conn_close(c);
		return;
	}
	if ((events & EPOLLOUT) && c->list == LIST_WRITING)
		send_rest(c);
	if (c->list != LIST_DEAD)
		http_conn_go_on(c);
}

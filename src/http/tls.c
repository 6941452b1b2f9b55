/* TLS by GnuTLS, as two calls that behave like recv and send on a socket that does not block. */
#include <errno.h>
#include <gnutls/gnutls.h>

#include "http/http.h"

struct tls_server {
	gnutls_certificate_credentials_t cred;
	gnutls_priority_t priority;
};

struct tls_conn {
	gnutls_session_t session;
	bool shaken;
	size_t retry; /* bytes of the send that must be repeated as it was */
};

enum dlq_code tls_server_new(const char *cert, const char *key, struct tls_server **out, struct dlq_err *err)
{
	struct tls_server *t = mem_alloc(sizeof *t);
	gnutls_datum_t c = {(unsigned char *)cert, (unsigned)str_of(cert).n}, k = {(unsigned char *)key, (unsigned)str_of(key).n};
	int rc = gnutls_certificate_allocate_credentials(&t->cred);
	if (rc == 0)
		rc = gnutls_certificate_set_x509_key_mem(t->cred, &c, &k, GNUTLS_X509_FMT_PEM);
	if (rc >= 0)
		rc = gnutls_priority_init(&t->priority, "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1", NULL);
	if (rc < 0) {
		tls_server_free(t);
		return err_set(err, DLQ_INVALID_SETTING, "tls: the certificate or the key cannot be used: %s", gnutls_strerror(rc));
	}
	*out = t;
	return DLQ_OK;
}

void tls_server_free(struct tls_server *t)
{
	if (!t)
		return;
	if (t->priority)
		gnutls_priority_deinit(t->priority);
	if (t->cred)
		gnutls_certificate_free_credentials(t->cred);
	mem_free(t);
}

struct tls_conn *tls_conn_new(struct tls_server *t, int fd)
{
	struct tls_conn *c = mem_alloc(sizeof *c);
	ASSERT(gnutls_init(&c->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) == 0);
	gnutls_priority_set(c->session, t->priority);
	gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, t->cred);
	gnutls_certificate_server_set_request(c->session, GNUTLS_CERT_IGNORE);
	gnutls_handshake_set_timeout(c->session, GNUTLS_INDEFINITE_TIMEOUT); /* the loop's deadlines bound it */
	gnutls_transport_set_int(c->session, fd);
	return c;
}

void tls_conn_free(struct tls_conn *c)
{
	if (!c)
		return;
	if (c->shaken)
		gnutls_bye(c->session, GNUTLS_SHUT_WR); /* best effort, does not wait */
	gnutls_deinit(c->session);
	mem_free(c);
}

static ssize_t failed(ssize_t rc)
{
	if (rc == GNUTLS_E_AGAIN)
		errno = EAGAIN;
	else if (rc == GNUTLS_E_INTERRUPTED)
		errno = EINTR;
	else
		errno = EPROTO;
	return -1;
}

ssize_t tls_recv(struct tls_conn *c, void *p, size_t n)
{
	ssize_t rc;
	if (!c->shaken) {
		do
			rc = gnutls_handshake(c->session);
		while (rc < 0 && rc != GNUTLS_E_AGAIN && rc != GNUTLS_E_INTERRUPTED && !gnutls_error_is_fatal((int)rc));
		if (rc < 0)
			return failed(rc);
		c->shaken = true;
	}
	do
		rc = gnutls_record_recv(c->session, p, n);
	while (rc < 0 && rc != GNUTLS_E_AGAIN && rc != GNUTLS_E_INTERRUPTED && !gnutls_error_is_fatal((int)rc));
	return rc < 0 ? failed(rc) : rc;
}

ssize_t tls_send(struct tls_conn *c, const void *p, size_t n)
{
	/* After E_AGAIN GnuTLS holds the record itself and wants to be called with nothing. */
	ssize_t rc = c->retry ? gnutls_record_send(c->session, NULL, 0) : gnutls_record_send(c->session, p, n);
	if (rc >= 0) {
		c->retry = 0;
		return rc;
	}
	if (rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED)
		c->retry = n;
	return failed(rc);
}

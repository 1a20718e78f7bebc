"""A mail server of aiosmtpd. It prints its port, then one line of JSON for each e-mail. It refuses some receivers by their names.

Its arguments are a password, then `plain`, or `starttls` or `tls` with the files of a certificate and of its key.
"""

import asyncio, email, email.policy, json, ssl, sys

from aiosmtpd.smtp import SMTP, AuthResult

PASSWORD, MODE, FILES = sys.argv[1].encode(), sys.argv[2], sys.argv[3:]
ASKED = {}


class Desk:
    async def handle_RCPT(self, server, session, envelope, address, options):
        ASKED[address] = ASKED.get(address, 0) + 1
        if address.startswith("nobody"):
            return "550 no such user"
        if address.startswith("busy") and ASKED[address] < 3:
            return "451 the mailbox is busy"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        print(json.dumps({
            "tls": server.transport.get_extra_info("ssl_object") is not None,
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "headers": [[name, str(value)] for name, value in message.items()],
            "body": message.get_content(),
        }), flush=True)
        return "250 taken"


def authenticated(server, session, envelope, mechanism, data):
    known = data.login == b"ada" and data.password == PASSWORD
    return AuthResult(success=known, handled=False)


async def main():
    context = None
    if FILES:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*FILES)
    changes = MODE == "starttls"
    # The class knows of TLS only where it has changed to it itself.
    make = lambda: SMTP(
        Desk(), authenticator=authenticated, auth_required=True, auth_require_tls=changes,
        tls_context=context if changes else None, require_starttls=changes,
    )
    begins = context if MODE == "tls" else None
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=begins)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())

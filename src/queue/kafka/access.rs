//! The access gives librdkafka, for every client of Kafka, the terms of encryption and the login.

use std::fs::File;

use rdkafka::config::ClientConfig;

use crate::{
    model::server_access::{Mechanism, Pem, Protocol, ServerAccess},
    queue::Error,
};

/// Sets the properties.
pub(super) fn set(config: &mut ClientConfig, access: &ServerAccess, mechanism: Mechanism) {
    let protocol = Protocol::of(access);
    if protocol == Protocol::Plaintext {
        return;
    }
    config.set("security.protocol", protocol.name());
    if let Some(login) = &access.login {
        config
            .set("sasl.mechanism", mechanism.name())
            .set("sasl.username", &login.user)
            .set("sasl.password", &login.password);
    }
    let Some(tls) = &access.tls else {
        return;
    };
    // Without it OpenSSL believes the authorities of the machine, or those in the file that SSL_CERT_FILE names.
    if let Some(pem) = &tls.authorities {
        set_pem(config, ["ssl.ca.location", "ssl.ca.pem"], pem);
    }
    if let Some(identity) = &tls.identity {
        let certificate = ["ssl.certificate.location", "ssl.certificate.pem"];
        set_pem(config, certificate, &identity.certificate);
        set_pem(config, ["ssl.key.location", "ssl.key.pem"], &identity.key);
    }
}

fn set_pem(config: &mut ClientConfig, [location, text]: [&str; 2], pem: &Pem) {
    match pem {
        Pem::File(path) => config.set(location, path.display().to_string()),
        Pem::Text(pem) => config.set(text, pem),
    };
}

/// Refuses files that cannot be opened, by the names of their settings. Mistakes inside them are told by librdkafka.
pub(super) fn check(access: &ServerAccess) -> Result<(), Error> {
    let Some(tls) = &access.tls else {
        return Ok(());
    };
    let identity = tls.identity.as_ref();
    let files = [
        ("kafka_ca", tls.authorities.as_ref()),
        ("kafka_cert", identity.map(|identity| &identity.certificate)),
        ("kafka_key", identity.map(|identity| &identity.key)),
    ];
    for (setting, pem) in files {
        let Some(Pem::File(path)) = pem else {
            continue;
        };
        File::open(path).map_err(|error| Error::Unsuitable {
            reason: format!("{setting}: {} cannot be read: {error}", path.display()),
        })?;
    }
    Ok(())
}

/// Tells whether a broker refuses the certificate of this client, or that it has none.
pub(super) fn is_about_certificate(said: &str) -> bool {
    said.contains(" alert ") && said.contains("certificate")
}

/// Returns what may help when librdkafka says this about a connection.
pub(super) fn advice(said: &str) -> &'static str {
    let has = |words: &str| said.contains(words);
    if has("certificate could not be verified") || has("certificate verify failed") {
        "; the authority of the brokers is not known here: name its file in kafka_ca"
    } else if has("Disconnected") && (has("APIVERSION_QUERY") || has("might require SASL")) {
        "; if the brokers want TLS or a login, set kafka_ca, kafka_user or kafka_security_protocol"
    } else if has("mechanism") && (has("nsupported") || has("not enabled")) {
        "; set kafka_sasl_mechanism to one that the brokers have"
    } else if has("SASL") {
        "; check kafka_user and kafka_password_file"
    } else if has("wrong version number") || has("packet length too long") {
        "; the brokers do not speak TLS at this port: leave out kafka_ca, or set kafka_security_protocol"
    } else if is_about_certificate(said) {
        "; if the brokers want a certificate of their clients, set kafka_cert and kafka_key"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those of librdkafka 2.12 at a real broker.
    #[test]
    fn what_librdkafka_says_is_answered_by_the_setting_to_change() {
        for (said, setting) in [
            (
                "sasl_ssl://a:1/1: SASL authentication error: Authentication failed during authentication due to invalid \
                 credentials with SASL mechanism SCRAM-SHA-512 (after 312ms in state AUTH_REQ)",
                "kafka_password_file",
            ),
            (
                "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could not \
                 be verified, verify that ssl.ca.location is correctly configured",
                "kafka_ca",
            ),
            (
                "127.0.0.1:1/bootstrap: Disconnected: connection closed by peer: receive 0 after POLLIN (after 39ms in state \
                 APIVERSION_QUERY)",
                "kafka_security_protocol",
            ),
            (
                "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: \
                 SCRAM-SHA-512,SCRAM-SHA-256 (after 306ms in state AUTH_HANDSHAKE)",
                "kafka_sasl_mechanism",
            ),
            (
                "Receive failed: error:0A000412:SSL routines::sslv3 alert bad certificate: SSL alert number 42 (after 5ms in \
                 state APIVERSION_QUERY)",
                "kafka_cert",
            ),
        ] {
            let advice = advice(said);
            assert!(advice.contains(setting), "{said}{advice}");
        }
        assert_eq!(advice("Connect to a:1 failed: Connection refused"), "");
    }
}

//! These tests send requests that nobody would write by hand, for the robustness of the conversions.
//!
//! None of them panics, and none is answered as a fault of the service.

use proptest::prelude::*;

use super::request_tests::{NOW, read};
use crate::model::time::Millis;

/// A valid request to mutilate.
const SEED: &str = r#"{"callback":{"name":"c"},"kafka":{"topic":"t","headers":[{"name":"a","value":"b"}]},
"start_time":"2030-01-01T00:00:00Z","delay":"90s","payload":{"a":[1,2.5,"x\n"]},"retry":{"factor":2,"max":"1m"},
"labels":{"k":"v"},"max_attempts":3}"#;

proptest! {
    #[test]
    fn no_mutation_of_a_request_panics_or_blames_the_service(
        edits in proptest::collection::vec((0..SEED.len(), any::<u8>(), 0..4u8), 1..12),
    ) {
        let mut bytes = SEED.as_bytes().to_vec();
        for (at, byte, kind) in edits {
            let at = at.min(bytes.len().saturating_sub(1));
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"{}[]\",:\\9-eE.tfn"[usize::from(byte) % 16]),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = read(&text) {
            prop_assert!(error.code.status().is_client_error());
            prop_assert!(!error.detail.is_empty());
        }
    }

    #[test]
    fn no_text_for_a_time_or_duration_panics(text in any::<String>()) {
        let request = serde_json::json!({"callback": "c", "delay": text});
        if let Ok(task) = read(&request.to_string()) {
            prop_assert!(task.start >= NOW && task.start <= Millis::MAX);
        }
        let request = serde_json::json!({"callback": "c", "start_time": text});
        if let Ok(task) = read(&request.to_string()) {
            prop_assert!(task.start >= NOW && task.start <= Millis::MAX);
        }
    }
}

//! Config files.

use tickwheel::config::{Settings, print_default};

use super::run::Target;

#[test]
fn config_files() {
    // Every key is there, as a comment with its default: taken out of the comments they are a file.
    let keys = print_default()
        .lines()
        .filter_map(|line| line.strip_prefix('#').map(str::trim))
        .filter(|line| {
            line.split_once(" = ")
                .is_some_and(|(key, _)| !key.contains(' '))
        })
        .fold(String::new(), |text, line| text + line + "\n");
    assert!(keys.lines().count() > 10, "{keys}");
    let target = Target {
        name: "config",
        samples: vec![
            keys.into_bytes(),
            b"tick = \"250ms\"\nroles = [\"api\", \"scanner\"]\n".to_vec(),
        ],
        words: &[
            "[",
            "]",
            "=",
            "\"",
            "\"\"\"",
            "'",
            "#",
            "\n",
            "[[a]]",
            "{a=1}",
            "inf",
            "1979-05-27",
            "0x",
        ],
        // A file is read once, at a start, and its complaints quote it.
        bytes_max: (512 * 1024, 512),
        seconds: 2,
    };
    target.run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        match Settings::from_file("tickwheel.toml", &text) {
            Ok(settings) => {
                // It is whatever it is, and does not fail later.
                drop(settings.shape());
                true
            }
            Err(invalid) => {
                assert!(!invalid.to_string().is_empty());
                false
            }
        }
    });
}

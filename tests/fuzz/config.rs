//! This target damages config files.

use tickwheel::config::{Settings, print_default};

use super::run::Target;

#[test]
fn config_files() {
    // The default file has every key in a comment with its default; without the comment marks
    // these lines are a file.
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
        // A file is read once, at a start, and the messages about its errors quote it.
        bytes_max: (512 * 1024, 512),
        seconds: 2,
    };
    target.run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        match Settings::from_file("tickwheel.toml", &text) {
            Ok(settings) => {
                // Any accepted value is fine as long as this does not fail later.
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

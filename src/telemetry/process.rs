//! The figures of the process tell operators what it takes of its machine: processors, memory, open files.
//!
//! They are read from `/proc` whenever somebody asks for metrics, so they cost nothing in between. Where there is no `/proc`,
//! they are left out. Their names are those that every program has for Prometheus.

use std::{fmt::Write as _, fs};

use super::table::{METRICS, Metric};

/// Parts of a second in which Linux tells the time of processors. The kernel shows this number to programs on every machine
/// that this program is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// The figures as they were read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Figures {
    cpu_seconds: f64,
    /// Since 1970.
    start_seconds: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    open_files: f64,
    open_files_max: f64,
    threads: f64,
}

/// Returns the figures in the text format of Prometheus; empty where the system does not tell them.
#[must_use]
pub fn render() -> String {
    let read = |path: &str| fs::read_to_string(path).ok();
    let found = || {
        let (own, system) = (read("/proc/self/stat")?, read("/proc/stat")?);
        let (status, limits) = (read("/proc/self/status")?, read("/proc/self/limits")?);
        // The folder itself is open while it is read.
        let open = fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1);
        figures(&own, &system, &status, &limits, open)
    };
    found().map_or_else(String::new, |figures| text(&figures))
}

/// Reads the files of the system; none when one has another form.
fn figures(own: &str, system: &str, status: &str, limits: &str, open: usize) -> Option<Figures> {
    // The name of the program is in brackets and may contain anything, brackets too. The third field follows it.
    let fields: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let kibibytes = |name| Some(1024.0 * number_behind(status, name)?);
    let booted = number_behind(system, "btime")?;
    Some(Figures {
        cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
        start_seconds: booted + field(22)? / TICKS_PER_SECOND,
        resident_bytes: kibibytes("VmRSS:")?,
        virtual_bytes: kibibytes("VmSize:")?,
        open_files: open as f64,
        // A process without a bound has no number there.
        open_files_max: number_behind(limits, "Max open files").unwrap_or(f64::INFINITY),
        threads: field(20)?,
    })
}

/// Returns the number that follows a name at the beginning of a line.
fn number_behind(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn text(figures: &Figures) -> String {
    let mut text = String::new();
    for metric in METRICS.iter().filter(|metric| metric.is_of_the_process()) {
        let Some(value) = value(figures, metric) else {
            continue;
        };
        let (name, help, kind) = (metric.name, metric.help, metric.kind.name());
        let lines = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        text.push_str(&lines);
        let value = if value.is_infinite() {
            "+Inf".to_owned()
        } else {
            value.to_string()
        };
        // Writing to a string does not fail.
        writeln!(text, "{name} {value}\n").ok();
    }
    text
}

fn value(figures: &Figures, metric: &Metric) -> Option<f64> {
    Some(match metric.name {
        "process_cpu_seconds_total" => figures.cpu_seconds,
        "process_start_time_seconds" => figures.start_seconds,
        "process_resident_memory_bytes" => figures.resident_bytes,
        "process_virtual_memory_bytes" => figures.virtual_bytes,
        "process_open_fds" => figures.open_files,
        "process_max_fds" => figures.open_files_max,
        "process_threads" => figures.threads,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program is called `a) R 1`.
    const OWN: &str = "32356 (a) R 1) S 32342 32342 26114 0 -1 4194304 117 0 0 0 250 150 0 0 20 0 7 0 332100 3133440 358 0";
    const LIMITS: &str = "Limit Soft Limit Hard Limit Units\nMax open files 1024 4096 files\n";
    const STATUS: &str = "Name:\ta\nVmSize:\t  2048 kB\nVmRSS:\t    64 kB\n";

    #[test]
    fn the_files_of_the_system_are_read() {
        let found = figures(OWN, "cpu 1 2\nbtime 1000\n", STATUS, LIMITS, 9);
        let expected = Figures {
            cpu_seconds: 4.0,
            start_seconds: 4321.0,
            resident_bytes: 65_536.0,
            virtual_bytes: 2_097_152.0,
            open_files: 9.0,
            open_files_max: 1024.0,
            threads: 7.0,
        };
        assert_eq!(found, Some(expected));
        let unlimited = LIMITS.replace("1024", "unlimited");
        let found = figures(OWN, "btime 1000\n", STATUS, &unlimited, 9).unwrap();
        assert!(text(&found).contains("process_max_fds +Inf\n"));
        assert_eq!(figures(OWN, "", STATUS, LIMITS, 9), None);
    }

    #[test]
    fn every_figure_of_the_table_is_written() {
        let text = text(&Figures::default());
        for metric in METRICS.iter().filter(|metric| metric.is_of_the_process()) {
            assert!(text.contains(&format!("\n{} 0\n", metric.name)), "{text}");
        }
    }
}

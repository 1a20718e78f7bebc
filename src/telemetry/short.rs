//! The short format writes log lines for a person who watches a service on their own machine.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// The format `12:00:01.003  fired  task=.. callback=echo late_ms=1`; the level appears only from warnings
/// on.
pub(super) struct Short;

impl<S, N> FormatEvent<S, N> for Short
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = jiff::Zoned::now();
        write!(writer, "{}  ", now.strftime("%H:%M:%S%.3f"))?;
        let level = *event.metadata().level();
        if level <= Level::WARN {
            write!(writer, "{level}  ")?;
        }
        ctx.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

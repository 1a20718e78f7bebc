//! The check for what is the service's own keeps clients and workers from the callbacks and tasks of the service.
//!
//! Clients may read internal tasks, and nothing else: their work is what the service promised to others.

use crate::{
    http::error::{Code, Error},
    model::{
        callback::{RESERVED_PREFIX, is_reserved},
        ids::TaskId,
    },
};

/// Refuses the name of a callback of the service's own, which the field at `pointer` has.
///
/// # Errors
/// [`Code::Reserved`].
pub(in crate::http) fn refuse_callback(pointer: &str, name: &str) -> Result<(), Error> {
    if !is_reserved(name) {
        return Ok(());
    }
    let detail = format!(
        "callbacks whose names begin with `{RESERVED_PREFIX}` are the service's own: use another name"
    );
    Err(Error::field(Code::Reserved, pointer, detail))
}

/// Refuses a task of the service's own, and returns others.
///
/// # Errors
/// [`Code::Reserved`].
pub(in crate::http) fn refuse_task(id: TaskId) -> Result<TaskId, Error> {
    if !id.is_internal() {
        return Ok(id);
    }
    let detail = format!("task {id} is the service's own: it can be read, and not be changed");
    Err(Error::new(Code::Reserved, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{time::Millis, wheel::WheelNumber};

    #[test]
    fn only_what_is_the_services_own_is_refused() {
        assert!(refuse_callback("/callback", "tickwheel").is_ok());
        let error = refuse_callback("/callback", "tickwheel.notify").unwrap_err();
        assert_eq!(
            (error.code, error.code.status().as_u16()),
            (Code::Reserved, 403)
        );
        let wheel = WheelNumber::from_low_bits(0);
        assert!(refuse_task(TaskId::new(Millis(1), wheel, u64::MAX)).is_ok());
        let own = TaskId::internal(Millis(1), wheel, 7);
        assert_eq!(refuse_task(own).unwrap_err().code, Code::Reserved);
    }
}

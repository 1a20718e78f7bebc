//! These letters are the e-mails of a simulated service: a mailer in memory, which fails as it is told. An e-mail whose subject
//! begins with "silent" is never answered.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use tickwheel::{
    app::executor::mail::{Mailed, Mailer},
    model::{email::Email, ids::TaskId},
};

#[derive(Debug, Default, Clone)]
pub(crate) struct Letters(Arc<Mutex<Desk>>);

#[derive(Debug, Default)]
struct Desk {
    taken: Vec<(TaskId, Email)>,
    answers: VecDeque<Mailed>,
}

impl Letters {
    /// The e-mails that were taken, with their names.
    pub(crate) fn taken(&self) -> Vec<(TaskId, Email)> {
        self.0.lock().unwrap().taken.clone()
    }

    /// Gives these answers to the next e-mails, and takes none of these.
    pub(crate) fn answer(&self, answers: impl IntoIterator<Item = Mailed>) {
        self.0.lock().unwrap().answers.extend(answers);
    }
}

#[async_trait]
impl Mailer for Letters {
    async fn send(&self, name: TaskId, email: &Email) -> Mailed {
        if email.subject.starts_with("silent") {
            return std::future::pending().await;
        }
        let mut desk = self.0.lock().unwrap();
        if let Some(answer) = desk.answers.pop_front() {
            return answer;
        }
        desk.taken.push((name, email.clone()));
        Mailed::Taken
    }
}

//! I5: the number of an attempt, which is the fencing token for workers, grows with every claim.
//! (Chubby's sequencers.)

use super::{Ended, Findings};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for (id, story) in &ended.history.stories {
        for one in &story.claims {
            for other in &story.claims {
                if one.answered < other.asked && one.attempt >= other.attempt {
                    let (a, b) = (one.attempt, other.attempt);
                    findings.add(format!(
                        "task {id}: attempt {b} was claimed after attempt {a} was"
                    ));
                }
            }
        }
        let row = ended.contents.rows.get(id);
        let highest = story
            .claims
            .iter()
            .map(|claim| claim.attempt)
            .max()
            .unwrap_or(0);
        if row.is_some_and(|row| row.attempt < highest) {
            findings.add(format!(
                "task {id}: attempt {highest} was claimed, the row went back"
            ));
        }
    }
}

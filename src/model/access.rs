//! The access rules decide for the API which caller may do what.
//!
//! A key has a role, and the role allows certain [`Need`]s. A key may be limited to some callbacks. Then it reads, registers and
//! runs only their tasks. The text of a key is `twk_<id>_<secret>`: the id finds its record, the secret is 256 random bits. Only
//! a hash of the secret is kept; a slower hash would add nothing for a secret that cannot be guessed.

use std::{collections::BTreeSet, fmt, time::Duration};

use super::{limit::Rate, time::Millis};

/// The beginning of every key, by which tools that search for leaked secrets find it.
const MARK: &str = "twk_";

/// Bytes of a secret, and of its hash.
pub const SECRET_BYTES: usize = 32;

/// The role of a key; numbers are what records keep, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads everything, without payloads unless its key says so.
    Viewer = 1,
    /// Registers, reads, cancels and moves tasks.
    Producer = 2,
    /// Runs tasks.
    Worker = 3,
    /// Looks after the service: tasks, gates, schedules, dead letters, jobs.
    Operator = 4,
    /// May do everything, keys included.
    Admin = 5,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [
        Self::Viewer,
        Self::Producer,
        Self::Worker,
        Self::Operator,
        Self::Admin,
    ];

    /// Returns the number that records keep.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.number() == number)
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Tells whether a caller of this role may make a call with this need.
    #[must_use]
    pub const fn may(self, need: Need) -> bool {
        match need {
            Need::Nothing | Need::Key => true,
            Need::Read => !matches!(self, Self::Worker),
            Need::Look | Need::Monitor => {
                matches!(self, Self::Viewer | Self::Operator | Self::Admin)
            }
            Need::Produce => matches!(self, Self::Producer | Self::Operator | Self::Admin),
            Need::Work => matches!(self, Self::Worker | Self::Admin),
            Need::Operate => matches!(self, Self::Operator | Self::Admin),
            Need::Administer => matches!(self, Self::Admin),
        }
    }
}

/// The right that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// None: probes and descriptions, which tell nothing of what is kept.
    Nothing,
    /// Any key.
    Key,
    /// Reading tasks and callbacks.
    Read,
    /// Reading what concerns the whole: figures, jobs, schedules, dead letters.
    Look,
    /// Reading metrics, also while the store is away.
    Monitor,
    /// Registering and changing tasks.
    Produce,
    /// Running tasks.
    Work,
    /// Changing what concerns many tasks.
    Operate,
    /// Managing keys.
    Administer,
}

impl Need {
    /// Every need.
    pub const ALL: [Self; 9] = [
        Self::Nothing,
        Self::Key,
        Self::Read,
        Self::Look,
        Self::Monitor,
        Self::Produce,
        Self::Work,
        Self::Operate,
        Self::Administer,
    ];

    /// Names the roles that satisfy it.
    #[must_use]
    pub fn roles(self) -> String {
        let able = Role::ALL.into_iter().filter(|role| role.may(self));
        let names: Vec<&str> = able.map(Role::name).collect();
        names.join(", ")
    }
}

/// The public part of a key, which names its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl KeyId {
    /// Reads an id as it is written: 16 small hexadecimal digits.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let is_id = text.len() == 16 && text.bytes().all(is_digit);
        let number = is_id.then(|| u64::from_str_radix(text, 16).ok());
        number.flatten().map(Self)
    }
}

/// A key as its holder has it. Its secret is shown by [`KeyText::reveal`] alone.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText {
    /// The id.
    pub id: KeyId,
    secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}_...", self.id)
    }
}

impl KeyText {
    /// Returns the key with this secret, which must be random.
    #[must_use]
    pub const fn new(id: KeyId, secret: [u8; SECRET_BYTES]) -> Self {
        Self { id, secret }
    }

    /// Reads a key.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (id, digits) = text.strip_prefix(MARK)?.split_once('_')?;
        if digits.len() != SECRET_BYTES * 2 || !digits.bytes().all(is_digit) {
            return None;
        }
        let mut secret = [0; SECRET_BYTES];
        for (byte, at) in secret.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
        }
        let id = KeyId::read(id)?;
        Some(Self { id, secret })
    }

    /// Returns the secret, for its hash.
    #[must_use]
    pub const fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }

    /// Returns the whole key, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> String {
        let digits = self.secret.iter().map(|byte| format!("{byte:02x}"));
        let digits: String = digits.collect();
        format!("{MARK}{}_{digits}", self.id)
    }
}

const fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// A key as the service keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The name, for people.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The callbacks that it is limited to; empty is all.
    pub callbacks: BTreeSet<String>,
    /// Whether a viewer sees payloads.
    pub payloads: bool,
    /// How many calls it may make at each node; none is without a limit of its own.
    pub rate: Option<Rate>,
    /// When it was made.
    pub created: Millis,
    /// From when on it is refused; none is never.
    pub expires: Option<Millis>,
    /// The hash of its secret.
    pub hash: [u8; SECRET_BYTES],
}

impl ApiKey {
    /// Tells whether it is refused at `now` because of its age.
    #[must_use]
    pub fn has_expired(&self, now: Millis) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// Tells whether a hash is that of its secret. The time it takes does not depend on where they differ.
    #[must_use]
    pub fn matches(&self, hash: &[u8; SECRET_BYTES]) -> bool {
        let pairs = self.hash.iter().zip(hash);
        let different = pairs.fold(0, |sum, (one, other)| sum | (one ^ other));
        std::hint::black_box(different) == 0
    }

    /// Tells whether it may do something with tasks of a callback.
    #[must_use]
    pub fn covers(&self, callback: &str) -> bool {
        self.callbacks.is_empty() || self.callbacks.contains(callback)
    }

    /// Tells whether it sees payloads.
    #[must_use]
    pub const fn sees_payloads(&self) -> bool {
        self.payloads || !matches!(self.role, Role::Viewer)
    }

    /// Tells whether it sees credentials that tasks, callbacks and schedules send to others: it may set them, and reads before it
    /// replaces.
    #[must_use]
    pub const fn sees_credentials(&self) -> bool {
        self.role.may(Need::Operate)
    }
}

/// The use of a rate so far: the time at which all that was used is paid back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used(Duration);

impl Used {
    /// Uses one call at `now`, or returns how long to wait for the next one.
    ///
    /// # Errors
    /// The wait; nothing is used then.
    pub fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let paid_back = self.0.max(now) + rate.interval();
        let credit = rate.interval() * rate.burst().max(1);
        let wait = paid_back.saturating_sub(now + credit);
        if wait.is_zero() {
            self.0 = paid_back;
            return Ok(());
        }
        Err(wait)
    }

    /// Tells whether it can be forgotten: everything is paid back.
    #[must_use]
    pub fn is_paid_back(&self, now: Duration) -> bool {
        self.0 <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(role: Role) -> ApiKey {
        ApiKey {
            name: "n".to_owned(),
            role,
            callbacks: BTreeSet::new(),
            payloads: false,
            rate: None,
            created: Millis(1),
            expires: None,
            hash: [7; SECRET_BYTES],
        }
    }

    #[test]
    fn each_role_may_do_what_its_name_says_and_no_more() {
        let can = |role: Role| {
            let needs = Need::ALL.into_iter().filter(|need| role.may(*need));
            needs.skip(2).collect::<Vec<_>>()
        };
        use Need::{Administer, Look, Monitor, Operate, Produce, Read, Work};
        assert_eq!(can(Role::Viewer), [Read, Look, Monitor]);
        assert_eq!(can(Role::Producer), [Read, Produce]);
        assert_eq!(can(Role::Worker), [Work]);
        assert_eq!(can(Role::Operator), [Read, Look, Monitor, Produce, Operate]);
        let all = [Read, Look, Monitor, Produce, Work, Operate, Administer];
        assert_eq!(can(Role::Admin), all);
        assert_eq!(Administer.roles(), "admin");
        assert_eq!(Work.roles(), "worker, admin");
        for role in Role::ALL {
            assert!(role.may(Need::Nothing) && role.may(Need::Key));
            assert_eq!(Role::from_number(role.number()), Some(role));
        }
        assert_eq!(Role::from_number(0), None);
    }

    #[test]
    fn a_key_is_read_back_and_its_secret_is_not_printed() {
        let text = KeyText::new(KeyId(0xab), [0xcd; SECRET_BYTES]);
        let shown = text.reveal();
        let secret = "cd".repeat(SECRET_BYTES);
        assert_eq!(shown, format!("twk_00000000000000ab_{secret}"));
        assert_eq!(KeyText::read(&shown).unwrap(), text);
        assert_eq!(format!("{text:?}"), "twk_00000000000000ab_...");
        for wrong in [
            "",
            "twk_",
            "twk_ab_cd",
            &shown[1..],
            &shown[..shown.len() - 1],
            &shown.to_uppercase(),
            &format!("{shown}0"),
            &format!("twk_+0000000000000ab_{secret}"),
            &shown.replace("cd", "é"),
        ] {
            assert_eq!(KeyText::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_hash_matches_whole_or_not_at_all() {
        let key = key(Role::Viewer);
        assert!(key.matches(&[7; SECRET_BYTES]));
        for at in 0..SECRET_BYTES {
            let mut other = key.hash;
            other[at] ^= 1;
            assert!(!key.matches(&other), "{at}");
        }
    }

    #[test]
    fn callbacks_expiry_and_payloads_bound_a_key() {
        let viewer = key(Role::Viewer);
        assert!(viewer.covers("any") && !viewer.sees_payloads());
        assert!(key(Role::Operator).sees_payloads());
        let limited = ApiKey {
            callbacks: ["mail".to_owned()].into(),
            payloads: true,
            expires: Some(Millis(10)),
            ..viewer.clone()
        };
        assert!(limited.covers("mail") && !limited.covers("mails") && limited.sees_payloads());
        assert!(!limited.has_expired(Millis(9)) && limited.has_expired(Millis(10)));
        assert!(!viewer.has_expired(Millis::MAX));
    }

    #[test]
    fn a_rate_lets_a_burst_and_then_its_pace_through() {
        let rate = Rate::new(2.0, Some(3)).unwrap();
        let (mut used, half) = (Used::default(), SECOND / 2);
        let now = SECOND * 100;
        for _ in 0..3 {
            assert_eq!(used.take(rate, now), Ok(()));
        }
        assert_eq!(used.take(rate, now), Err(half));
        assert_eq!(used.take(rate, now), Err(half), "a refusal uses nothing");
        assert_eq!(used.take(rate, now + half), Ok(()));
        assert_eq!(used.take(rate, now + half), Err(half));
        assert!(!used.is_paid_back(now + SECOND) && used.is_paid_back(now + SECOND * 2));
        for _ in 0..3 {
            assert_eq!(used.take(rate, now + SECOND * 60), Ok(()));
        }
        assert!(used.take(rate, now + SECOND * 60).is_err());
    }
}

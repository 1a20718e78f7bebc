//! The address rule decides for HTTP deliveries which addresses the service may connect to.
//!
//! A target's URL comes from a client, and the service often stands where more can be reached than the client may reach. So
//! only addresses of the public internet are allowed, unless an operator allows more. The rule is asked about the address that
//! is connected to, behind the resolution of the name. An IPv6 address that stands for an IPv4 address is judged as that one.
//! The ranges are those of the IANA registries for special purposes (RFC 6890 and its updates).

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: IpAddr,
    bits: u8,
}

/// The ranges that an operator allows beside the public internet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed(Vec<Range>);

impl Allowed {
    /// Allows these, too.
    #[must_use]
    pub const fn these(ranges: Vec<Range>) -> Self {
        Self(ranges)
    }

    /// Tells why the service may not connect to an address; none when it may.
    #[must_use]
    pub fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        let real = unwrapped(address);
        let is_allowed = |range: &Range| range.has(real) || range.has(address);
        if self.0.iter().any(is_allowed) {
            return None;
        }
        match real {
            IpAddr::V4(address) => refusal_4(address),
            IpAddr::V6(address) => refusal_6(address),
        }
    }
}

impl Range {
    /// Tells whether an address is in it.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => same(
                u128::from(first.to_bits()),
                u128::from(address.to_bits()),
                32,
                self.bits,
            ),
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                same(first.to_bits(), address.to_bits(), 128, self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Tells whether the first `bits` of two numbers of `width` bits are the same.
const fn same(one: u128, other: u128, width: u32, bits: u8) -> bool {
    let rest = width.saturating_sub(bits as u32);
    rest >= 128 || (one ^ other) >> rest == 0
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a range of addresses such as 10.0.0.0/8 or fd00::/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => width,
            Some(bits) => bits.trim().parse().map_err(|_| wrong())?,
        };
        if bits > width {
            return Err(wrong());
        }
        Ok(Self { first, bits })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// Returns the IPv4 address that an IPv6 address stands for: mapped, compatible, of NAT64 or of 6to4; others as they are.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else {
        return address;
    };
    let [a, b, c, d, e, f, g, h] = six.segments();
    let four = |high: u16, low: u16| {
        IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
    };
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] => four(g, h),
        // The unspecified and the loopback address are no such forms.
        [0, 0, 0, 0, 0, 0] if g != 0 || h > 1 => four(g, h),
        [0x64, 0xff9b, 0, 0, 0, 0] => four(g, h),
        [0x2002, high, low, ..] => four(high, low),
        _ => address,
    }
}

fn refusal_4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Some("a loopback address"),
        (10, ..) | (192, 168, _) => Some("a private address"),
        (172, 16..=31, _) => Some("a private address"),
        (169, 254, _) => Some("a link-local address, among them those of cloud metadata"),
        (100, 64..=127, _) => Some("a shared address of a provider"),
        (0, ..) => Some("an address of this network"),
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) | (198, 18 | 19, _) | (192, 88, 99) => {
            Some("a reserved address")
        }
        (224..=239, ..) => Some("a multicast address"),
        (240..=255, ..) => Some("a reserved address"),
        _ => None,
    }
}

fn refusal_6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        return Some("a loopback address");
    }
    let [a, b, c, ..] = address.segments();
    match (a, b) {
        (0xfe80..=0xfebf, _) => Some("a link-local address"),
        (0xfc00..=0xfdff, _) => Some("a private address, among them those of cloud metadata"),
        (0xff00..=0xffff, _) => Some("a multicast address"),
        // Local NAT64, discard, Teredo and other special purposes, documentation.
        (0x64, 0xff9b) if c == 1 => Some("a private address"),
        (0x2001, 0x0000..=0x01ff | 0x0db8) | (0x3fff, 0x0000..=0x0fff) | (0x0100, _) => {
            Some("a reserved address")
        }
        // Only this range is given out.
        (0x2000..=0x3fff, _) => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, allowed: &[&str]) -> Option<&'static str> {
        let ranges = allowed.iter().map(|range| range.parse().unwrap());
        let address = text.parse().unwrap();
        Allowed::these(ranges.collect()).refusal(address)
    }

    #[test]
    fn the_public_internet_is_open() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "169.253.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2003::1",
        ] {
            assert_eq!(refused(text, &[]), None, "{text}");
        }
    }

    #[test]
    fn what_only_the_service_can_reach_is_closed() {
        for text in [
            "127.0.0.1",
            "127.255.0.3",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
            "fec0::1",
            "4000::1",
            "::2",
        ] {
            assert!(refused(text, &[]).is_some(), "{text}");
        }
    }

    #[test]
    fn an_operator_may_open_more() {
        assert_eq!(refused("10.1.2.3", &["10.0.0.0/8"]), None);
        assert!(refused("11.1.2.3", &["10.0.0.0/8"]).is_none());
        assert!(refused("192.168.0.1", &["10.0.0.0/8", "::/0"]).is_some());
        assert_eq!(refused("::ffff:10.1.2.3", &["10.0.0.0/8"]), None);
        assert_eq!(refused("::1", &["::1"]), None);
        assert_eq!(refused("fd00::7", &["fd00::/8"]), None);
        assert_eq!(refused("127.0.0.1", &["0.0.0.0/0"]), None);
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "x/8",
            "::/129",
            "10.0.0.0/-1",
        ] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
        assert_eq!("fd00::/8".parse::<Range>().unwrap().to_string(), "fd00::/8");
    }
}

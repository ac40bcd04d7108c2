//! Networks whose addresses tell by themselves why nobody answers there.

use crate::rules::findings::Finding;

/// Says so in front of a finding's reason.
pub(super) fn explain(found: &mut Finding, words: &str) {
    if let Some(note) = note(words) {
        found.why = format!("{note}. {}", found.why);
    }
}

/// What an address in a failure's words says of the network that it is of.
fn note(words: &str) -> Option<String> {
    let addresses = words.split(|c: char| !c.is_ascii_digit() && c != '.').map(|word| word.trim_matches('.'));
    addresses.filter_map(|word| Some((word, octets(word)?))).find_map(|(address, octets)| {
        let of = match octets {
            // Docker's default of docker0.
            [172, 17, ..] => "as a rule of Docker's own bridge, which each host has for itself: no other host is reached by it. Choose the interface that joins the hosts",
            // libvirt's default of virbr0.
            [192, 168, 122, _] => "of libvirt's own bridge (virbr0), which each host has for itself: no other host is reached by it. Choose the interface that joins the hosts",
            // The metadata of a cloud's machine, and the DNS of a Kubernetes node.
            [169, 254, 169, 254] | [169, 254, 20, _] => return None,
            // RFC 3927.
            [169, 254, ..] => "one that an interface gives itself where nobody gave it any: no router passes it on. Choose the interface that joins the hosts",
            _ => return None,
        };
        Some(format!("{address} is {of} (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, UCX_NET_DEVICES)"))
    })
}

fn octets(word: &str) -> Option<[u8; 4]> {
    let numbers: Option<Vec<u8>> = word.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::note;

    #[test]
    fn addresses_of_one_host_alone() {
        for (words, network) in [
            ("connect to 172.17.0.1<41234> failed: Connection refused", "Docker's own bridge"),
            ("no answer from 192.168.122.1:29500", "virbr0"),
            ("connect() to 169.254.9.7, port 1024, timed out.", "where nobody gave it any"),
        ] {
            assert!(note(words).is_some_and(|note| note.contains(network)), "{words}");
        }
        for words in ["connect to 10.0.0.7<41234>", "version 172.17.0", "172.170.0.1", "1.172.17.0.1.2", "172.16.0.3:29500"] {
            assert_eq!(note(words), None, "{words}");
        }
    }
}

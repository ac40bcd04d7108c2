//! Lines that a container runtime has cut: `2026-05-05T06:16:47.1Z stdout P text` goes on in the next line of its stream, up to one with F.
//! containerd and CRI-O cut at 16 KiB.

/// The beginnings of lines that go on, by their streams.
#[derive(Clone, Default, PartialEq)]
pub struct Parts([Option<String>; 2]);

/// What a line is.
pub enum Part {
    /// A whole line, or none of a container runtime.
    Whole,
    /// Its end is still to come.
    Begun,
    /// The end of this one.
    Ended(String),
}

/// More of a line is dropped: nothing that a reader knows is longer.
const LONGEST: usize = 64 << 10;

impl Parts {
    pub fn read(&mut self, line: &str) -> Part {
        let Some(cut) = Cut::of(line) else { return Part::Whole };
        let begun = &mut self.0[cut.stream];
        match begun {
            None if cut.goes_on => *begun = Some(format!("{} F {}", cut.head, cut.text)),
            None => return Part::Whole,
            Some(begun) if begun.len() + cut.text.len() <= LONGEST => begun.push_str(cut.text),
            Some(_) => {}
        }
        if cut.goes_on { Part::Begun } else { begun.take().map_or(Part::Whole, Part::Ended) }
    }

    /// Nothing has begun whose end is still to come.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// No more comes: what there is of each.
    pub fn take(&mut self) -> impl Iterator<Item = String> + use<> {
        std::mem::take(&mut self.0).into_iter().flatten()
    }
}

/// One line of a container runtime.
struct Cut<'a> {
    /// 0 is stdout, 1 stderr.
    stream: usize,
    goes_on: bool,
    /// `2026-05-05T06:16:47.1Z stdout`
    head: &'a str,
    text: &'a str,
}

impl<'a> Cut<'a> {
    fn of(line: &'a str) -> Option<Cut<'a>> {
        // RFC 3339 with up to nine decimals and a zone.
        let bytes = line.as_bytes();
        if bytes.get(10) != Some(&b'T') || bytes.get(4) != Some(&b'-') {
            return None;
        }
        let stamp = memchr::memchr(b' ', bytes.get(..bytes.len().min(40))?)?;
        let rest = line.get(stamp + 1..)?;
        let stream = ["stdout ", "stderr "].iter().position(|name| rest.starts_with(name))?;
        let head = stamp + 1 + "stdout".len();
        let rest = line.get(head + 1..)?;
        let (tag, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let goes_on = match tag.split(':').next()? {
            "P" => true,
            "F" => false,
            _ => return None,
        };
        Some(Cut { stream, goes_on, head: &line[..head], text })
    }
}

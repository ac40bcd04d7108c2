//! The fields of a dump, all versions of its layout.

use super::tree::{Tree, Value};
use super::{Dump, DumpError, Entry, Frame, Group, Sizes, State, Status};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Torch keeps 2000 unless it is configured otherwise. Each takes some 300 bytes of memory, and three of a file.
const MAX_ENTRIES: usize = 1 << 17;
/// Of all groups of a dump: 256 groups of 16,384 ranks.
const MAX_MEMBERS: usize = 1 << 22;
/// Of a tensor. Torch itself allows 64.
const MAX_DIMENSIONS: usize = 64;
/// Of an entry, of which torch writes about 24. What is shared a million times must stay small.
const MAX_FIELDS: usize = 256;

pub(super) fn dump(tree: &Tree, root: Value) -> Result<Dump, DumpError> {
    let mut reader = Reader::new(tree);
    let mut dump = Dump::default();
    let mut known = 0;
    // Torch 2.2 writes the entries alone.
    if let Some(entries) = tree.items(root) {
        dump.entries = reader.entries(entries)?;
        return Ok(dump);
    }
    for (key, value) in tree.pairs(root).ok_or(DumpError::NotADump("neither a dict nor a list"))? {
        match key.as_ref() {
            "version" => dump.version = tree.str(value).and_then(|text| version(text)),
            "pg_config" => dump.groups = reader.groups(value)?,
            "pg_status" => dump.status = reader.status(value),
            "entries" => dump.entries = reader.entries(tree.items(value).unwrap_or_default())?,
            "comm_lib_version" | "nccl_version" | "nccl_comm_state" | "host_name" | "rank" => {}
            _ => continue,
        }
        known += 1;
    }
    if known == 0 { Err(DumpError::NotADump("a dict with none of its keys")) } else { Ok(dump) }
}

/// Not a decimal fraction: 2.10 is newer than 2.9.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    Some((major.trim().parse().ok()?, minor.split('.').next()?.trim().parse().ok()?))
}

/// What the file shares, and what is equal, is made once.
struct Reader<'a> {
    tree: &'a Tree,
    sizes: HashMap<u32, Sizes>,
    shapes: HashMap<Vec<i64>, Arc<[i64]>>,
    known_sizes: HashMap<Vec<*const i64>, Sizes>,
    dtypes: HashMap<u32, Arc<[Arc<str>]>>,
    known_dtypes: HashMap<Vec<u32>, Arc<[Arc<str>]>>,
    stacks: HashMap<u32, Arc<[Arc<Frame>]>>,
    frames: HashMap<u32, Arc<Frame>>,
    groups: HashMap<u32, Group>,
    ranks: HashMap<u32, Arc<[u32]>>,
}

impl<'a> Reader<'a> {
    fn new(tree: &'a Tree) -> Reader<'a> {
        Reader {
            tree,
            sizes: HashMap::new(),
            shapes: HashMap::new(),
            known_sizes: HashMap::new(),
            dtypes: HashMap::new(),
            known_dtypes: HashMap::new(),
            stacks: HashMap::new(),
            frames: HashMap::new(),
            groups: HashMap::new(),
            ranks: HashMap::new(),
        }
    }

    fn fields(&self, dict: Value) -> Option<impl Iterator<Item = (&'a Arc<str>, Value)> + use<'a>> {
        Some(self.tree.pairs(dict)?.take(MAX_FIELDS))
    }

    fn entries(&mut self, entries: &[Value]) -> Result<Vec<Entry>, DumpError> {
        if entries.len() > MAX_ENTRIES {
            return Err(DumpError::NotADump("more than a million entries"));
        }
        entries.iter().map(|entry| self.entry(*entry).ok_or(DumpError::NotADump("an entry that is no dict"))).collect()
    }

    fn entry(&mut self, entry: Value) -> Option<Entry> {
        let tree = self.tree;
        let mut out = Entry::default();
        for (key, value) in self.fields(entry)? {
            let text = || tree.str(value).cloned();
            let number = || number(tree, value);
            // JSON writes 0 for none.
            let time = || number().filter(|ns| *ns > 0);
            match key.as_ref() {
                "record_id" => out.record_id = number(),
                "pg_id" => out.pg_id = number(),
                "process_group" => {
                    if let Some([name, desc, ..]) = tree.items(value) {
                        (out.group, out.group_desc) = (tree.str(*name).cloned(), tree.str(*desc).cloned());
                    }
                }
                "pg_name" => out.group = text(),
                "collective_seq_id" | "seq_id" => out.seq = number(),
                "p2p_seq_id" => out.p2p_seq = number(),
                "profiling_name" => out.name = text().unwrap_or(out.name),
                "time_created_ns" => out.created_ns = time(),
                "time_created_us" => out.created_ns = time().and_then(|us| us.checked_mul(1000)),
                "time_discovered_started_ns" => out.started_ns = time(),
                "time_discovered_completed_ns" => out.completed_ns = time(),
                "input_sizes" => out.input_sizes = self.sizes(value),
                "output_sizes" => out.output_sizes = self.sizes(value),
                "input_dtypes" => out.input_dtypes = self.dtypes(value),
                "output_dtypes" => out.output_dtypes = self.dtypes(value),
                "state" => {
                    out.state = match tree.str(value).map(|text| text.as_ref()) {
                        Some("scheduled") => Some(State::Scheduled),
                        Some("started") => Some(State::Started),
                        Some("completed") => Some(State::Completed),
                        _ => None,
                    };
                }
                "retired" => out.retired = flag(value),
                "timeout_ms" => out.timeout_ms = number(),
                "is_p2p" => out.is_p2p = flag(value).unwrap_or(false),
                "frames" => out.frames = self.stack(value),
                _ => {}
            }
        }
        Some(out)
    }

    fn sizes(&mut self, value: Value) -> Sizes {
        let Value::List(id) = value else { return Arc::from([]) };
        if let Some(known) = self.sizes.get(&id) {
            return known.clone();
        }
        let tensors = self.tree.items(value).unwrap_or_default();
        let mut shapes = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let dims = self.tree.items(*tensor).unwrap_or_default().iter().take(MAX_DIMENSIONS);
            let dims: Vec<i64> = dims.map(|dim| if let Value::Int(n) = dim { *n } else { 0 }).collect();
            shapes.push(self.shapes.entry(dims).or_insert_with_key(|dims| Arc::from(dims.as_slice())).clone());
        }
        // Equal shapes are one by now.
        let same = shapes.iter().map(|shape| shape.as_ptr()).collect();
        let sizes = self.known_sizes.entry(same).or_insert_with(|| Arc::from(shapes)).clone();
        self.sizes.insert(id, sizes.clone());
        sizes
    }

    fn dtypes(&mut self, value: Value) -> Arc<[Arc<str>]> {
        let (Value::List(id), tree) = (value, self.tree) else { return Arc::from([]) };
        if let Some(known) = self.dtypes.get(&id) {
            return known.clone();
        }
        let names = tree.items(value).unwrap_or_default();
        let ids: Vec<u32> = names.iter().filter_map(|name| if let Value::Text(id) = name { Some(*id) } else { None }).collect();
        let names = |ids: &Vec<u32>| ids.iter().filter_map(|id| tree.str(Value::Text(*id)).cloned()).collect();
        let dtypes = self.known_dtypes.entry(ids).or_insert_with_key(names).clone();
        self.dtypes.insert(id, dtypes.clone());
        dtypes
    }

    fn stack(&mut self, value: Value) -> Arc<[Arc<Frame>]> {
        let Value::List(id) = value else { return Arc::from([]) };
        if let Some(known) = self.stacks.get(&id) {
            return known.clone();
        }
        let frames = self.tree.items(value).unwrap_or_default();
        let stack: Arc<[Arc<Frame>]> = frames.iter().filter_map(|frame| self.frame(*frame)).collect();
        self.stacks.insert(id, stack.clone());
        stack
    }

    fn frame(&mut self, value: Value) -> Option<Arc<Frame>> {
        let Value::Dict(id) = value else { return None };
        if let Some(known) = self.frames.get(&id) {
            return Some(known.clone());
        }
        let mut frame = Frame { name: Arc::from(""), file: Arc::from(""), line: 0 };
        for (key, value) in self.fields(value)? {
            match key.as_ref() {
                "name" => frame.name = self.tree.str(value)?.clone(),
                "filename" => frame.file = self.tree.str(value)?.clone(),
                "line" => frame.line = number(self.tree, value)?,
                _ => {}
            }
        }
        let frame = Arc::new(frame);
        self.frames.insert(id, frame.clone());
        Some(frame)
    }

    fn groups(&mut self, value: Value) -> Result<BTreeMap<String, Group>, DumpError> {
        let mut groups = BTreeMap::new();
        let mut members = 0;
        for (name, config) in self.tree.pairs(value).into_iter().flatten() {
            let Value::Dict(id) = config else { continue };
            let group = match self.groups.get(&id) {
                Some(known) => known.clone(),
                None => self.group(config),
            };
            // Many groups may share one list, and each is judged with members of its own.
            members += group.ranks.len();
            if members > MAX_MEMBERS {
                return Err(DumpError::NotADump("its groups have more than four million members"));
            }
            self.groups.insert(id, group.clone());
            groups.insert(name.to_string(), group);
        }
        Ok(groups)
    }

    fn group(&mut self, config: Value) -> Group {
        let mut group = Group::default();
        for (key, value) in self.fields(config).into_iter().flatten() {
            match key.as_ref() {
                "desc" => group.desc = self.tree.str(value).cloned(),
                "ranks" => group.ranks = self.ranks(value),
                _ => {}
            }
        }
        group
    }

    /// A text: `"[0, 1, 2]"`.
    fn ranks(&mut self, value: Value) -> Arc<[u32]> {
        match value {
            Value::Text(id) => {
                let tree = self.tree;
                let text = || tree.str(value).map_or("", |text| text.as_ref());
                let parse = || text().trim_matches(['[', ']', ' ']).split(',').map_while(|rank| rank.trim().parse().ok()).collect();
                self.ranks.entry(id).or_insert_with(parse).clone()
            }
            _ => {
                let items = self.tree.items(value).unwrap_or_default();
                items.iter().take(1 << 16).filter_map(|rank| u32::try_from(number(self.tree, *rank)?).ok()).collect()
            }
        }
    }

    fn status(&self, value: Value) -> BTreeMap<u64, Status> {
        let mut all = BTreeMap::new();
        for (id, fields) in self.tree.pairs(value).into_iter().flatten() {
            let Ok(id) = id.parse() else { continue };
            let mut status = Status::default();
            for (key, value) in self.fields(fields).into_iter().flatten() {
                match key.as_ref() {
                    "last_enqueued_collective" => status.enqueued = number(self.tree, value),
                    "last_started_collective" => status.started = number(self.tree, value),
                    "last_completed_collective" => status.completed = number(self.tree, value),
                    _ => {}
                }
            }
            all.insert(id, status);
        }
        all
    }
}

/// `None` for -1, which stands for none. The JSON form writes some numbers as texts.
fn number(tree: &Tree, value: Value) -> Option<u64> {
    match value {
        Value::Int(n) => u64::try_from(n).ok(),
        _ => tree.str(value)?.trim().parse().ok(),
    }
}

fn flag(value: Value) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(b),
        Value::Int(n) => Some(n != 0),
        _ => None,
    }
}

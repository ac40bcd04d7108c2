//! Plain data as a dump holds it, whichever form it came in. Containers and texts are stored once and named by a number, so that
//! what a file shares stays shared.

use super::DumpError;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A number, or the number of a text or container of the [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(u32),
    /// A list or a tuple.
    List(u32),
    Dict(u32),
}

/// How deep containers may lie in each other.
pub(super) const MAX_DEPTH: u8 = 64;
/// A dump of 20 000 entries with long stacks has about four millions, and those take 16 bytes of memory each.
pub(super) const MAX_VALUES: usize = 6 << 20;
/// What takes more memory counts for more: a container, and a text that has not come before.
const PER_NODE: usize = 2;
const PER_TEXT: usize = 6;

#[derive(Default)]
pub(super) struct Tree {
    texts: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, u32>,
    nodes: Vec<Node>,
    values: usize,
}

#[derive(Default)]
struct Node {
    /// Of a dict: key, value, key, value …
    items: Vec<Value>,
    /// Containers below it.
    depth: u8,
    /// It lies in another one, and may no longer change. So nothing ever lies in itself.
    closed: bool,
}

impl Tree {
    pub fn text(&mut self, text: &str) -> Value {
        if let Some(&known) = self.by_text.get(text) {
            return Value::Text(known);
        }
        self.values += PER_TEXT;
        let (id, text) = (self.texts.len() as u32, Arc::<str>::from(text));
        self.texts.push(text.clone());
        self.by_text.insert(text, id);
        Value::Text(id)
    }

    pub fn list(&mut self) -> Value {
        Value::List(self.node())
    }

    pub fn dict(&mut self) -> Value {
        Value::Dict(self.node())
    }

    fn node(&mut self) -> u32 {
        self.values += PER_NODE;
        self.nodes.push(Node::default());
        self.nodes.len() as u32 - 1
    }

    /// Counts a value that was read.
    pub fn count(&mut self) -> Result<(), &'static str> {
        self.values += 1;
        if self.values > MAX_VALUES { Err("more than 6 million values") } else { Ok(()) }
    }

    /// Puts values at the end of a list, or keys with values into a dict.
    pub fn put(&mut self, into: Value, items: impl Iterator<Item = Value>) -> Result<(), &'static str> {
        let (Value::List(id) | Value::Dict(id)) = into else { return Err("something is put into what is no container") };
        let id = id as usize;
        if self.nodes[id].closed {
            return Err("a container changes after it was put into another");
        }
        for item in items {
            if let Value::List(inner) | Value::Dict(inner) = item {
                let inner = inner as usize;
                if inner == id {
                    return Err("a container is put into itself");
                }
                self.nodes[inner].closed = true;
                let depth = self.nodes[inner].depth + 1;
                if depth >= MAX_DEPTH {
                    return Err("containers lie more than 64 deep in each other");
                }
                self.nodes[id].depth = self.nodes[id].depth.max(depth);
            }
            self.nodes[id].items.push(item);
        }
        if matches!(into, Value::Dict(_)) && self.nodes[id].items.len() % 2 == 1 {
            return Err("a key has no value");
        }
        Ok(())
    }

    pub fn str(&self, value: Value) -> Option<&Arc<str>> {
        match value {
            Value::Text(id) => self.texts.get(id as usize),
            _ => None,
        }
    }

    pub fn items(&self, list: Value) -> Option<&[Value]> {
        match list {
            Value::List(id) => Some(&self.nodes.get(id as usize)?.items),
            _ => None,
        }
    }

    /// Keys that are texts, with their values. A key that comes twice has its later value last.
    pub fn pairs(&self, dict: Value) -> Option<impl Iterator<Item = (&Arc<str>, Value)>> {
        match dict {
            Value::Dict(id) => {
                let items = &self.nodes.get(id as usize)?.items;
                Some(items.chunks_exact(2).filter_map(|pair| Some((self.str(pair[0])?, pair[1]))))
            }
            _ => None,
        }
    }
}

/// Reads the JSON form.
pub(super) fn from_json(bytes: &[u8]) -> Result<(Tree, Value), DumpError> {
    let mut tree = Tree::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match (Reader(&mut tree)).deserialize(&mut reader) {
        Ok(root) => Ok((tree, root)),
        Err(err) if err.is_eof() => Err(DumpError::CutOff { at: bytes.len() }),
        Err(err) => Err(DumpError::Json(err.to_string())),
    }
}

struct Reader<'a>(&'a mut Tree);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        self.0.count().map_err(D::Error::custom)?;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Int(v))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(i64::try_from(v).map_or(Value::None, Value::Int))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Value::Float(v))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(self.0.text(v))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let list = self.0.list();
        while let Some(item) = seq.next_element_seed(Reader(self.0))? {
            self.0.put(list, [item].into_iter()).map_err(A::Error::custom)?;
        }
        Ok(list)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let dict = self.0.dict();
        while let Some(key) = map.next_key_seed(Reader(self.0))? {
            let value = map.next_value_seed(Reader(self.0))?;
            self.0.put(dict, [key, value].into_iter()).map_err(A::Error::custom)?;
        }
        Ok(dict)
    }
}

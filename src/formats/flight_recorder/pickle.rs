//! Pickles of plain data, protocols 2 to 5: no more of the pickle machine than that needs. A pickle can make its reader import and
//! call anything; this one reads no such pickle.

use super::tree::{MAX_DEPTH, Tree, Value};
use super::{DumpError, MAX_BYTES};
use std::collections::HashMap;

/// `PROTO` and a version that this file reads.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=5, ..])
}

/// Reads up to `STOP`; what follows is left alone.
pub(super) fn read(bytes: &[u8]) -> Result<(Tree, Value), DumpError> {
    if bytes.len() > MAX_BYTES {
        return Err(DumpError::TooLarge(bytes.len()));
    }
    let mut machine = Machine { bytes, at: 0, op_at: 0, tree: Tree::default(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    let root = machine.run()?;
    Ok((machine.tree, root))
}

struct Machine<'a> {
    bytes: &'a [u8],
    /// What is read next.
    at: usize,
    /// Where the opcode stands that is carried out.
    op_at: usize,
    tree: Tree,
    stack: Vec<Value>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Value, DumpError> {
        loop {
            self.op_at = self.at;
            match self.byte()? {
                b'.' => return self.pop(),
                0x80 => match self.byte()? {
                    0..=5 => {}
                    _ => return Err(self.malformed("a protocol newer than 5")),
                },
                // FRAME: how many bytes follow, which says nothing of what they mean.
                0x95 => drop(self.take(8)?),
                b'(' => {
                    if self.marks.len() >= usize::from(MAX_DEPTH) {
                        return Err(self.malformed("containers lie more than 64 deep in each other"));
                    }
                    self.marks.push(self.stack.len());
                }
                b'0' => drop(self.pop()?),
                b'1' => drop(self.above_mark()?),
                b'2' => {
                    let top = self.top()?;
                    self.push(top)?;
                }
                b'N' => self.push(Value::None)?,
                0x88 => self.push(Value::Bool(true))?,
                0x89 => self.push(Value::Bool(false))?,
                b'J' => {
                    let four = self.array()?;
                    self.push(Value::Int(i64::from(i32::from_le_bytes(four))))?;
                }
                b'K' => {
                    let one = self.byte()?;
                    self.push(Value::Int(i64::from(one)))?;
                }
                b'M' => {
                    let two = self.array()?;
                    self.push(Value::Int(i64::from(u16::from_le_bytes(two))))?;
                }
                0x8a => {
                    let len = usize::from(self.byte()?);
                    self.long(len)?;
                }
                0x8b => {
                    let len = self.len4()?;
                    self.long(len)?;
                }
                b'G' => {
                    let eight = self.array()?;
                    self.push(Value::Float(f64::from_be_bytes(eight)))?;
                }
                // Texts and bytes with a length of one, four and eight bytes.
                0x8c | b'C' | b'U' => {
                    let len = usize::from(self.byte()?);
                    self.text(len)?;
                }
                b'X' | b'B' | b'T' => {
                    let len = self.len4()?;
                    self.text(len)?;
                }
                0x8d | 0x8e | 0x96 => {
                    let len = u64::from_le_bytes(self.array()?);
                    self.text(usize::try_from(len).unwrap_or(usize::MAX))?;
                }
                b']' => {
                    let list = self.tree.list();
                    self.push(list)?;
                }
                b'}' => {
                    let dict = self.tree.dict();
                    self.push(dict)?;
                }
                b')' => self.tuple(0)?,
                0x85 => self.tuple(1)?,
                0x86 => self.tuple(2)?,
                0x87 => self.tuple(3)?,
                b't' => {
                    let mark = self.mark()?;
                    self.tuple(self.stack.len() - mark)?;
                }
                b'l' | b'd' => {
                    let items = self.above_mark()?;
                    let new = if self.bytes[self.op_at] == b'l' { self.tree.list() } else { self.tree.dict() };
                    self.put(new, items)?;
                    self.push(new)?;
                }
                b'a' => {
                    let item = self.pop()?;
                    self.add(vec![item], false)?;
                }
                b'e' => {
                    let items = self.above_mark()?;
                    self.add(items, false)?;
                }
                b's' => {
                    let value = self.pop()?;
                    let key = self.pop()?;
                    self.add(vec![key, value], true)?;
                }
                b'u' => {
                    let items = self.above_mark()?;
                    self.add(items, true)?;
                }
                b'q' => {
                    let key = u32::from(self.byte()?);
                    self.keep(key)?;
                }
                b'r' => {
                    let key = u32::from_le_bytes(self.array()?);
                    self.keep(key)?;
                }
                0x94 => self.keep(self.memo.len() as u32)?,
                b'h' => {
                    let key = u32::from(self.byte()?);
                    self.recall(key)?;
                }
                b'j' => {
                    let key = u32::from_le_bytes(self.array()?);
                    self.recall(key)?;
                }
                op => return Err(self.no_plain_data(op)),
            }
        }
    }

    fn byte(&mut self) -> Result<u8, DumpError> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DumpError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DumpError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..len) else { return Err(DumpError::CutOff { at: self.bytes.len() }) };
        self.at += len;
        Ok(taken)
    }

    fn len4(&mut self) -> Result<usize, DumpError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// Two's complement, the low byte first. A number that no field of a dump can have is none.
    fn long(&mut self, len: usize) -> Result<(), DumpError> {
        let bytes = self.take(len)?;
        let fill = if bytes.last().is_some_and(|b| b & 0x80 != 0) { 0xff } else { 0 };
        let mut eight = [fill; 8];
        let low = bytes.len().min(8);
        eight[..low].copy_from_slice(&bytes[..low]);
        let number = i64::from_le_bytes(eight);
        let fits = bytes[low..].iter().all(|b| *b == fill) && (number < 0) == (fill == 0xff);
        self.push(if fits { Value::Int(number) } else { Value::None })
    }

    fn text(&mut self, len: usize) -> Result<(), DumpError> {
        let bytes = self.take(len)?;
        let text = self.tree.text(&String::from_utf8_lossy(bytes));
        self.push(text)
    }

    fn tuple(&mut self, len: usize) -> Result<(), DumpError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let Some(from) = self.stack.len().checked_sub(len).filter(|from| *from >= floor) else {
            return Err(self.malformed("the stack is empty"));
        };
        let items = self.stack.split_off(from);
        let tuple = self.tree.list();
        self.put(tuple, items)?;
        self.push(tuple)
    }

    fn push(&mut self, value: Value) -> Result<(), DumpError> {
        self.tree.count().map_err(|what| self.malformed(what))?;
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, DumpError> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Nothing below the last mark.
    fn top(&self) -> Result<Value, DumpError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(top) if self.stack.len() > floor => Ok(*top),
            _ => Err(self.malformed("the stack is empty")),
        }
    }

    fn mark(&mut self) -> Result<usize, DumpError> {
        self.marks.pop().ok_or_else(|| self.malformed("there is no mark"))
    }

    fn above_mark(&mut self) -> Result<Vec<Value>, DumpError> {
        let mark = self.mark()?;
        Ok(self.stack.split_off(mark))
    }

    fn add(&mut self, items: Vec<Value>, to_dict: bool) -> Result<(), DumpError> {
        let into = self.top()?;
        if matches!(into, Value::Dict(_)) != to_dict {
            return Err(self.malformed("something is put into what is no container of its kind"));
        }
        self.put(into, items)
    }

    fn put(&mut self, into: Value, items: Vec<Value>) -> Result<(), DumpError> {
        self.tree.put(into, items.into_iter()).map_err(|what| self.malformed(what))
    }

    fn keep(&mut self, key: u32) -> Result<(), DumpError> {
        let top = self.top()?;
        self.tree.count().map_err(|what| self.malformed(what))?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, key: u32) -> Result<(), DumpError> {
        match self.memo.get(&key) {
            Some(&value) => self.push(value),
            None => Err(self.malformed("it recalls what it never kept")),
        }
    }

    fn malformed(&self, what: &'static str) -> DumpError {
        DumpError::Malformed { at: self.op_at, what }
    }

    /// An opcode that would import, call or build something, or none at all.
    fn no_plain_data(&mut self, op: u8) -> DumpError {
        let at = self.op_at;
        let (opcode, calls) = match op {
            b'c' => ("GLOBAL", self.named_in_lines()),
            b'i' => ("INST", self.named_in_lines()),
            0x93 => ("STACK_GLOBAL", self.named_on_stack()),
            b'R' => ("REDUCE", None),
            b'b' => ("BUILD", None),
            b'o' => ("OBJ", None),
            0x81 => ("NEWOBJ", None),
            0x92 => ("NEWOBJ_EX", None),
            0x82 => ("EXT1", None),
            0x83 => ("EXT2", None),
            0x84 => ("EXT4", None),
            b'P' => ("PERSID", None),
            b'Q' => ("BINPERSID", None),
            0x97 => ("NEXT_BUFFER", None),
            0x98 => ("READONLY_BUFFER", None),
            byte => return DumpError::UnknownOpcode { at, byte },
        };
        DumpError::Refused { at, opcode, calls }
    }

    /// Module and name stand in two lines behind the opcode.
    fn named_in_lines(&self) -> Option<String> {
        let rest = self.bytes.get(self.at..)?;
        let mut lines = rest[..rest.len().min(400)].split(|b| *b == b'\n');
        let (module, name) = (lines.next()?, lines.next()?);
        lines.next()?;
        Some(call_words(&String::from_utf8_lossy(module), &String::from_utf8_lossy(name)))
    }

    fn named_on_stack(&self) -> Option<String> {
        let [.., module, name] = self.stack.as_slice() else { return None };
        Some(call_words(self.tree.str(*module)?, self.tree.str(*name)?))
    }
}

/// `os.system`, fit for a screen.
fn call_words(module: &str, name: &str) -> String {
    format!("{module}.{name}").chars().take(100).map(|c| if c.is_control() { '?' } else { c }).collect()
}

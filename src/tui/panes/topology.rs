//! How GPUs and NICs are joined, over what NCCL talks between them, and what moves there now.
//!
//! ```text
//!        GPU0  GPU1  NIC0  NIC1    out    in /s     rank NUMA
//! GPU0    X    NV18✓ PIX✓  SYS     120   118 GB      0    0
//! GPU1   NV18▲  X    SYS   PIX✓      0     0 GB      1    0
//! ────────────────────────────────────────────────────────
//! GPU1   NVIDIA H200  bus 0000:2b:00.0  NUMA 1
//! GPU0   NV18: 18 NVLinks; NCCL uses SHM/direct/direct (24 channels): slower than the link between them
//! ```
//!
//! NICs that are as far from every GPU are one row (`NIC0-3`) where there are many. From 120 columns on, where the PCI tree tells something, it is drawn as well: NUMA nodes side by side, below each the ports of its host
//! bridges with the GPUs and NICs behind them.

use super::{Ctx, Pane, mark_selected, no_sorts, or_dash, paragraph};
use crate::base::clean::clean;
use crate::base::units::{bits_per_s, counted, gbytes_per_s};
use crate::base::words::{ranges, rank_words};
use crate::model::Model;
use crate::model::topology::used::{InUse, Judged, Used, Verdict, distance_words};
use crate::model::topology::{Distance, Place, Topology, UNKNOWN};
use crate::tui::choices::Opened;
use crate::tui::layout::Want;
use crate::tui::widgets::put::Put;
use crate::tui::widgets::{Pen, first_shown, labelled};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const PANE: Pane = Pane {
    id: "topology",
    shows: "how GPUs and NICs are connected, and what NCCL uses",
    title,
    want,
    rows: |ctx| View::of(ctx).devices.iter().map(|device| device.name.clone()).collect(),
    first: |ctx| first_below(&View::of(ctx)),
    sorts: no_sorts,
    row_at,
    open,
    draw,
};

/// Columns of a row's name, at least, and of a cell.
const LEFT: u16 = 7;
const CELL: u16 = 6;
/// Of rates behind the cells, and of rank and node behind those.
const RATES: u16 = 16;
const RIGHT: u16 = 12;
/// From this width on there is a drawing.
const DRAWING_FROM: u16 = 116;
/// Rows of the selected device, with the line above them.
const DETAIL: u16 = 6;

/// More rows than these are folded.
const MOST_ROWS: usize = 20;

/// A GPU, or a NIC, or NICs that follow one another and are as far from every GPU: a row, and a column.
struct Device<'a> {
    name: String,
    gpu: Option<u32>,
    /// Empty of a GPU.
    nics: Vec<&'a str>,
    place: Place<'a>,
}

impl Device<'_> {
    /// `mlx5_0`, `rdmap79s0…82s0 4×`
    fn nic_words(&self) -> String {
        let (Some(first), Some(last)) = (self.nics.first(), self.nics.last()) else { return String::new() };
        if self.nics.len() == 1 {
            return clean(first).into_owned();
        }
        let same = first.chars().zip(last.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c);
        let same: String = same.collect();
        // A number is not cut.
        let same = same.trim_end_matches(|c: char| c.is_ascii_digit());
        clean(&format!("{first}…{} {}×", &last[same.len()..], self.nics.len())).into_owned()
    }
}

struct View<'a> {
    model: &'a Model,
    topology: Topology<'a>,
    in_use: Arc<InUse>,
    devices: Vec<Device<'a>>,
    gpus: usize,
}

impl<'a> View<'a> {
    fn of(ctx: &Ctx<'a>) -> View<'a> {
        let model = &ctx.session.model;
        let topology = Topology::of(model);
        let in_use = ctx.main_job().and_then(|(id, _)| ctx.session.in_use(id)).cloned().unwrap_or_default();
        let gpu = |(index, place): (&u32, &Place<'a>)| Device {
            name: format!("GPU{index}"),
            gpu: Some(*index),
            nics: Vec::new(),
            place: place.clone(),
        };
        let mut devices: Vec<Device> = topology.gpus.iter().map(gpu).collect();
        devices.extend(nic_rows(&topology));
        View { model, gpus: topology.gpus.len(), devices, topology, in_use }
    }

    fn used(&self) -> &Used {
        &self.in_use.used
    }

    fn judged(&self, from: &Device, to: &Device) -> Judged {
        match (from.gpu, to.gpu) {
            (Some(a), Some(b)) => self.used().pair(&self.topology, a, b),
            (Some(gpu), None) => self.nets(gpu, to),
            (None, Some(gpu)) => self.nets(gpu, from),
            (None, None) => {
                let distance = from.place.distance(&to.place);
                let why = format!("{}-{}: {}", from.nic_words(), to.nic_words(), distance_words(distance));
                Judged { distance, used: "", verdict: Verdict::Unused, why }
            }
        }
    }

    /// The worst of several NICs.
    fn nets(&self, gpu: u32, nics: &Device) -> Judged {
        let judged = nics.nics.iter().map(|nic| self.used().net(self.model, &self.topology, gpu, nic));
        let worst = judged.reduce(|a, b| if b.verdict > a.verdict { b } else { a });
        worst.unwrap_or_else(|| Judged { distance: None, used: "", verdict: Verdict::NotSeen, why: String::new() })
    }

    /// Columns of a row's name.
    fn left(&self) -> u16 {
        self.devices.iter().map(|device| device.name.len() as u16 + 1).max().unwrap_or(0).max(LEFT)
    }

    /// Columns of a device: those of folded NICs have longer names.
    fn cell(&self, device: &Device) -> u16 {
        CELL.max(device.name.len() as u16 + 1)
    }

    fn cells(&self, devices: &[Device]) -> u16 {
        devices.iter().map(|device| self.cell(device)).sum()
    }

    /// Columns that have room: those of GPUs, and those of NICs, all of them or none.
    fn columns(&self, width: u16) -> &[Device<'a>] {
        let room = width.saturating_sub(self.left() + RATES);
        let fit = usize::from(room / CELL);
        if self.cells(&self.devices) <= room { &self.devices } else { &self.devices[..self.gpus.min(fit.max(1))] }
    }

    /// Rank and node have room, too.
    fn is_wide(&self, width: u16) -> bool {
        self.left() + self.cells(self.columns(width)) + RATES + RIGHT <= width
    }

    /// Some NICs are one row.
    fn is_folded(&self) -> bool {
        self.devices.iter().any(|device| device.nics.len() > 1)
    }

    /// Out and in: of a GPU over NVLink, of NICs over all their ports; in the unit of each.
    fn rates(&self, device: &Device) -> (Option<String>, Option<String>) {
        if let Some(gpu) = device.gpu.and_then(|index| self.model.gpus.get(&index)) {
            return (gpu.nvlink_tx_bytes_per_s.map(gbytes_per_s), gpu.nvlink_rx_bytes_per_s.map(gbytes_per_s));
        }
        self.nic_rates(&device.nics)
    }

    fn nic_rates(&self, nics: &[&str]) -> (Option<String>, Option<String>) {
        let ports = || self.model.ports.values().filter(|port| nics.contains(&port.info.device.as_str()));
        let now = self.model.now;
        let sum = |rates: &mut dyn Iterator<Item = f64>| rates.reduce(|a, b| a + b).map(bits_per_s);
        (sum(&mut ports().filter_map(|port| port.tx_newest(now))), sum(&mut ports().filter_map(|port| port.rx_newest(now))))
    }

    /// Several where they share the GPU.
    fn ranks(&self, device: &Device) -> Vec<u32> {
        device.gpu.and_then(|gpu| self.model.ranks_on_gpu(gpu)).map_or_else(Vec::new, |(_, ranks)| ranks)
    }

    fn numa(&self, device: &Device) -> Option<u32> {
        let affinity = device.gpu.and_then(|index| self.model.gpus.get(&index)?.info.numa_affinity);
        device.place.numa.or(affinity)
    }

    /// A device and each other one, NICs one by one.
    fn judged_one_by_one(&self, device: &Device) -> Vec<(String, Judged)> {
        let mut out = Vec::new();
        for other in self.devices.iter().filter(|other| other.name != device.name) {
            match (device.gpu, other.gpu) {
                (Some(gpu), None) => out.extend(other.nics.iter().map(|nic| {
                    let no = self.topology.nics.iter().position(|known| known.device == *nic).unwrap_or(0);
                    (format!("NIC{no}"), self.used().net(self.model, &self.topology, gpu, nic))
                })),
                _ => out.push((other.name.clone(), self.judged(device, other))),
            }
        }
        out
    }

    /// What the row of a device means, in sentences: to whom, and how. Equal ones are one.
    fn sentences(&self, device: &Device) -> Vec<(String, String, Verdict)> {
        let mut out: Vec<(Vec<String>, String, Verdict)> = Vec::new();
        for (name, judged) in self.judged_one_by_one(device) {
            let (_, words) = judged.why.split_once(": ").unwrap_or(("", &judged.why));
            // That nothing is known of NCCL stands below, once.
            let words = if judged.verdict == Verdict::NotSeen { words.split("; ").next().unwrap_or(words) } else { words };
            match out.iter_mut().find(|(_, known, _)| known == words) {
                Some((names, ..)) => names.push(name),
                None => out.push((vec![name], words.to_owned(), judged.verdict)),
            }
        }
        let mut out: Vec<(String, String, Verdict)> = out.into_iter().map(|(names, words, v)| (joined(&names), words, v)).collect();
        // Devices that a plugin numbers in its own way are in no column.
        let unnamed = self.used().nets.keys().filter(|(gpu, name)| Some(*gpu) == device.gpu && self.topology.nic(name).is_none());
        for (gpu, name) in unnamed {
            let judged = self.used().net(self.model, &self.topology, *gpu, name);
            let words = judged.why.split_once("; ").map_or(judged.why.as_str(), |(_, words)| words).to_owned();
            out.push((clean(name).into_owned(), words, judged.verdict));
        }
        // What is worst comes first, then what is used.
        out.sort_by_key(|(_, _, verdict)| std::cmp::Reverse(*verdict));
        out.extend(
            device.gpu.into_iter().flat_map(|gpu| self.used().beside_words(gpu)).map(|(of, words)| (of.to_owned(), words, Verdict::Unused)),
        );
        out
    }
}

/// NICs as rows: of many, those that follow one another and are as far from every GPU are one.
fn nic_rows<'a>(topology: &Topology<'a>) -> Vec<Device<'a>> {
    let folds = topology.gpus.len() + topology.nics.len() > MOST_ROWS;
    let far = |place: &Place| topology.gpus.values().map(|gpu| gpu.distance(place)).collect::<Option<Vec<Distance>>>();
    let mut rows: Vec<(usize, Option<Vec<Distance>>, Device)> = Vec::new();
    for (no, nic) in topology.nics.iter().enumerate() {
        let distances = far(&nic.place).filter(|distances| folds && !distances.is_empty());
        match rows.last_mut() {
            Some((first, known, device)) if known.is_some() && *known == distances => {
                device.nics.push(nic.device);
                device.name = format!("NIC{first}-{no}");
            }
            _ => {
                let device = Device { name: format!("NIC{no}"), gpu: None, nics: vec![nic.device], place: nic.place.clone() };
                rows.push((no, distances, device));
            }
        }
    }
    rows.into_iter().map(|(.., device)| device).collect()
}

/// `GPU0`, `GPU1-GPU7`, `GPU1-GPU3 GPU5`: rows that follow one another are one.
fn joined(names: &[String]) -> String {
    let number = |name: &str| name.get(3..).and_then(|n| n.parse::<u32>().ok());
    let mut runs: Vec<(&str, &str)> = Vec::new();
    for name in names {
        match runs.last_mut() {
            Some((first, last)) if first.get(..3) == name.get(..3) && number(last).map(|n| n + 1) == number(name) => *last = name,
            _ => runs.push((name, name)),
        }
    }
    runs.iter().map(|(a, b)| if a == b { (*a).to_owned() } else { format!("{a}-{b}") }).collect::<Vec<_>>().join(" ")
}

fn style(ctx: &Ctx, verdict: Verdict) -> Style {
    match verdict {
        Verdict::Matches => ctx.theme.good,
        Verdict::Below => ctx.theme.act,
        Verdict::NotJudged => ctx.theme.look,
        Verdict::Unused | Verdict::NotSeen => ctx.theme.text,
    }
}

/// A shape says it where there is no colour.
fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Matches => "✓",
        Verdict::Below => "▲",
        Verdict::NotJudged => "·",
        Verdict::Unused | Verdict::NotSeen => "",
    }
}

fn label(distance: Option<Distance>) -> String {
    distance.map_or_else(|| UNKNOWN.to_owned(), Distance::label)
}

fn title(ctx: &Ctx) -> String {
    let view = View::of(ctx);
    let mut parts = vec![counted(view.gpus, "GPU"), counted(view.topology.nics.len(), "NIC")];
    let below = view.in_use.troubles.len();
    match (view.used().seen, below) {
        (false, _) => parts.push("channels of NCCL not seen".into()),
        (true, 0) => parts.push("NCCL uses the fastest way everywhere".into()),
        (true, n) => parts.push(format!("{n} ▲ slower than the link between them")),
    }
    format!("Topology: {}", parts.join(", "))
}

fn want(ctx: &Ctx, _: u16) -> Option<Want> {
    let view = View::of(ctx);
    let all = (view.devices.len() + 1 + notes(&view).len()) as u16;
    (!view.devices.is_empty()).then_some(Want { width: 40, least: 3, comfort: all.min(10), all, priority: 7, late: true, grows: false })
}

fn notes(view: &View) -> Vec<String> {
    let mut out = Vec::new();
    if view.used().seen {
        out.push("NCCL uses: ✓ the fastest way  ▲ a slower one  · not judged; no sign: nothing".to_owned());
    } else {
        out.push("what NCCL uses is not known: no log has its channel lines, which NCCL_DEBUG=INFO prints".to_owned());
    }
    out.extend(view.topology.remarks().into_iter().map(str::to_owned));
    if view.used().of_another_host {
        out.push("the channel lines name another host than this one".to_owned());
    }
    out
}

/// Of the matrix, the drawing, the selected row and the notes, from above.
struct Areas {
    matrix: Rect,
    drawing: Rect,
    detail: Rect,
    notes: Rect,
}

fn areas(ctx: &Ctx, view: &View, area: Rect, drawing: u16) -> Areas {
    let notes = (notes(view).len() as u16).min(area.height / 4);
    let mut room = area.height - notes;
    let (least, all) = (view.gpus as u16 + 1, view.devices.len() as u16 + 1);
    let has_troubles = !view.in_use.troubles.is_empty();
    let kept = if has_troubles { DETAIL } else { 0 };
    let fits = ctx.zoomed && drawing > 0 && area.width >= DRAWING_FROM && room > drawing + least + kept;
    let drawing = if fits { drawing + 1 } else { 0 };
    // Rows come first, unless there is a trouble to explain: the rest of it opens with a key.
    let spare = room.saturating_sub(all + drawing);
    let detail = match spare {
        _ if !ctx.zoomed || room < DETAIL + 4 => 0,
        _ if spare >= DETAIL || has_troubles => DETAIL,
        3.. => spare,
        _ => 0,
    };
    room -= detail;
    let matrix = all.min(room - drawing);
    // What is left over goes to the sentences.
    let detail = if detail > 0 { detail + (room - drawing - matrix) } else { 0 };
    let rows = |y: u16, height: u16| Rect { y, height, ..area };
    let matrix = rows(area.y, matrix);
    let drawing = rows(matrix.bottom(), drawing);
    let detail = rows(drawing.bottom(), detail);
    Areas { matrix, drawing, detail, notes: rows(area.bottom() - notes, notes) }
}

fn row_at(ctx: &Ctx, area: Rect, y: u16) -> Option<usize> {
    let view = View::of(ctx);
    let matrix = areas(ctx, &view, area, height_of(&sockets(&view))).matrix;
    let line = y.checked_sub(matrix.y + 1).filter(|_| y < matrix.bottom())?;
    let row = first_shown(view.devices.len(), selected(ctx, &view), usize::from(matrix.height - 1)) + usize::from(line);
    (row < view.devices.len()).then_some(row)
}

/// Until one was chosen, the first that NCCL does not use as it could.
fn selected(ctx: &Ctx, view: &View) -> Option<usize> {
    let names: Vec<String> = view.devices.iter().map(|device| device.name.clone()).collect();
    ctx.selected_or(&names, first_below(view))
}

fn first_below(view: &View) -> Option<String> {
    let is_below = |device: &&Device| {
        let uses = |gpu| view.used().pairs.keys().any(|(from, _)| *from == gpu) || view.used().nets.keys().any(|(of, _)| *of == gpu);
        device.gpu.is_some_and(uses) && view.devices.iter().any(|to| view.judged(device, to).verdict == Verdict::Below)
    };
    view.devices[..view.gpus].iter().find(is_below).map(|device| device.name.clone())
}

fn open(ctx: &Ctx) -> Opened {
    let view = View::of(ctx);
    let Some(device) = selected(ctx, &view).and_then(|row| view.devices.get(row)) else { return Opened::Nothing };
    let mut lines: Vec<String> = view.sentences(device).into_iter().map(|(to, words, _)| format!("{to}: {words}")).collect();
    if device.nics.len() > 1 {
        let rates = |nic: &str| {
            let (out, into) = view.nic_rates(&[nic]);
            format!("{}: {}↑ {}↓ b/s", clean(nic), or_dash(out), or_dash(into))
        };
        lines.extend(device.nics.iter().map(|nic| rates(nic)));
    }
    Opened::Text(format!("{} {}", device.name, device.nic_words()).trim_end().to_owned(), lines.join("\n"))
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let view = View::of(ctx);
    if view.devices.is_empty() {
        let why = ["nvml", "rdma"].into_iter().filter_map(|id| Some(format!("{id}: {}", ctx.source_detail(id)?)));
        let why: Vec<String> = std::iter::once("no GPU and no RDMA device is seen".to_owned()).chain(why).collect();
        return paragraph(ctx, area, buf, &why.join(". "));
    }
    let sockets = sockets(&view);
    let areas = areas(ctx, &view, area, height_of(&sockets));
    let selected = selected(ctx, &view);
    matrix(ctx, &view, selected, areas.matrix, buf);
    if areas.drawing.height > 0 {
        draw_sockets(ctx, &view, &sockets, Rect { y: areas.drawing.y + 1, height: areas.drawing.height - 1, ..areas.drawing }, buf);
    }
    if let Some(device) = selected.and_then(|row| view.devices.get(row)).filter(|_| areas.detail.height > 1) {
        details(ctx, &view, device, areas.detail, buf);
    }
    for (note, y) in notes(&view).iter().zip(areas.notes.y..areas.notes.bottom()) {
        Pen::new(buf, Rect { y, ..areas.notes }).put(note, ctx.theme.dim);
    }
}

fn matrix(ctx: &Ctx, view: &View, selected: Option<usize>, area: Rect, buf: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let theme = ctx.theme;
    let columns = view.columns(area.width);
    let mut pen = Pen::new(buf, area);
    let left = usize::from(view.left());
    let first = first_shown(view.devices.len(), selected, usize::from(area.height - 1));
    let (shown, all) = (usize::from(area.height - 1), view.devices.len());
    // What has no room is reached by moving down.
    let rows = if shown < all { format!("{}-{}/{all}", first + 1, first + shown) } else { String::new() };
    pen.put(&format!("{rows:<left$}"), theme.dim);
    for column in columns {
        pen.put(&format!("{:<1$}", column.name, usize::from(view.cell(column))), theme.dim);
    }
    pen.put(if view.is_wide(area.width) { "  out    in /s     rank NUMA" } else { "  out    in /s" }, theme.dim);
    for ((row, device), y) in view.devices.iter().enumerate().skip(first).zip(area.y + 1..area.bottom()) {
        let line = Rect { y, height: 1, ..area };
        let mut pen = Pen::new(buf, line);
        pen.put(&format!("{:<left$}", device.name), theme.text);
        for column in columns {
            let cell = usize::from(view.cell(column));
            if column.name == device.name {
                pen.put(&format!("{:<cell$}", " X"), theme.dim);
                continue;
            }
            let judged = view.judged(device, column);
            let text = format!("{}{}", label(judged.distance), mark(judged.verdict));
            let plain = judged.verdict <= Verdict::Unused && judged.distance.is_none_or(|d| d > Distance::Pxb);
            pen.put(&format!("{text:<cell$}"), if plain { theme.dim } else { style(ctx, judged.verdict) });
        }
        let (out, into) = view.rates(device);
        let unit = if device.gpu.is_some() { "GB" } else { "b " };
        let number = |n: Option<u32>| or_dash(n.map(|n| n.to_string()));
        pen.put(&format!("{:>5} {:>5} {unit}", or_dash(out), or_dash(into)), theme.text);
        let ranks = view.ranks(device);
        let rank = if device.gpu.is_some() { or_dash((!ranks.is_empty()).then(|| ranges(&ranks))) } else { String::new() };
        if view.is_wide(area.width) {
            pen.put(&format!("  {rank:>5} {:>4}", number(view.numa(device))), theme.dim);
        }
        if ctx.focused && selected == Some(row) {
            mark_selected(ctx, line, buf);
        }
    }
}

fn details(ctx: &Ctx, view: &View, device: &Device, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let width = usize::from(area.width);
    buf.put(area.x, area.y, "─".repeat(width), width, theme.border);
    let mut about: Vec<String> = Vec::new();
    if let Some(gpu) = device.gpu.and_then(|index| view.model.gpus.get(&index)) {
        about.extend(gpu.info.name.as_deref().map(|name| clean(name).into_owned()));
        let ranks = view.ranks(device);
        about.extend((!ranks.is_empty()).then(|| rank_words(&ranks)));
        about.extend(gpu.info.cpus.as_deref().map(|cpus| format!("CPUs {}", clean(cpus))));
    } else {
        about.push(device.nic_words());
        let near: Vec<String> = view.topology.nearest_gpus(&device.place).iter().map(|gpu| format!("GPU{gpu}")).collect();
        about.extend((!near.is_empty()).then(|| format!("near {}", near.join(" "))));
    }
    about.extend(device.place.bus_id.map(|bus| format!("bus {}", clean(bus))));
    let mut lines: Vec<Line> = Vec::new();
    lines.extend(labelled(&format!("{:<12}", device.name), theme.title, &about.join("  "), theme.text, width));
    for (to, words, verdict) in view.sentences(device) {
        lines.extend(labelled(&format!("{to:<11} "), theme.dim, &words, style(ctx, verdict), width));
    }
    super::lines(Rect { y: area.y + 1, height: area.height - 1, ..area }, buf, &lines);
}

/// A NUMA node with the ports of its host bridges, and behind each port its devices, as places in the list of all.
struct Socket {
    numa: Option<u32>,
    ports: Vec<(String, Vec<usize>)>,
}

impl Socket {
    fn rows(&self) -> u16 {
        1 + self.ports.iter().map(|(_, devices)| devices.len() as u16).sum::<u16>()
    }
}

/// Empty where the tree says nothing.
fn sockets(view: &View) -> Vec<Socket> {
    if view.topology.is_flat() || view.devices.len() > MAX_DRAWN {
        return Vec::new();
    }
    let mut nodes: BTreeMap<Option<u32>, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
    for (at, device) in view.devices.iter().enumerate() {
        // The host bridge, and the port of it: all that is behind one is joined by switches.
        let Some(port) = device.place.parents().get(1).or(device.place.parents().first()) else { continue };
        nodes.entry(view.numa(device)).or_default().entry((*port).to_owned()).or_default().push(at);
    }
    let socket = |(numa, ports): (Option<u32>, BTreeMap<String, Vec<usize>>)| Socket { numa, ports: ports.into_iter().collect() };
    let mut sockets: Vec<Socket> = nodes.into_iter().map(socket).collect();
    // Those that are known stand beside one another.
    sockets.sort_by_key(|socket| (socket.numa.is_none(), socket.numa));
    sockets
}

/// More are no picture.
const MAX_DRAWN: usize = 128;

/// Two sockets stand side by side.
fn height_of(sockets: &[Socket]) -> u16 {
    sockets.chunks(2).map(|pair| pair.iter().map(Socket::rows).max().unwrap_or(0)).sum()
}

fn draw_sockets(ctx: &Ctx, view: &View, sockets: &[Socket], area: Rect, buf: &mut Buffer) {
    let half = if sockets.len() > 1 { area.width / 2 } else { area.width };
    let mut y = area.y;
    for pair in sockets.chunks(2) {
        for (socket, x) in pair.iter().zip([area.x, area.x + half]) {
            draw_socket(ctx, view, socket, Rect { x, y, width: half.saturating_sub(2), height: area.bottom().saturating_sub(y) }, buf);
        }
        y += pair.iter().map(Socket::rows).max().unwrap_or(0);
    }
}

/// ```text
/// NUMA 0 ──────────────────────────────
/// ├ 15:01.0 ┬ GPU0  rank 0             120↑   118↓ GB/s
/// │         └ NIC0  mlx5_0      PIX✓   40G↑   38G↓ b/s
/// ```
fn draw_socket(ctx: &Ctx, view: &View, socket: &Socket, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let head = socket.numa.map_or("NUMA node not known ".to_owned(), |node| format!("NUMA {node} "));
    let mut pen = Pen::new(buf, area);
    pen.put(&head, theme.title);
    let rest = usize::from(pen.room());
    pen.put(&"─".repeat(rest), theme.border);
    let mut y = area.y + 1;
    for (at, (port, devices)) in socket.ports.iter().enumerate() {
        let last_port = at + 1 == socket.ports.len();
        // The GPU that NICs of this port are compared with.
        let gpu = devices.iter().find_map(|at| view.devices[*at].gpu);
        for (n, device) in devices.iter().enumerate() {
            if y >= area.bottom() {
                return;
            }
            // What hangs on the host bridge itself has that in place of a port.
            let name = port.strip_prefix("pci").unwrap_or(port);
            let port = clean(name.strip_prefix("0000:").unwrap_or(name));
            let stem = match (n, last_port) {
                (0, false) => format!("├ {port:<7} "),
                (0, true) => format!("└ {port:<7} "),
                (_, false) => format!("│ {:<7} ", ""),
                (_, true) => " ".repeat(10),
            };
            let branch = match (devices.len(), n) {
                (1, _) => "─ ",
                (_, 0) => "┬ ",
                (many, n) if n + 1 == many => "└ ",
                _ => "├ ",
            };
            let mut pen = Pen::new(buf, Rect { y, height: 1, ..area });
            pen.put(&format!("{stem}{branch}"), theme.border);
            leaf(ctx, view, &view.devices[*device], gpu, &mut pen);
            y += 1;
        }
    }
}

fn leaf(ctx: &Ctx, view: &View, device: &Device, gpu: Option<u32>, pen: &mut Pen) {
    let theme = ctx.theme;
    let (out, into) = view.rates(device);
    let unit = if device.gpu.is_some() { "GB/s" } else { "b/s" };
    // Names of folded NICs need two columns more, and the others keep in step with them.
    let more = if view.is_folded() { 2 } else { 0 };
    if device.nics.len() <= 1 {
        pen.put(&format!("{:<6}", device.name), theme.text);
    }
    match device.gpu {
        Some(_) => {
            let ranks = view.ranks(device);
            let rank = if ranks.is_empty() { String::new() } else { rank_words(&ranks) };
            pen.put(&format!("{rank:<0$}", 17 + more), theme.text);
        }
        None => {
            let width = more + if device.nics.len() > 1 { 18 } else { 12 };
            pen.put(&format!("{:<width$}", device.nic_words()), theme.text);
            let judged = gpu.map(|gpu| view.nets(gpu, device));
            let text = judged.as_ref().map_or(String::new(), |j| format!("{}{}", label(j.distance), mark(j.verdict)));
            pen.put(&format!("{text:<5}"), judged.map_or(theme.dim, |j| style(ctx, j.verdict)));
        }
    }
    pen.put(&format!("{:>5}↑ {:>5}↓ {unit}", or_dash(out), or_dash(into)), theme.text);
}

//! Where each pane stands. Pure: a size and what the panes ask for in, rectangles out.
//!
//! Panes stand in bands from top to bottom, side by side within a band. How many stand side by side depends on the width alone, so
//! that nothing jumps while values change; what does not fit is left out, the least important first.

use ratatui::layout::Rect;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a pane asks for, in cells of content, without frame and title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    pub width: u16,
    /// Below this it makes no sense.
    pub least: u16,
    /// With this one can work.
    pub comfort: u16,
    /// All that there is to show.
    pub all: u16,
    /// The lowest gets its room first.
    pub priority: u8,
    /// It comes only once all others have their comfort.
    pub late: bool,
    /// It has more to show than any screen: it grows last.
    pub grows: bool,
}

/// A pane of a band, by its id, with its share of the width.
pub type Slot = (&'static str, u16);

/// From this width on, these bands.
pub struct Arrangement {
    pub from_width: u16,
    /// Panes have a frame; without, a line with the title.
    pub framed: bool,
    pub bands: &'static [&'static [Slot]],
}

/// An arrangement of the overview that comes with the program.
pub struct Preset {
    pub name: &'static str,
    /// The widest that fits is taken.
    pub arrangements: &'static [Arrangement],
}

/// In the order in which the key goes through them.
pub const PRESETS: &[Preset] = &[
    Preset { name: "all", arrangements: ARRANGEMENTS },
    Preset { name: "gpus", arrangements: &wide(&[&[("timeline", 1)], &[("gpus", 1)], &[("processes", 1)], &[("findings", 1)]]) },
    Preset { name: "network", arrangements: &wide(&[&[("network", 1)], &[("nccl", 1), ("findings", 1)], &[("topology", 1)]]) },
    Preset { name: "logs", arrangements: &wide(&[&[("training", 5), ("findings", 6)], &[("log", 1)]]) },
];

/// Below this width panes stand one below the other, without frames.
pub const NARROW: u16 = 100;

const fn wide(bands: &'static [&'static [Slot]]) -> [Arrangement; 1] {
    [Arrangement { from_width: NARROW, framed: true, bands }]
}

/// How the overview is arranged.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    pub name: String,
    /// Of the user's own.
    own: Option<Vec<Vec<Slot>>>,
}

impl Layout {
    /// One of [`PRESETS`], the first where there is none of this name.
    pub fn preset(name: &str) -> Layout {
        let known = PRESETS.iter().find(|p| p.name == name).unwrap_or(&PRESETS[0]);
        Layout { name: known.name.to_owned(), own: None }
    }

    pub fn own(name: &str, bands: Vec<Vec<Slot>>) -> Layout {
        Layout { name: name.to_owned(), own: Some(bands) }
    }

    /// Panes have a frame at this width.
    pub fn is_framed(&self, width: u16) -> bool {
        self.arrangement(width).map_or(width >= NARROW, |a| a.framed)
    }

    /// Panes by bands, at this width.
    pub fn bands(&self, width: u16) -> Vec<Vec<Slot>> {
        let bands = match (self.arrangement(width), &self.own) {
            (Some(arrangement), _) => return arrangement.bands.iter().map(|band| band.to_vec()).collect(),
            (None, Some(own)) => own.clone(),
            (None, None) => self.widest().map_or(Vec::new(), |a| a.bands.iter().map(|band| band.to_vec()).collect()),
        };
        if width >= NARROW { bands } else { bands.into_iter().flatten().map(|slot| vec![slot]).collect() }
    }

    fn widest(&self) -> Option<&'static Arrangement> {
        PRESETS.iter().find(|p| self.own.is_none() && p.name == self.name)?.arrangements.first()
    }

    fn arrangement(&self, width: u16) -> Option<&'static Arrangement> {
        let preset = PRESETS.iter().find(|p| self.own.is_none() && p.name == self.name)?;
        preset.arrangements.iter().find(|a| width >= a.from_width)
    }
}

/// The rows of a layout as a user writes them: names of panes, with their share of the width behind a colon.
///
/// # Errors
/// What was found and what is expected.
pub fn parse(name: &str, rows: &[Vec<&str>]) -> Result<Vec<Vec<Slot>>, String> {
    if PRESETS.iter().any(|p| p.name == name) {
        return Err("a layout of this name comes with nccl-top; give it another".into());
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut slot = |text: &str| {
        let (id, share) = text.split_once(':').unwrap_or((text, "1"));
        let known: Vec<&'static str> = super::panes::PANES.iter().map(|p| p.id).collect();
        let id = known.iter().find(|k| **k == id).ok_or_else(|| format!("found {id:?}, expected one of {}", known.join(", ")))?;
        let share: u16 = share
            .parse()
            .ok()
            .filter(|n| (1..=100).contains(n))
            .ok_or_else(|| format!("found {text:?}, expected a share of the width from 1 to 100 behind the colon, as in \"{id}:2\""))?;
        if seen.contains(id) {
            return Err(format!("{id} stands in it twice"));
        }
        seen.push(id);
        Ok((*id, share))
    };
    let rows: Vec<Vec<Slot>> = rows.iter().map(|row| row.iter().map(|text| slot(text)).collect()).collect::<Result<_, String>>()?;
    if rows.iter().all(Vec::is_empty) { Err("it has no pane; expected at least one".into()) } else { Ok(rows) }
}

/// The widest that fits is taken.
pub const ARRANGEMENTS: &[Arrangement] = &[
    Arrangement {
        from_width: 170,
        framed: true,
        bands: &[
            &[("timeline", 1)],
            &[("gpus", 1)],
            &[("training", 5), ("network", 5), ("nccl", 6)],
            &[("processes", 4), ("sources", 3)],
            &[("findings", 6), ("log", 7)],
        ],
    },
    Arrangement {
        from_width: 100,
        framed: true,
        bands: &[
            &[("timeline", 1)],
            &[("training", 5), ("findings", 6)],
            &[("gpus", 1)],
            &[("network", 5), ("nccl", 6)],
            &[("processes", 5), ("sources", 6)],
            &[("log", 1)],
        ],
    },
    Arrangement {
        from_width: 0,
        framed: false,
        bands: &[
            &[("timeline", 1)],
            &[("training", 1)],
            &[("gpus", 1)],
            &[("network", 1)],
            &[("findings", 1)],
            &[("nccl", 1)],
            &[("processes", 1)],
            &[("log", 1)],
        ],
    },
];

/// Whether evidence has a place of its own beside the log.
pub fn is_large((width, height): (u16, u16)) -> bool {
    width >= ARRANGEMENTS[0].from_width && height >= 50
}

/// A pane and where it stands, frame or title line included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub pane: &'static str,
    pub area: Rect,
}

/// Columns and rows that a frame with its margin, or a title line, takes.
pub fn chrome(framed: bool) -> (u16, u16) {
    if framed { (4, 2) } else { (2, 1) }
}

/// What is inside the frame or below the title.
pub fn inside(area: Rect, framed: bool) -> Rect {
    let (across, down) = chrome(framed);
    let left = if framed { 2 } else { 1 };
    Rect {
        x: area.x + left.min(area.width),
        y: area.y + 1.min(area.height),
        width: area.width.saturating_sub(across),
        height: area.height.saturating_sub(down),
    }
}

/// Places the panes of these bands in `area`. `want` is what a pane asks for at a width of content, `None` for a pane that has
/// nothing to show.
pub fn place(area: Rect, bands: &[Vec<Slot>], framed: bool, want: &dyn Fn(&str, u16) -> Option<Want>) -> Vec<Place> {
    let (across, down) = chrome(framed);
    // A pane may have to look at much to know what it wants.
    let known = RefCell::new(BTreeMap::new());
    let want = |pane: &'static str, width: u16| *known.borrow_mut().entry((pane, width)).or_insert_with(|| want(pane, width));
    let mut filled = Vec::new();
    for band in bands {
        let mut slots: Vec<Slot> = band.iter().copied().filter(|(pane, _)| want(pane, area.width).is_some()).collect();
        // The least important leave until the others have the width that they need.
        let columns = loop {
            let columns = split(area, &slots);
            let wants = || slots.iter().zip(&columns).map(|((pane, _), c)| want(pane, c.1.saturating_sub(across)));
            let narrow = wants().zip(&columns).any(|(w, c)| w.is_none_or(|w| w.width + across > c.1));
            if !narrow || slots.is_empty() {
                break columns;
            }
            let priority = |slot: &Slot| want(slot.0, area.width).map_or(u8::MAX, |w| w.priority);
            let last = (0..slots.len()).max_by_key(|i| priority(&slots[*i])).unwrap_or(0);
            slots.remove(last);
        };
        let wants: Vec<Want> = slots.iter().zip(&columns).filter_map(|((pane, _), c)| want(pane, c.1.saturating_sub(across))).collect();
        let Some(whole) = wants.iter().copied().reduce(|a, b| Want {
            width: a.width + b.width,
            least: a.least.max(b.least),
            comfort: a.comfort.max(b.comfort),
            all: a.all.max(b.all),
            priority: a.priority.min(b.priority),
            late: a.late && b.late,
            grows: a.grows || b.grows,
        }) else {
            continue;
        };
        filled.push((slots, columns, whole));
    }
    let wants: Vec<Want> = filled.iter().map(|b| b.2).collect();
    let heights = share(area.height, down, &wants);
    let mut places = Vec::new();
    let mut y = area.y;
    for ((slots, columns, _), height) in filled.iter().zip(heights) {
        for ((pane, _), (x, width)) in slots.iter().zip(columns) {
            if height > 0 {
                places.push(Place { pane, area: Rect { x: *x, y, width: *width, height } });
            }
        }
        y += height;
    }
    places
}

/// Start and width of each slot.
fn split(area: Rect, slots: &[Slot]) -> Vec<(u16, u16)> {
    let total: u32 = slots.iter().map(|s| u32::from(s.1)).sum();
    let mut out = Vec::new();
    let (mut sum, mut x) = (0u32, area.x);
    for (_, weight) in slots {
        sum += u32::from(*weight);
        let end = area.x + (u32::from(area.width) * sum / total.max(1)) as u16;
        out.push((x, end - x));
        x = end;
    }
    out
}

/// Heights of the bands, `down` rows of frame included. The important ones get their least first, then all their comfort, then the
/// late ones come, then all get what they want, in the same order. A band that does not get its least gets nothing.
pub fn share(mut room: u16, down: u16, wants: &[Want]) -> Vec<u16> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|i| wants[*i].priority);
    let mut heights = vec![0u16; wants.len()];
    for late in [false, true] {
        for &i in order.iter().filter(|i| wants[**i].late == late) {
            let want = &wants[i];
            // A late one comes as it can be worked with, or not at all.
            let least = if late { want.comfort } else { want.least }.min(want.all).saturating_add(down);
            if want.all > 0 && least <= room {
                heights[i] = least;
                room -= least;
            }
        }
        for &i in order.iter().filter(|i| wants[**i].late == late) {
            grow(&mut heights[i], wants[i].comfort.min(wants[i].all).saturating_add(down), &mut room);
        }
    }
    order.sort_by_key(|i| wants[*i].grows);
    for &i in &order {
        grow(&mut heights[i], wants[i].all.saturating_add(down), &mut room);
    }
    heights
}

fn grow(height: &mut u16, to: u16, room: &mut u16) {
    if *height > 0 {
        let more = to.saturating_sub(*height).min(*room);
        *height += more;
        *room -= more;
    }
}

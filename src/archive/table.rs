//! Tables of numbers that a benchmark prints, whichever it is: OSU's, perftest's, NIXLBench's. The first and the last row say what was
//! measured, and where a value leaps. nccl-tests' own are read elsewhere, with what their columns mean.

use super::inputs::Input;
use super::{Report, again, results};
use crate::base::{clean, mask};
use crate::observe::evidence::Evidence;

const LEAST_ROWS: usize = 5;
/// Lines of something else between two rows, and between the rows and their head.
const MOST_BETWEEN: usize = 3;
const MOST_COLUMNS: usize = 16;
/// Of more tables the last ones are told.
const MOST_TABLES: usize = 3;
const LONGEST_HEAD: usize = 160;
const LONGEST_ROW: usize = 240;
/// Kinds of evaluations that are kept.
const MOST_KINDS: usize = 16;
/// From one size to the next one a latency or a rate at most doubles; a value that grows so many times has met something else.
const LEAPS: f64 = 6.0;
const MOST_LEAPS: usize = 2;

struct Table<'a> {
    /// Line numbers from 1.
    from: usize,
    to: usize,
    head: Option<String>,
    rows: usize,
    first: Vec<&'a str>,
    last: Vec<&'a str>,
    /// Places where the second column leaps, as many as are told and one more.
    leaps: Vec<String>,
}

/// Of a job that trains, numbers below one another are its steps, which are told elsewhere; what an evaluation prints is told of each.
pub(super) fn of(report: &Report, inputs: &[Input]) -> Vec<Evidence> {
    if report.model().files.len() > MOST_TABLES || !report.record().tables.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for path in report.model().files.values().map(|log| &log.info.path) {
        let Some(text) = again::text_of(path, inputs) else { continue };
        let text = String::from_utf8_lossy(&text);
        let told =
            |line: usize, words: String| Evidence { path: Some(path.clone()), line: Some(line as u64), ..Evidence::of("line", words) };
        all.extend(results::of(&text).into_iter().map(|(line, words)| told(line, words)));
        all.extend(evaluations(&text).into_iter().map(|(line, words)| told(line, words)));
        if report.training().is_none() {
            all.extend(tables(&text).iter().map(|table| told(table.from, words(table))));
        }
    }
    all.split_off(all.len().saturating_sub(MOST_TABLES))
}

/// What stands above the table of an evaluation: Detectron2's `Evaluation results for segm:`.
const EVALUATION: &str = "Evaluation results for ";

/// `Evaluation results for segm: AP 65.12, AP50 91.35`, with the line of the numbers: names between bars, a rule, and the numbers below them.
/// Of each kind the last.
fn evaluations(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(of) = line.find(EVALUATION).map(|at| line[at..].trim_end().trim_end_matches(':')) else { continue };
        let rows: Vec<(usize, Vec<&str>)> = lines.clone().take(3).filter_map(|(at, line)| Some((at + 1, cells(line)?))).collect();
        let [(_, names), (_, rule), (no, values)] = rows.as_slice() else { continue };
        let is_rule = rule.iter().all(|cell| cell.contains('-') && cell.bytes().all(|b| matches!(b, b'-' | b':')));
        if !is_rule || names.len() != values.len() || !values.iter().all(|value| value.parse::<f64>().is_ok()) {
            continue;
        }
        let pairs: Vec<String> = names.iter().zip(values).map(|(name, value)| format!("{name} {value}")).collect();
        let of = words_of(of);
        let kind = format!("{of}: ");
        found.retain(|(_, words)| !words.starts_with(&kind));
        if found.len() >= MOST_KINDS {
            found.remove(0);
        }
        found.push((*no, clean::clip(&(kind + &words_of(&pairs.join(", "))), LONGEST_ROW).into_owned()));
    }
    found
}

/// `| AP | AP50 |`
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).take(MOST_COLUMNS + 1).collect();
    (cells.len() <= MOST_COLUMNS).then_some(cells)
}

fn tables(text: &str) -> Vec<Table<'_>> {
    let mut tables: Vec<Table> = Vec::new();
    let mut head: Option<(usize, &str)> = None;
    for (at, line) in text.lines().enumerate() {
        let no = at + 1;
        match row(line) {
            Some(row) => match tables.last_mut().filter(|table| table.last.len() == row.len() && no - table.to <= MOST_BETWEEN + 1) {
                // Sizes grow; where they begin anew, so does the table.
                Some(table) if number(&row, 0) > number(&table.last, 0) => {
                    table.leaps.extend(leap(&table.last, &row).filter(|_| table.leaps.len() <= MOST_LEAPS));
                    (table.to, table.rows, table.last) = (no, table.rows + 1, row);
                }
                _ => {
                    tables.retain(|table| table.rows >= LEAST_ROWS);
                    let head = head.filter(|(at, _)| no - at <= MOST_BETWEEN).map(|(_, head)| words_of(head));
                    tables.push(Table { from: no, to: no, head, rows: 1, first: row.clone(), last: row, leaps: Vec::new() });
                    if tables.len() > MOST_TABLES {
                        tables.remove(0);
                    }
                }
            },
            None if line.chars().any(char::is_alphabetic) => head = Some((no, line)),
            None => {}
        }
    }
    tables.retain(|table| table.rows >= LEAST_ROWS);
    tables
}

/// The columns of a line of nothing but numbers.
fn row(line: &str) -> Option<Vec<&str>> {
    let first = line.trim_start().bytes().next()?;
    if !first.is_ascii_digit() || line.len() > 400 {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().take(MOST_COLUMNS + 1).collect();
    let is_number = |word: &&str| word.parse::<f64>().is_ok_and(f64::is_finite);
    (words.len() >= 2 && words.len() <= MOST_COLUMNS && words.iter().all(is_number)).then_some(words)
}

fn number(row: &[&str], column: usize) -> Option<f64> {
    row.get(column)?.parse().ok()
}

fn words_of(line: &str) -> String {
    let line = clean::clean(line);
    let words = line.trim_start_matches(['#', ' ']).split_whitespace().collect::<Vec<_>>().join(" ");
    clean::clip(&mask::text(&words), LONGEST_HEAD).into_owned()
}

/// `12 rows of "Size Avg Latency(us)": first 4 1.98; last 1048576 630.67; the second column leaps from 19.72 to 456.73 (at 16384 and 32768)`
fn words(table: &Table) -> String {
    let of = table.head.as_ref().map_or(String::new(), |head| format!(" of \"{head}\""));
    let leaps = match table.leaps.as_slice() {
        // More are noise.
        leaps if leaps.is_empty() || leaps.len() > MOST_LEAPS => String::new(),
        leaps => format!("; the second column leaps {}", leaps.join(" and ")),
    };
    format!("{} rows{of}: first {}; last {}{leaps}", table.rows, table.first.join(" "), table.last.join(" "))
}

fn leap(before: &[&str], row: &[&str]) -> Option<String> {
    let (was, is) = (number(before, 1).filter(|v| *v > 0.0)?, number(row, 1)?);
    (is >= was * LEAPS).then(|| format!("from {} to {} (at {} and {})", before[1], row[1], before[0], row[0]))
}

#[cfg(test)]
mod tests {
    use super::{evaluations, tables, words};

    #[test]
    fn what_an_evaluation_printed() {
        let text = "d2 INFO: Evaluation results for bbox: \n|  AP  | AP50 |\n|:----:|:----:|\n| 1.25 | nan  |\nstep 3\n\
                    d2 INFO: Evaluation results for bbox: \n|  AP  | AP50 |\n|:----:|:----:|\n| 2.50 | 7.75 |\n\
                    Evaluation results for x in csv format:\ncopypaste: 1,2\n";
        assert_eq!(evaluations(text), [(9, "Evaluation results for bbox: AP 2.50, AP50 7.75".to_owned())]);
    }

    #[test]
    fn what_a_benchmark_printed() {
        let text = "# OSU MPI Latency Test v5.6\n# Size  Latency(us)\n1   1.10\n2   1.12\n[host] a hint of the library\n4   1.15\n8   1.20\n\
                    16  19.50\n32  20.10\n1  2\n2  3\nended\n";
        let all: Vec<String> = tables(text).iter().map(words).collect();
        assert_eq!(
            all,
            ["6 rows of \"Size Latency(us)\": first 1 1.10; last 32 20.10; the second column leaps from 1.20 to 19.50 (at 8 and 16)"]
        );
        // Dates, versions and shapes are no rows; nor are a few numbers.
        for text in ["2024-01-02 3\n2024-01-03 4\n", "1 2\n2 3\n3 4\n", "1 a\n2 b\n3 c\n4 d\n5 e\n", "1\n2\n3\n4\n5\n6\n"] {
            assert!(tables(text).is_empty(), "{text}");
        }
    }
}

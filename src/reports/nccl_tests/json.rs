//! The file that `-J` writes (nccl-tests 2.17.3 and newer), also that of a run that was killed. Its `env` is never read: it may hold
//! secrets.

use super::{OutOfBounds, Row, Side, Table};
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    args: Vec<Value>,
    config: Config,
    results: Vec<Value>,
    out_of_bounds: Option<Bounds>,
    average_bus_bandwidth: Option<Average>,
    errors: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    nthreads: Value,
    ngpus: Value,
    devices: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Bounds {
    count: Value,
    okay: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Average {
    bandwidth: Value,
    okay: Value,
}

/// Reads the file. One that is cut off gives what is there, as a run that is not complete.
///
/// # Errors
/// It is not JSON, or not that of nccl-tests. The text quotes nothing of the file.
pub fn parse(text: &str) -> Result<Table, String> {
    let file: File = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(err) if err.is_eof() => serde_json::from_str(&closed(text)).map_err(|err| not_ours(&err))?,
        Err(err) => return Err(not_ours(&err)),
    };
    let mut table = Table { collective: collective(&file.args), ranks: ranks(&file.config), ..Table::default() };
    for result in &file.results {
        match row(result) {
            Some(row) if row.out_of_place.is_none() && row.in_place.is_none() => table.unfinished = Some((row.size_bytes, 0)),
            Some(row) => {
                table.unfinished = None;
                table.add(row);
            }
            None => {}
        }
    }
    if let Some(bounds) = &file.out_of_bounds
        && let Some(count) = unsigned(&bounds.count)
    {
        table.out_of_bounds = Some(OutOfBounds { count, ok: truth(&bounds.okay).unwrap_or(count == 0), line: 0 });
    }
    if let Some(average) = &file.average_bus_bandwidth {
        table.avg_busbw_gbytes_per_s = float(&average.bandwidth);
        table.fast_enough = truth(&average.okay);
        table.complete = true;
    }
    for error in file.errors.iter().filter_map(Value::as_str).filter(|error| !error.trim().is_empty()) {
        table.fail(0, error, false);
    }
    table.conclude();
    Ok(table)
}

fn not_ours(err: &serde_json::Error) -> String {
    format!("not the JSON that nccl-tests writes (line {}, column {})", err.line(), err.column())
}

/// A text that ends too early, cut behind its last whole value and with its brackets closed.
fn closed(text: &str) -> String {
    let mut open = Vec::new();
    let mut whole = 0;
    let mut in_string = false;
    let mut escaped = false;
    for (at, b) in text.bytes().enumerate() {
        if in_string {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match b {
            b'"' => in_string = true,
            b'{' | b'[' => {
                open.push(if b == b'{' { '}' } else { ']' });
                whole = at + 1;
            }
            b'}' | b']' => {
                open.pop();
                whole = at + 1;
            }
            b',' => whole = at,
            _ => {}
        }
    }
    // Every bracket moved `whole`: those open now were open there.
    let mut out = text[..whole].to_owned();
    out.extend(open.iter().rev());
    out
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        // "nan" is one, too.
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|value: &f64| value.is_finite())
}

fn unsigned(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| float(value).filter(|value| *value >= 0.0).map(|value| value as u64))
}

/// Version 1 and 2 write booleans as strings; `unchecked` is neither.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::String(text) if text == "true" => Some(true),
        Value::String(text) if text == "false" => Some(false),
        _ => None,
    }
}

fn collective(args: &[Value]) -> Option<String> {
    let program = args.first()?.as_str()?.rsplit('/').next()?;
    Some(program.strip_suffix("_perf")?.to_owned())
}

/// Of each process only the first device is listed; a version that lists all has them in a row.
fn ranks(config: &Config) -> Option<u32> {
    let listed = u32::try_from(config.devices.len()).ok().filter(|listed| *listed > 0)?;
    let each = unsigned(&config.nthreads).unwrap_or(1).saturating_mul(unsigned(&config.ngpus).unwrap_or(1)).max(1);
    let rank = |at: usize| config.devices.get(at).and_then(|device| device.get("rank")?.as_u64());
    let all_listed = rank(1).is_some_and(|second| second == rank(0).unwrap_or(0).saturating_add(1));
    if all_listed { Some(listed) } else { u32::try_from(u64::from(listed).saturating_mul(each)).ok() }
}

fn row(result: &Value) -> Option<Row> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).map(|text| text.trim().to_owned());
    let root = result.get("root").and_then(float).filter(|root| *root >= 0.0);
    Some(Row {
        size_bytes: unsigned(result.get("size")?)?,
        count: result.get("count").and_then(unsigned).unwrap_or(0),
        dtype: text("type").unwrap_or_default(),
        redop: text("redop"),
        root: root.map(|root| root as u32),
        out_of_place: side(result.get("out_of_place")),
        in_place: side(result.get("in_place")),
        line: 0,
    })
}

fn side(value: Option<&Value>) -> Option<Side> {
    let fields = value?.as_object()?;
    let number = |key: &str| fields.get(key).and_then(float);
    let side = Side {
        time_us: number("time").or_else(|| number("cpu_time")),
        algbw: number("alg_bw"),
        busbw: number("bus_bw"),
        wrong: fields.get("nwrong").and_then(unsigned),
    };
    (side != Side::default()).then_some(side)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::severity::Severity;
    use crate::rules::judge_table as judge;
    use proptest::prelude::*;

    const WHOLE: &str = r#"{"version":2,"start_time":"2026-01-01 10:00:00","args":["./build\/all_reduce_perf","-g","8"],
        "env":["SECRET_TOKEN=hunter2","A=[{\"x"],"nccl_version":22809,
        "config":{"nthreads":1,"ngpus":8,"step_factor":4,"blocking_collectives":"false","devices":[{"rank":0,"group":0,"hostname":"vm"}]},
        "results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",
            "out_of_place":{"time":21.5,"alg_bw":0.000372,"bus_bw":0.000651,"nwrong":0.000000},
            "in_place":{"time":20.5,"alg_bw":0.00039,"bus_bw":"nan","nwrong":0.0},"actual_iterations":20,"experiment_name":""},
          {"size":1073741824,"count":268435456,"type":"float","redop":"sum","root":"    -1","out_of_place":null,
            "in_place":{"cpu_time":5212.2,"alg_bw":206.01,"bus_bw":360.51,"nwrong":null}}],
        "out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":180.25,"okay":"unchecked"},
        "errors":[""],"end_time":"2026-01-01 10:00:10"}"#;

    #[test]
    fn a_whole_file_is_read() {
        let table = parse(WHOLE).unwrap();
        assert_eq!((table.collective.as_deref(), table.ranks, table.rows.len()), (Some("all_reduce"), Some(8), 2));
        assert_eq!((table.wrong, table.complete, table.avg_busbw_gbytes_per_s), (Some(0), true, Some(180.25)));
        assert_eq!(table.rows[0].in_place.unwrap().busbw, None, "nan");
        assert_eq!((table.rows[0].root, table.rows[1].out_of_place), (None, None));
        let peak = table.peak.unwrap();
        assert_eq!((peak.busbw_gbytes_per_s, peak.size_bytes, peak.in_place), (360.51, 1 << 30, true));
        assert_eq!((table.fast_enough, judge(&table, "x.json")), (None, vec![]));
    }

    #[test]
    fn a_killed_run_gives_what_it_measured() {
        for end in 1..WHOLE.trim_end().len() {
            let table = parse(&WHOLE[..end]).unwrap();
            assert!(table.rows.len() <= 2);
        }
        let cut = &WHOLE[..WHOLE.find("\"in_place\":{\"cpu_time\"").unwrap()];
        let table = parse(cut).unwrap();
        assert_eq!((table.rows.len(), table.unfinished, table.complete), (1, Some((1 << 30, 0)), false));
        let found = judge(&table, "x.json");
        assert_eq!(
            (found[0].severity, found[0].summary.as_str()),
            (Severity::Warning, "nccl-tests all_reduce did not finish: it stopped at 1 GiB")
        );
    }

    #[test]
    fn failures_of_the_file_are_judged() {
        let text = WHOLE
            .replace("\"nwrong\":null", "\"nwrong\":17")
            .replace("{\"count\":0,\"okay\":\"true\"}", "{\"count\":1,\"okay\":\"false\"}");
        let table = parse(&text.replace("\"unchecked\"", "false")).unwrap();
        assert_eq!((table.wrong, table.fast_enough), (Some(17), Some(false)));
        let summaries: Vec<String> = judge(&table, "x.json").into_iter().map(|found| found.summary).collect();
        assert_eq!(summaries[0], "nccl-tests all_reduce: 17 wrong elements");
        assert!(summaries[1].contains("NCCL_TESTS_MIN_BW"), "{summaries:?}");
    }

    #[test]
    fn processes_and_devices_are_counted() {
        let config = |text: &str| ranks(&serde_json::from_str(text).unwrap());
        assert_eq!(config(r#"{"nthreads":1,"ngpus":1,"devices":[{"rank":0},{"rank":1}]}"#), Some(2));
        assert_eq!(config(r#"{"nthreads":1,"ngpus":4,"devices":[{"rank":0},{"rank":4}]}"#), Some(8));
        assert_eq!(config(r#"{"nthreads":1,"ngpus":2,"devices":[{"rank":0},{"rank":1}]}"#), Some(2));
        assert_eq!(config(r#"{"devices":[]}"#), None);
    }

    #[test]
    fn what_is_wrong_is_said_without_quoting() {
        let err = parse(r#"{"version":1,"env":["SECRET=hunter2"],"results":"hunter2"}"#).unwrap_err();
        assert!(err.starts_with("not the JSON that nccl-tests writes") && !err.contains("hunter2"), "{err}");
        assert!(parse("hello").is_err());
    }

    proptest! {
        #[test]
        fn no_mutation_makes_it_panic(at in 0..WHOLE.len(), len in 0_usize..40, with in "\\PC{0,8}") {
            let (Some(before), Some(after)) = (WHOLE.get(..at), WHOLE.get((at + len).min(WHOLE.len())..)) else { return Ok(()) };
            if let Ok(table) = parse(&format!("{before}{with}{after}")) {
                judge(&table, "x.json");
            }
        }
    }
}

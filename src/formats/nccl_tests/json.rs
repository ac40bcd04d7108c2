//! The file that `-J` writes (nccl-tests 2.17.3 and newer), also that of a run that was killed. Its `env` is never read: it may hold
//! secrets.

use super::{Devices, OutOfBounds, Row, Side, Table};
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
    aggregated_iterations: Value,
    blocking_collectives: Value,
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
    let (ranks, devices) = devices(&file.config);
    let mut table = Table { collective: collective(&file.args), ranks, devices, ..Table::default() };
    let by_cpu = |result: &Value| ["out_of_place", "in_place"].iter().any(|side| result[side].get("cpu_time").is_some());
    table.odd_timing = unsigned(&file.config.aggregated_iterations).is_some_and(|n| n > 1)
        || is_blocking(&file.config.blocking_collectives)
        || file.results.iter().any(by_cpu);
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
        table.fail(0, error, false, None);
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

/// A boolean, or the number of the mode.
fn is_blocking(value: &Value) -> bool {
    truth(value).unwrap_or_else(|| unsigned(value).is_some_and(|mode| mode > 0))
}

/// How many ranks there are, and their GPUs. Of each process only the first device is listed; a version that lists all has them in a row.
fn devices(config: &Config) -> (Option<u32>, Devices) {
    let each = unsigned(&config.nthreads).unwrap_or(1).saturating_mul(unsigned(&config.ngpus).unwrap_or(1)).max(1);
    let rank = |at: usize| config.devices.get(at).and_then(|device| device.get("rank")?.as_u64());
    let all_listed = rank(1).is_some_and(|second| second == rank(0).unwrap_or(0).saturating_add(1));
    let of_each = if all_listed { 1 } else { u32::try_from(each).unwrap_or(u32::MAX) };
    let mut devices = Devices::default();
    for device in &config.devices {
        let text = |key: &str| device.get(key).and_then(Value::as_str).map(str::trim);
        let rank = device.get("rank").and_then(Value::as_u64).and_then(|rank| u32::try_from(rank).ok());
        devices.add(
            rank.unwrap_or(u32::MAX),
            of_each,
            text("hostname"),
            text("device_info").and_then(|info| info.split_once('[')?.1.split_once(']')).map_or("", |(bus, _)| bus),
            text("device_info").and_then(|info| info.rsplit("] ").next()).unwrap_or_default(),
        );
    }
    let listed = u32::try_from(config.devices.len()).ok().filter(|listed| *listed > 0);
    (listed.and_then(|listed| listed.checked_mul(of_each)), devices)
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

//! NCCL Inspector's metrics in Prometheus text, of both generations.

use nccl_top::formats::inspector::prom::parse;
use proptest::prelude::*;

const OLD: &str = "nccl_algorithm_bandwidth_gbs{comm_id=\"0x1f\",hostname=\"n1\",rank=\"2\",slurm_job=\"a, \\\"b\\\"\",slurm_job_id=\"7\",\
    nranks=\"8\",n_nodes=\"1\",gpu_device_id=\"3\",collective=\"AllReduce\",coll_sn=\"14\",timestamp=\"1\",message_size=\"4096\"} 10.5\n";

#[test]
fn the_first_generation() {
    let other = OLD.replace("nccl_algorithm_bandwidth_gbs", "nccl_collective_exec_time_microseconds").replace("10.5", "33");
    let seen = parse(&format!("# HELP x\n\n{OLD}{other}broken\nother_metric{{a=\"b\"}} 1\n"));
    assert_eq!((seen.rows.len(), seen.bad_lines), (1, 1));
    let row = &seen.rows[0];
    assert_eq!((row.comm.as_deref(), row.rank, row.n_ranks, row.gpu), (Some("0x1f"), Some(2), Some(8), Some(3)));
    assert_eq!((row.operation.as_str(), row.message_size.as_str(), row.coll_sn), ("AllReduce", "4096", Some(14)));
    assert_eq!((row.algbw_gbytes_per_s, row.busbw_gbytes_per_s, row.exec_time_us), (Some(10.5), None, Some(33.0)));
}

#[test]
fn the_second_generation() {
    let labels = "version=\"v5.1\",slurm_job_id=\"\",node=\"n1\",gpu=\"GPU0\",comm_name=\"dp\",n_nodes=\"1\",nranks=\"8\"";
    let text = format!(
        "nccl_bus_bandwidth_gbs{{{labels},collective=\"AllReduce\",message_size=\"4-5GB\",algo_proto=\"Ring_ll\"}} 350\n\
         nccl_p2p_exec_time_microseconds{{{labels},p2p_operation=\"Send\",message_size=\"4-5GB\"}} nan\n"
    );
    let seen = parse(&text);
    assert_eq!((seen.rows[0].gpu, seen.rows[0].host.as_deref(), seen.rows[0].comm.as_deref()), (Some(0), Some("n1"), Some("dp")));
    assert_eq!((seen.rows[0].busbw_gbytes_per_s, seen.rows[0].algo_proto.as_deref()), (Some(350.0), Some("Ring_ll")));
    assert_eq!((seen.rows[1].p2p, seen.rows[1].operation.as_str(), seen.rows[1].exec_time_us), (true, "Send", None));
}

proptest! {
    #[test]
    fn no_mutation_makes_it_panic(at in 0..OLD.len(), len in 0_usize..40, with in "\\PC{0,8}") {
        if let (Some(before), Some(after)) = (OLD.get(..at), OLD.get((at + len).min(OLD.len())..)) {
            parse(&format!("{before}{with}{after}"));
        }
    }
}

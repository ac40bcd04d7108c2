//! What `check` tells of the run itself: facts that lines name, and what is no fact of it.

use crate::check_run::{holds, lacks};

#[test]
fn what_engines_say_when_they_start() {
    holds(
        "INFO 07-01 10:00:00 [gpu_worker.py:298] Available KV cache memory: 16.23 GiB\nINFO 07-01 10:00:01 [kv_cache_utils.py:864] GPU KV cache size: 425,424 tokens\n\
         INFO 07-01 10:00:01 [kv_cache_utils.py:868] Maximum concurrency for 65,536 tokens per request: 6.49x\n\
         INFO 07-01 10:00:09 [core.py:193] init engine (profile, create kv cache, warmup model) took 25.99 seconds\n",
        &["16.23 GiB for the KV cache", "KV cache of 425,424 tokens", "room for 6.49 requests of the full length", "ready after 25.99 s"],
    );
    // Behind the comma stands the next number's name, and no unit.
    holds(
        "[2026-03-27 09:31:49 TP0] KV Cache is allocated. #tokens: 139814, K size: 5.33 GB, V size: 5.33 GB\n\
         [2026-03-27 09:32:10 TP0] Decode batch. #running-req: 3, #token: 412, gen throughput (token/s): 97.20, #queue-req: 0\n\
         [2026-03-27 09:32:20 TP0] Decode batch. #running-req: 2, #token: 300, gen throughput (token/s): 64.10, #queue-req: 0\n",
        &["KV cache of 139,814 tokens", "serving the last: Decode batch. #running-req: 2, #token: 300, gen throughput (token/s): 64.10"],
    );
}

#[test]
fn gpus_are_those_that_are_there() {
    holds(
        "[titan] 2026-01-01 10:00:00,000 - root - INFO - CUDA capacity: NVIDIA H200 with 139.83GiB memory\n\
         [titan] 2026-01-01 10:00:01,000 - root - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]\n\
         [titan] 2026-01-01 10:00:02,000 - root - INFO - Model llama3 8B size: 8,030,261,248 total parameters\n\
         [titan] 2026-01-01 10:00:09,000 - root - INFO - step: 10 loss: 9.1 memory: 49.59GiB(35.46%) tps: 6,856 mfu: 40.15%\n",
        &["GPUs H200", "device mesh with [dp_shard, tp], [4, 2]", "8,030,261,248 parameters"],
    );
    // Nodes may differ.
    holds("world_size: 16\nnode-1: NVIDIA A100-SXM4-80GB\nnode-2: NVIDIA GeForce RTX 4090\n", &["GPUs A100-SXM4-80GB, RTX 4090"]);
    lacks(
        "world_size: 8\nRequirements: NVIDIA H100 or newer\nCopyright NVIDIA 2024\nstep 5 | loss 2.1\nNVIDIA CX7\n# NVIDIA V100 GPUs are not supported\ncleaning up the workers\n",
        &["GPUs"],
    );
}

#[test]
fn nodes_of_a_graph_are_no_nodes_of_the_job() {
    let log = "world_size: 4\nDataset: cora, num_nodes: 2708\nmain.py --num_gpus 8\nstep 5 | loss 2.1\n";
    holds(log, &["4 ranks"]);
    lacks(log, &["2708", "2,708"]);
    holds("node_name: box-1\nnum_gpus_per_node: 8\ntraining on 8 devices (GPUs/TPUs)\nstep 5 | loss 2.1\n", &["8 ranks"]);
}

#[test]
fn processes_that_end_well_are_counted() {
    let end = |pid: u32| format!("[2024-03-08 16:33:22,618] [INFO] [launch.py:348:main] Process {pid} exits successfully.\n");
    let scale = "[2024-03-08 16:33:21,415] [INFO] [unfused_optimizer.py:207:step] [deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 65536.0, reducing to 32768.0\n";
    holds(
        &format!("{scale}{}{}", end(57010), end(57011)),
        &["exits 2 processes exited successfully", "Attempted loss scale: 65536.0, reducing to 32768.0"],
    );
    lacks("world_size: 2\nThe supervisor waits until the dataloader worker exits successfully\n", &["exited successfully"]);
}

#[test]
fn an_engine_for_evaluations_resumes_nothing() {
    let of = |engine: &str| {
        format!(
            "world_size: 2\n[2023-04-08 05:21:32.319][ INFO](ignite.engine.engine.{engine}) - Engine run resuming from iteration 0, epoch 9 until 10 epochs\n"
        )
    };
    lacks(&of("SupervisedEvaluator"), &["resumed"]);
    holds(&of("SupervisedTrainer"), &["resumed"]);
    holds(
        "world_size: 2\nLoaded checkpoint /runs/reward_evaluator/ckpt-100.pt\n",
        &["resumed Loaded checkpoint /runs/reward_evaluator/ckpt-100.pt"],
    );
}

#[test]
fn a_step_that_its_user_ended_is_no_failure() {
    holds(
        "srun: forcing job termination\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n\
         slurmstepd: error: *** STEP 43230.0 ON node-3 CANCELLED AT 2025-04-15T19:07:03 ***\nsrun: error: node-3: task 0: Killed\n",
        &["WARN srun was told to end the step"],
    );
    // One that failed by itself before is.
    holds(
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/train.py\", line 48, in main\n[rank0]: ValueError: odd\n\
         srun: forcing job termination\nslurmstepd: error: *** STEP 43230.0 ON node-3 CANCELLED AT 2025-04-15T19:07:03 ***\n",
        &["FAIL (code) rank 0: ValueError: odd"],
    );
}

#[test]
fn ranks_that_horovod_waits_for_are_named_in_either_form() {
    for head in ["Missing ranks:", "Stalled ranks:"] {
        let log = format!(
            "[1,0]<stderr>:[2019-10-09 15:36:43.594972: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks\n\
             [1,0]<stderr>:{head}\n[1,0]<stderr>:6: [horovod_allreduce.0, horovod_allreduce.1 ...]\n"
        );
        holds(&log, &["rank 6 did not submit horovod_allreduce.0 to Horovod"]);
    }
}

#[test]
fn gpus_of_one_process_are_named_all() {
    let warn = |gpu: u32| format!("node-3:3778851:377988{gpu} [{gpu}] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed\n");
    holds(&[4, 5, 6].map(warn).concat(), &["CUDA devices 4, 5 and 6 of node-3: Call to ibv_create_qp failed"]);
}

#[test]
fn a_host_in_front_of_a_line_wrote_all_of_it() {
    let log = "10.0.0.7: die: error: must run as root[rank5]: Traceback (most recent call last):\n10.0.0.7: [rank5]:   File \"/w/test.py\", line 88, in <module>\n\
               10.0.0.7: [rank5]:     main()\n10.0.0.7: [rank5]:   File \"/w/test.py\", line 64, in main\n10.0.0.7: [rank5]:     optimizer = FusedAdam(\n";
    holds(log, &["rank 5: an exception in main (test.py)", "said by rank 5, host 10.0.0.7"]);
}

/// A line with a year tells that of the lines that have none, also where it says nothing else.
#[test]
fn the_year_is_that_of_other_lines() {
    let log = "[2021/06/17 16:07:55] root INFO: Optimizer : Adam\nW0617 16:07:55.770917 2871871 dynamic_loader.cc:238] You may need to install it\n\
        Traceback (most recent call last):\n  File \"train.py\", line 47, in main\n    init()\nRuntimeError: no such library\n";
    holds(log, &["after 2021-06-17T16:07:55.770"]);
    // One that is far away, or of a clock that was not set, does not.
    for line in ["2019-03-01 10:00:00 built", "1970-01-01 00:00:12 clock not set"] {
        lacks(&log.replacen("[2021/06/17 16:07:55] root INFO: Optimizer : Adam", line, 1).replace("W0617", "W1117"), &["2018", "1969"]);
    }
}

#[test]
fn the_end_of_a_benchmark_has_its_name() {
    holds(
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 178.078 \n#\n# Collective test concluded: all_reduce_perf\n",
        &["all_reduce, its rows are not here, average 178.1 GB/s"],
    );
}

#[test]
fn keras_says_the_epoch_above_its_steps() {
    let line = "70/70 [==============================] - 2s 28ms/step - loss: 2.1268 - accuracy: 0.5488";
    holds(&format!("Epoch 2/3\n{line}\nEpoch 3/3\n{line}\n"), &["step 70 of 70 epoch 3 loss 2.1268"]);
}

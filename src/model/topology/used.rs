//! What NCCL made of the topology, by the channel lines of logs.

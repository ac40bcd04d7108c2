//! The catalogue: every text of NCCL, PyTorch, CUDA, the kernel and the launchers that says that something is wrong, or seems to.
//!
//! One file for each kind of program. The texts are those of the programs, spelling mistakes included.

mod cuda;
mod kernel;
mod nccl_api;
mod nccl_gpu;
mod nccl_ib;
mod nccl_info;
mod nccl_net;
mod nccl_proxy;
mod nccl_ras;
mod nccl_shm;
mod nccl_sockets;
mod nccl_topology;
mod ofi;
mod python;
mod schedulers;
mod torch_nccl;
mod torch_nccl2;
mod torch_store;
mod torchrun;
mod trainers;
mod xid;

use super::signature::Table;

/// All tables, in the order in which `nccl-top rules` lists them.
#[rustfmt::skip]
pub static TABLES: &[&Table] = &[
    &nccl_sockets::TABLE,
    &nccl_ib::TABLE,
    &ofi::TABLE,
    &nccl_net::TABLE,
    &nccl_gpu::TABLE,
    &nccl_shm::TABLE,
    &nccl_proxy::TABLE,
    &nccl_api::TABLE,
    &nccl_topology::TABLE,
    &nccl_info::TABLE,
    &nccl_ras::TABLE,
    &torch_nccl::TABLE,
    &torch_nccl2::TABLE,
    &torch_store::TABLE,
    &torchrun::TABLE,
    &python::TABLE,
    &cuda::TABLE,
    &xid::TABLE,
    &kernel::TABLE,
    &schedulers::TABLE,
    &trainers::TABLE,
];

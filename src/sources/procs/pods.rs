//! Which pod of Kubernetes a process runs in, and the log that the container runtime writes of it. By the control group and kubelet's
//! directories alone: no API server is asked.

use crate::observe::process::{LogVia, Pod, ProcessLog};
use crate::sources::Roots;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// kubelet allows 110 pods on a node by default.
const MOST_PODS: usize = 4096;
const MOST_CONTAINERS: usize = 64;
/// kubelet keeps five logs of a container.
const MOST_LOGS: usize = 64;
const LOGS: &str = "/var/log/pods";
/// Links to the same files, whose names have the id of the container.
const LINKS: &str = "/var/log/containers";

/// The pod of a control group, and its directory below `/var/log/pods`. `None`: it is none of a pod.
pub fn of(roots: &Roots, cgroup: &str) -> Option<(Pod, Option<PathBuf>)> {
    let uid = cgroup.split('/').rev().find_map(uid_in)?;
    let id = cgroup.rsplit('/').next().and_then(container_id);
    let mut pod = Pod { uid, ..Pod::default() };
    let ending = format!("_{}", pod.uid);
    // NAMESPACE_NAME_UID: neither of the names can have an underscore.
    let Some(dir) = names(&roots.path(LOGS), MOST_PODS).find(|name| name.ends_with(&ending)) else { return Some((pod, None)) };
    if let Some((namespace, name)) = dir.strip_suffix(&ending).and_then(|names| names.split_once('_')) {
        (pod.namespace, pod.name) = (Some(super::printable(namespace.as_bytes())), Some(super::printable(name.as_bytes())));
    }
    let dir = roots.path(LOGS).join(dir);
    pod.container = container(roots, &dir, id);
    let log = pod.container.as_ref().map(|container| dir.join(container));
    Some((pod, log))
}

/// The newest log of a container: `CONTAINER/0.log`, with the number of its restart.
pub fn log(container: &Path) -> Option<ProcessLog> {
    let number = |name: String| name.strip_suffix(".log")?.parse::<u32>().ok();
    let newest = names(container, MOST_LOGS).filter_map(number).max()?;
    let path = container.join(format!("{newest}.log"));
    let meta = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    Some(ProcessLog { via: LogVia::Stdout, path: path.to_str()?.to_owned(), inode: Some(meta.ino()), device: Some(meta.dev()) })
}

/// Which of the pod's containers has this id: the only one, or the one that a link names with the id.
fn container(roots: &Roots, pod: &Path, id: Option<&str>) -> Option<String> {
    let mut containers = names(pod, MOST_CONTAINERS).filter(|name| pod.join(name).is_dir());
    let first = containers.next()?;
    let others: Vec<String> = containers.collect();
    if others.is_empty() {
        return Some(first);
    }
    // POD_NAMESPACE_CONTAINER-ID.log
    let ending = format!("-{}.log", id?);
    let link = names(&roots.path(LINKS), MOST_PODS).find(|name| name.ends_with(&ending))?;
    let named = link.strip_suffix(&ending)?.rsplit('_').next()?;
    std::iter::once(first).chain(others).find(|container| container == named)
}

fn names(dir: &Path, most: usize) -> impl Iterator<Item = String> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().take(most).flatten().filter_map(|entry| entry.file_name().into_string().ok())
}

/// `pod2f0c8d1e-…` of cgroupfs, `kubepods-burstable-pod2f0c8d1e_….slice` of systemd, which has underscores for dashes; static pods have 32
/// digits without either.
fn uid_in(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = part.strip_prefix("pod").or_else(|| part.rsplit_once("-pod").map(|(_, uid)| uid))?.replace('_', "-");
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uid = digits == 32 && (uid.len() == 32 || uid.len() == 36 && [8, 13, 18, 23].iter().all(|at| uid.as_bytes()[*at] == b'-'));
    is_uid.then_some(uid)
}

/// `cri-containerd-8d3f….scope`, `crio-8d3f….scope`, or the id alone.
fn container_id(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = part.rsplit_once('-').map_or(part, |(_, id)| id);
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

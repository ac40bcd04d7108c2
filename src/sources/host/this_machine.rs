//! What sysinfo knows of this very machine: it cannot be asked about a tree below `--sysroot`.

use crate::observe::SourceState;
use crate::observe::host::{DiskSample, HostSample, Node};
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use sysinfo::{CpuRefreshKind, Disk, DiskRefreshKind, Disks, System};

/// File systems that are reported. A node of a cluster may have a thousand mounts, most of them of containers.
const MAX_DISKS: usize = 32;
/// A smaller one is nothing that a job writes to, or no disk at all.
const LEAST: u64 = 1 << 20;
/// A server that is well answers within this.
const PROMPT: Duration = Duration::from_millis(200);
/// One that has not answered for so long hangs.
const HANGS: Duration = Duration::from_secs(5);
/// File systems whose free space is a question to another machine, or to a process. What begins with `fuse` is, too.
const REMOTE: &[&str] = &[
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "orangefs",
    "panfs",
    "pvfs2",
    "smb3",
    "smbfs",
    "vastnfs",
    "virtiofs",
    "wekafs",
];

/// Where every job writes: temporary files, and shared memory of its data loaders and of NCCL.
const PLACES: &[&str] = &["/tmp", "/dev/shm"];

pub(super) struct Live {
    memory: System,
    mounts: Disks,
    /// Not answered yet.
    asked: Vec<Asked>,
}

/// A remote file system that is asked for its free space in a thread of its own, which may hang for as long as the server does.
struct Asked {
    mount: Mount,
    since: Instant,
    answer: Receiver<Option<DiskSample>>,
}

#[derive(Clone)]
struct Mount {
    path: PathBuf,
    kind: String,
    device: String,
}

impl Live {
    pub(super) fn new() -> Live {
        Live { memory: System::new(), mounts: Disks::new(), asked: Vec::new() }
    }

    pub(super) fn describe(node: &mut Node) {
        let words = [System::name(), System::os_version()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        node.os = Some(words).filter(|words| !words.is_empty());
        let mut cpus = System::new();
        cpus.refresh_cpu_list(CpuRefreshKind::nothing());
        let model = cpus.cpus().first().map(|cpu| cpu.brand().split_whitespace().collect::<Vec<_>>().join(" "));
        node.cpu_model = model.filter(|model| !model.is_empty());
        node.booted_at_s = Some(System::boot_time()).filter(|&at| at > 0);
    }

    pub(super) fn memory(&mut self, sample: &mut HostSample) {
        self.memory.refresh_memory();
        let of = &self.memory;
        if of.total_memory() > 0 {
            (sample.mem_total_bytes, sample.mem_available_bytes) = (Some(of.total_memory()), Some(of.available_memory()));
            (sample.swap_total_bytes, sample.swap_free_bytes) = (Some(of.total_swap()), Some(of.free_swap()));
        }
    }

    /// All file systems that hold files of somebody; without those that do not answer.
    ///
    /// sysinfo only lists them: it would ask one after the other, so that one that hangs hides all behind it.
    pub(super) fn disks(&mut self) -> Vec<DiskSample> {
        self.mounts.refresh_specifics(true, DiskRefreshKind::nothing());
        let (remote, local): (Vec<Mount>, Vec<Mount>) = chosen(self.mounts.list()).into_iter().partition(Mount::is_remote);
        let mut disks: Vec<DiskSample> = local.iter().filter_map(Mount::space).collect();
        for mount in remote {
            if !self.asked.iter().any(|asked| asked.mount.path == mount.path) {
                self.asked.extend(mount.ask(Mount::space));
            }
        }
        disks.extend(self.answers());
        for place in PLACES {
            let device = device_of(Path::new(place));
            disks.iter_mut().filter(|disk| device.is_some() && disk.device == device).for_each(|disk| disk.places.push((*place).into()));
        }
        disks.sort_by(|a, b| a.mount.cmp(&b.mount));
        disks
    }

    fn answers(&mut self) -> Vec<DiskSample> {
        let until = Instant::now() + PROMPT;
        let mut answers = Vec::new();
        self.asked.retain(|asked| match asked.answer.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(answer) => {
                answers.extend(answer);
                false
            }
            Err(err) => err == RecvTimeoutError::Timeout,
        });
        answers
    }

    /// Which file systems do not answer.
    pub(super) fn trouble(&self) -> Option<(SourceState, String)> {
        let hanging = self.asked.iter().filter(|asked| asked.since.elapsed() > HANGS);
        let names: Vec<String> = hanging.map(|asked| format!("{} ({})", asked.mount.path.display(), asked.mount.kind)).collect();
        let verb = if names.len() == 1 { "does" } else { "do" };
        (!names.is_empty()).then(|| (SourceState::Slow, format!("{} {verb} not answer: free space is not known", names.join(", "))))
    }
}

/// `None`: it is not there, or may not be asked.
fn device_of(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|found| found.dev())
}

/// Each file system once, although it may be mounted at many places.
fn chosen(disks: &[Disk]) -> Vec<Mount> {
    let text = |os: &std::ffi::OsStr| os.to_string_lossy().into_owned();
    let all = disks.iter().map(|d| Mount { path: d.mount_point().to_owned(), kind: text(d.file_system()), device: text(d.name()) });
    let mut mounts: Vec<Mount> = all.filter(Mount::may_fill).collect();
    // Containers have single files mounted over those in /etc, and the node's own file systems under long names.
    mounts.sort_by_key(|mount| (mount.path.starts_with("/etc"), mount.path.as_os_str().len()));
    let mut devices = BTreeSet::new();
    mounts.retain(|mount| !mount.has_telling_device() || devices.insert(mount.device.clone()));
    mounts.truncate(MAX_DISKS);
    mounts
}

impl Mount {
    /// To ask an automounter mounts everything; small ones of a container's secrets are nobody's disk.
    fn may_fill(&self) -> bool {
        self.kind != "autofs" && !(self.kind == "tmpfs" && self.path.starts_with("/var/lib"))
    }

    fn has_telling_device(&self) -> bool {
        self.device.contains(['/', ':']) || self.kind == "overlay"
    }

    fn is_remote(&self) -> bool {
        self.kind.starts_with("fuse") || REMOTE.contains(&self.kind.as_str())
    }

    /// Blocks for as long as the file system does. `None`: there is nothing to fill, or it may not be asked.
    fn space(&self) -> Option<DiskSample> {
        let fs = statvfs(&self.path).ok()?;
        let total_bytes = fs.f_blocks.saturating_mul(fs.f_frsize);
        (total_bytes >= LEAST).then(|| DiskSample {
            mount: self.path.to_string_lossy().into_owned(),
            total_bytes,
            // What an ordinary user may still write; root has a reserve beyond that.
            free_bytes: fs.f_bavail.saturating_mul(fs.f_frsize),
            fs: Some(self.kind.clone()),
            read_only: Some(fs.f_flag.contains(StatVfsMountFlags::RDONLY)),
            inodes_total: Some(fs.f_files).filter(|&n| n > 0),
            inodes_free: Some(fs.f_favail).filter(|_| fs.f_files > 0),
            device: device_of(&self.path),
            places: Vec::new(),
        })
    }

    fn ask(self, how: fn(&Mount) -> Option<DiskSample>) -> Option<Asked> {
        let (tx, answer) = sync_channel(1);
        let mount = self.clone();
        let ask = move || drop(tx.send(how(&mount)));
        std::thread::Builder::new().name("disk".into()).stack_size(64 << 10).spawn(ask).ok()?;
        Some(Asked { mount: self, since: Instant::now(), answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(path: &str, kind: &str) -> Mount {
        Mount { path: path.into(), kind: kind.into(), device: "server:/export".into() }
    }

    /// The file system of the root. Where that is a remote one, it may take its time.
    fn root_of(live: &mut Live) -> DiskSample {
        let looks = std::iter::repeat_with(|| live.disks()).take(100);
        looks.flatten().find(|disk| disk.mount == "/").expect("every machine has a root")
    }

    #[test]
    fn a_file_system_that_hangs_is_named_and_holds_up_nothing() {
        let mut live = Live::new();
        let hang = |_: &Mount| loop {
            std::thread::park();
        };
        live.asked.extend(mount("/mnt/dead", "nfs4").ask(hang));
        live.asked.extend(
            mount("/mnt/well", "nfs4").ask(|mount| Some(DiskSample { mount: mount.path.display().to_string(), ..DiskSample::default() })),
        );
        // Whatever the order: all that is well is heard within the time of one.
        let mut heard = Vec::new();
        while heard.is_empty() {
            heard = live.answers();
        }
        assert_eq!((heard.len(), heard[0].mount.as_str()), (1, "/mnt/well"));
        assert_eq!(live.trouble(), None, "not at once");
        live.asked[0].since = Instant::now().checked_sub(HANGS * 2).unwrap();
        let why = "/mnt/dead (nfs4) does not answer: free space is not known";
        assert_eq!(live.trouble(), Some((SourceState::Slow, why.to_owned())));
        root_of(&mut live);
        assert_eq!(live.asked.iter().filter(|asked| asked.mount.path.starts_with("/mnt/dead")).count(), 1, "it is not asked again");
    }

    #[test]
    fn file_systems_of_other_machines_are_told_from_local_ones() {
        for (kind, remote) in [
            ("nfs4", true),
            ("lustre", true),
            ("fuse.sshfs", true),
            ("fuseblk", true),
            ("ext4", false),
            ("tmpfs", false),
            ("overlay", false),
        ] {
            assert_eq!(mount("/x", kind).is_remote(), remote, "{kind}");
        }
        assert!(!mount("/home", "autofs").may_fill() && mount("/dev/shm", "tmpfs").may_fill());
    }
}

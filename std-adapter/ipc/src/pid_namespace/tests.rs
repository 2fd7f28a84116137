//! Tests of processes in containers, and their threads.

use std::path::PathBuf;

use super::*;
use tracebuf_session::parts::Piece;

/// Stands in for `/proc`, until it is dropped.
struct FakeProc(PathBuf);

impl FakeProc {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tracebuf-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let proc = Self(folder);
        proc.says("self", "Name:\tservice\nNSpid:\t9\n");
        proc
    }

    fn says(&self, of: &str, status: &str) {
        let folder = self.0.join(of);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("status"), status).expect("a file");
    }

    /// A process that has this number, and 1 in its container.
    fn container(&self, pid: u32) {
        self.says(&pid.to_string(), &format!("Name:\tinit\nPPid:\t7\nUid:\t5\t6\t6\t6\nNSpid:\t{pid}\t1\n"));
        self.thread(pid, pid, 1);
    }

    fn thread(&self, pid: u32, tid: u32, inner: u32) {
        self.says(&format!("{pid}/task/{tid}"), &format!("Name:\tthread {inner}\nNSpid:\t{tid}\t{inner}\n"));
    }
}

impl Drop for FakeProc {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a trace would report, as text to search.
fn told(tree: &ProcessTree) -> String {
    let mut piece = Piece::default();
    piece.processes(tree, 0).expect("memory");
    String::from_utf8_lossy(&piece.bytes).into_owned()
}

#[test]
fn a_status_tells_of_the_numbers_in_each_namespace() {
    let text = "Name:\tdb: writer\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t29644\nNgid:\t0\nPid:\t29645\n\
        PPid:\t29643\nTracerPid:\t0\nUid:\t1000\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t\n\
        NStgid:\t29644\t12\t1\nNSpid:\t29645\t13\t2\nNSpgid:\t29634\t0\t0\nNSsid:\t4411\t0\t0\nThreads:\t2\n";
    let status =
        Status { name: "db: writer".to_owned(), ppid: 29643, uid: 1000, numbers: vec![29645, 13, 2] };
    assert_eq!(Status::parse(text), status);
    // From a kernel older than these.
    assert_eq!(Status::parse("Name:\tsh\nPid:\t7\n").numbers, []);
    assert_eq!(Status::parse("NSpid:\t7\tx\nPPid:\t\n"), Status { numbers: vec![7], ..Status::default() });
}

#[test]
fn only_a_process_of_another_namespace_than_the_service_s_is_told_of() {
    let (proc, tree) = (FakeProc::new("told-of"), ProcessTree::default());
    let of = |pid: i32| NamespacedProcess::of(&proc.0, pid, 0, &tree).is_some();
    proc.says("10", "Name:\tneighbour\nNSpid:\t10\n");
    proc.says("11", "Name:\told\n");
    // Another process, which has that number in the namespace of `/proc`.
    proc.says("12", "Name:\tother\nNSpid:\t13\t1\n");
    assert_eq!([10, 11, 12, 14, 0, -1].map(of), [false; 6]);
    assert_eq!(told(&tree), "");
    proc.container(20);
    assert!(of(20));
    // The service's numbers are not those of this `/proc`.
    proc.container(21);
    proc.says("self", "Name:\tservice\nNSpid:\t900\t9\n");
    assert!(!of(21));
    std::fs::remove_dir_all(proc.0.join("self")).expect("it is there");
    assert!(!of(21));
}

#[test]
fn threads_are_told_of_as_they_begin_to_record() {
    let (proc, tree) = (FakeProc::new("threads"), ProcessTree::default());
    proc.container(20);
    let words = ["server\0", &"x".repeat(1 << 20)].concat();
    std::fs::write(proc.0.join("20/cmdline"), words).expect("a file");
    let mut contained = NamespacedProcess::of(&proc.0, 20, 0, &tree).expect("in a container");
    let first = told(&tree);
    assert!(first.contains("server") && first.contains("thread 1") && first.len() < 4400, "{}", first.len());
    proc.thread(20, 21, 2);
    // One that has ended in between, and one that has no number of its own any more.
    std::fs::create_dir(proc.0.join("20/task/22")).expect("a folder");
    proc.says("20/task/23", "Name:\tended\n");
    contained.look_if_due();
    assert!(!told(&tree).contains("thread 2"));
    contained.has_new_writer();
    contained.look_if_due();
    assert!(told(&tree).contains("thread 2") && !told(&tree).contains("ended"));
    assert!(!contained.is_due);
}

#[test]
fn who_has_new_writers_all_the_time_is_looked_at_for_a_tenth_of_it() {
    let (proc, tree) = (FakeProc::new("tenth"), ProcessTree::default());
    proc.container(20);
    let mut contained = NamespacedProcess::of(&proc.0, 20, 0, &tree).expect("in a container");
    proc.thread(20, 21, 2);
    contained.taken = Duration::from_secs(3600);
    contained.has_new_writer();
    contained.look_if_due();
    assert!(!told(&tree).contains("thread 2"));
    // It is done later, not forgotten.
    contained.taken = AT_ONCE;
    contained.look_if_due();
    assert!(told(&tree).contains("thread 2"));
    assert!(!contained.is_due);
}
